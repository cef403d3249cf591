"""The OpenAPI 3.1 document of each listener, made from its routes: their signatures, docstrings, access and refusals.

The first paragraph of a handler's docstring is the summary, and the rest its description. A route with
`include_in_schema=False` is for people, not for programs, and is left out.
"""

import re
from collections.abc import Iterable
from importlib.metadata import version
from typing import Any

from api import errors, vocabulary
from api.auth import Access
from api.deprecation import is_deprecated, replacement_of
from api.examples import example_of
from api.refusals import Refusal, refusals_of
from api.route_signatures import PATH, Signature, signature_of
from api.schemas import Schema, Schemas, first_line
from core.base import field_messages, languages
from core.base.actor import UserType

WHO = {UserType.CUSTOMER: "customers", UserType.MITRA: "mitras", UserType.OPERATOR: "operators"}
TITLE = {"public": "Sesi: apps and gateway", "internal": "Sesi: control center"}
ABOUT = """{who}

**Access.** Send `Authorization: Bearer` with the `access_token` of a sign-in. It is valid for `expires_in` seconds. The
`refresh_token` gets new tokens. It can be used once; a retry within 30 s gets the same answer. Tokens of the other listener
are refused. The list of devices shows the `X-Platform` and `X-App-Version` that a sign-in sent. `X-Locale`, `id` or `en`,
sets the language of the device's pushes; it is stored at a sign-in, a refresh or the registration of the push token.

**Errors.** Every refusal has the body `Error`, with a stable `code` for programs and a `message` for people. If it has
`retry_after_seconds`, the header `Retry-After` has the same number. Another user's objects are 404, as if they did not
exist. Unknown fields in a body are 422. A body has at most 64 KiB.

`message` and the messages of fields are in Indonesian or English. `Accept-Language` selects the language, English is the
default, and `Content-Language` names it.

**Lists.** A list has `items`, newest first, and `next_cursor`. Send it as `cursor` to get the next page; it is null on the
last page. `limit` is 1 to 200, by default 50.

**Limits.** {limits} A 429 says how long to wait.

**Time.** All times are ISO 8601 in UTC with `Z`. Every answer has `X-Server-Time`: use it for countdowns, because clocks
of phones are wrong. `X-Request-Id` is taken from the request, or generated; it is returned and logged."""
WHO_IS_IT_FOR = {
    "public": "The interface for the apps of customers and mitras, and for the payment gateway. Chats use WebSockets, which"
    " an AsyncAPI document describes.",
    "internal": "The interface for the control center. Operators have roles, and each route names the permission it needs.",
}
LIMITS = {
    "public": "Requests are limited for each user. Requests without a token, and those of anonymous customers who have"
    " not paid yet, are also limited for each address.",
    "internal": "Requests are limited for each operator, and sign-ins for each address. Too many wrong passwords lock"
    " the sign-in for a time.",
}
ERROR: Schema = {
    "type": "object",
    "description": "A refusal.",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message"],
            "properties": {
                "code": {"type": "string", "pattern": "^[A-Z][A-Z0-9_]*$"},
                "message": {"type": "string"},
                "details": {
                    "type": "object",
                    "description": "VALIDATION_ERROR has `fields`, at most 20, each with `field` and `message`, and `more`, the"
                    " number of further ones.",
                    "additionalProperties": True,
                },
                "retry_after_seconds": {"type": "integer", "minimum": 0},
            },
        }
    },
}
HEADERS: Schema = {
    "X-Server-Time": {"description": "The service's time.", "schema": {"type": "string", "format": "date-time"}},
    "X-Request-Id": {"description": "The request's id, as in the log.", "schema": {"type": "string"}},
    "Content-Language": {"description": "The language of the error message.", "schema": {"enum": ["id", "en"]}},
    "Deprecation": {
        "description": "`@` and the Unix time at which the route was deprecated.",
        "schema": {"type": "string"},
    },
    "Sunset": {"description": "The day after which a release may remove the route.", "schema": {"type": "string"}},
    "Link": {
        "description": 'The route that replaces this one: `rel="successor-version"`.',
        "schema": {"type": "string"},
    },
    "Retry-After": {"description": "Seconds to wait before a retry.", "schema": {"type": "integer"}},
}
PARAMETERS: Schema = {
    "X-Request-Id": {
        "name": "X-Request-Id",
        "in": "header",
        "description": "Returned and logged if it is valid; otherwise one is generated.",
        "schema": {"type": "string", "maxLength": 128},
    },
    "Accept-Language": {
        "name": "Accept-Language",
        "in": "header",
        "description": "The language of error messages, `id` or `en`, as browsers send it. The default is English.",
        "schema": {"type": "string"},
        "example": "id-ID, id;q=0.9, en;q=0.8",
    },
    "X-Locale": {
        "name": "X-Locale",
        "in": "header",
        "description": "The language of this device's pushes from now on, `id` or `en`. It is stored with the device; the"
        " default is Indonesian. Other values are ignored.",
        "schema": {"type": "string"},
        "example": "id",
    },
    "Idempotency-Key": {
        "name": "Idempotency-Key",
        "in": "header",
        "description": "A retry with the same key and body within 24 h gets the first answer again.",
        "schema": {"type": "string", "minLength": 1, "maxLength": 255},
    },
    "X-Callback-Token": {
        "name": "X-Callback-Token",
        "in": "header",
        "description": "The secret that the gateway shares with the service. 401 if it is wrong or missing.",
        "schema": {"type": "string"},
    },
}
WAITS = frozenset({423, 429, 503})
"""Statuses that come with `Retry-After`."""


def document(routes: Iterable[Any], *, listener: str) -> dict[str, Any]:
    """Return a listener's OpenAPI document. `routes` are its handlers; they need not be registered."""
    schemas = Schemas()
    paths: dict[str, Any] = {}
    for handler in routes:
        if handler.include_in_schema is False:
            continue
        for path in sorted(handler.paths, key=lambda one: (is_deprecated(one), one)):
            (method,) = handler.http_methods
            plain = PATH.sub(r"{\1}", path)
            paths.setdefault(plain, {})[method.lower()] = _operation(handler, path, listener, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": TITLE[listener],
            "version": version("sesi"),
            "description": ABOUT.format(who=WHO_IS_IT_FOR[listener], limits=LIMITS[listener]),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "tags": [{"name": name} for name in sorted({o["tags"][0] for p in paths.values() for o in p.values()})],
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": {"Error": ERROR, **dict(sorted(schemas.components.items()))},
            "headers": HEADERS,
            "parameters": PARAMETERS,
            "securitySchemes": {"bearerAuth": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}},
        },
    }


def tag_of(handler: Any, path: str) -> str:
    """Return a route's tag: its area on the internal listener, its module on the public one."""
    area = re.match(r"/internal/([a-z-]+)", path)
    return area[1] if area else handler.fn.__module__.rpartition(".")[2].replace("_", "-")


def _operation(handler: Any, path: str, listener: str, schemas: Schemas) -> Schema:
    access: Access = handler.opt["access"]
    signature = signature_of(handler)
    deprecated = is_deprecated(path)
    tag = tag_of(handler, path)
    made: Schema = {
        "operationId": _operation_id(
            tag.replace("-", "_"), handler.fn.__name__, alias=deprecated and len(handler.paths) > 1
        ),
        "tags": [tag],
        "summary": first_line(handler.fn).rstrip("."),
        "description": _description(handler, access),
        "parameters": _parameters(handler, path, signature, schemas),
        "responses": _responses(handler, signature, schemas, listener),
        "security": _security(access),
    }
    if deprecated:
        made["deprecated"] = True
        _add_headers(made["responses"], ("Deprecation", "Sunset", *(("Link",) if replacement_of(path) else ())))
    if signature.body is not None:
        made["requestBody"] = _request_body(signature, access, schemas)
    return made


def _operation_id(tag: str, name: str, *, alias: bool) -> str:
    return (name if name == tag else f"{tag}_{name}") + ("_legacy" if alias else "")


def _add_headers(responses: Schema, names: Iterable[str]) -> None:
    for response in responses.values():
        response["headers"] |= {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def _description(handler: Any, access: Access) -> str:
    rest = " ".join((handler.fn.__doc__ or "").partition("\n\n")[2].split())
    if access.area:
        who = f"For operators with `{access.area}`: `{access.level}`."
    elif access.kinds:
        who = f"For {' and '.join(sorted(WHO[kind] for kind in access.kinds))}."
    elif access.optional:
        who = "Needs no token, but uses one if it is sent."
    else:
        who = "Needs no token."
    return f"{rest} {who}".strip()


def _security(access: Access) -> list[Schema]:
    if access.optional:
        return [{}, {"bearerAuth": []}]
    return [{"bearerAuth": []}] if access.kinds else []


def _parameters(handler: Any, path: str, signature: Signature, schemas: Schemas) -> list[Schema]:
    made: list[Schema] = []
    for name in PATH.findall(path):
        identified = name.endswith("_id")
        made.append(
            {
                "name": name,
                "in": "path",
                "required": True,
                "description": "A UUID. Anything else is 404." if identified else "A name.",
                "schema": {"type": "string", "minLength": 1},
                "example": vocabulary.PATH_EXAMPLES.get(name, vocabulary.UUID),
            }
        )
    for name, kind in signature.query.items():
        schema = vocabulary.QUERY.get(name) or schemas.answer(kind)
        if isinstance(schema.get("type"), list):  # a query parameter may be absent, but never null
            schema = {**schema, "type": next(one for one in schema["type"] if one != "null")}
        made.append({"name": name, "in": "query", "schema": schema})
    if handler.opt.get("idempotent"):
        made.append({"$ref": "#/components/parameters/Idempotency-Key"})
    headers: tuple[str, ...] = handler.opt.get("headers", ())
    return [
        *made,
        *({"$ref": f"#/components/parameters/{name}"} for name in (*headers, "Accept-Language", "X-Request-Id")),
    ]


def _request_body(signature: Signature, access: Access, schemas: Schemas) -> Schema:
    schema = schemas.body(signature.body, loose=signature.loose_body, foreign=access.foreign_body)
    example = example_of(schema, schemas.components)
    return {"required": True, "content": {"application/json": {"schema": schema, "example": example}}}


def _responses(handler: Any, signature: Signature, schemas: Schemas, listener: str) -> Schema:
    """Return status -> response. A route's `also` has the statuses besides success whose body is not `Error`."""
    bodies: dict[int, list[Schema]] = {}
    also: dict[int, Any] = handler.opt.get("also", {})
    for status, kind in {signature.status: signature.answer, **also}.items():
        bodies[status] = [] if kind is None else [schemas.answer(kind)]
    refused: dict[int, list[Refusal]] = {}
    for refusal in sorted(refusals_of(handler), key=lambda one: (one.status, one.code)):
        if not (refusal.status == 429 and listener == "internal" and refusal.code == "RATE_LIMITED"):
            refused.setdefault(refusal.status, []).append(refusal)
    made = {}
    media = handler.media_type or "application/json"
    for status in sorted({*bodies, *refused}):
        made[str(status)] = _response(status, bodies.get(status), refused.get(status, []), media)
    return made


def _response(status: int, bodies: list[Schema] | None, refused: list[Refusal], media: str) -> Schema:
    names = ["X-Server-Time", "X-Request-Id"]
    names += ["Content-Language"] if refused else []
    names += ["Retry-After"] if status in WAITS else []
    said = ["No content." if bodies == [] else "The answer."] if bodies is not None else []
    said += [f"`{one.code}`: {one.message.en}" for one in refused]
    made: Schema = {
        "description": " ".join(said),
        "headers": {name: {"$ref": f"#/components/headers/{name}"} for name in names},
    }
    schemas = [*(bodies or []), *([{"$ref": "#/components/schemas/Error"}] if refused else [])]
    if schemas:
        content: Schema = {"schema": schemas[0] if len(schemas) == 1 else {"anyOf": schemas}}
        if refused:
            content["examples"] = {one.code: {"value": _error_example(one)} for one in refused}
            media = "application/json"
        made["content"] = {media: content}
    return made


def _error_example(refusal: Refusal) -> Schema:
    details = {
        "VALIDATION_ERROR": {"fields": [{"field": "display_name", "message": field_messages.REQUIRED}]},
        "INTERNAL_ERROR": {"request_id": vocabulary.UUID},
        "SESSION_IN_PROGRESS": {"session_id": vocabulary.UUID},
        "OTP_INVALID": {"attempts_remaining": 4},
    }.get(refusal.code)
    seconds = 1 if refusal.status in WAITS else None
    return errors.body(refusal, languages.DEFAULT, details=details, retry_after_seconds=seconds)
