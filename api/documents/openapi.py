"""The OpenAPI 3.1 document of each listener, made from its routes: their signatures, docstrings, access and refusals.

The first paragraph of a handler's docstring is the summary, and the rest its description. A route with
`include_in_schema=False` is for people, not for programs, and is left out.
"""

import datetime as dt
import re
from collections.abc import Iterable
from importlib.metadata import version
from typing import Any, get_args

from api import errors
from api.auth import Access
from api.deprecation import is_deprecated, replacement_of
from api.documents import examples
from api.documents.examples import answer_of, example_of
from api.documents.openapi_parts import (
    ABOUT,
    DETAILS,
    ERROR,
    HEADERS,
    LIMITS,
    PARAMETERS,
    SERVERS,
    TAGS,
    TITLE,
    WHO_IS_IT_FOR,
    error_code,
)
from api.documents.schemas import Schema, Schemas, first_line
from api.refusals import HEADERS_TOO_LARGE, METHOD_NOT_ALLOWED, Refusal, refusals_of
from api.route_signatures import PATH, Signature, columns_of, signature_of
from core.base import field_messages, languages
from core.base.actor import UserType
from core.base.field_types import MAX_INT
from core.payments.failures.causes import CauseTag
from core.payments.failures.rules import OperatorAction
from core.payments.gateway_calls import ProcessingResult

WHO = {UserType.CUSTOMER: "customers", UserType.MITRA: "mitras", UserType.OPERATOR: "operators"}
# Query parameter -> its schema, where the type does not say enough.
QUERY: dict[str, dict[str, Any]] = {
    "limit": {"type": "integer", "minimum": 1, "maximum": 200, "default": 50},
    "cursor": {"type": "string", "description": "`next_cursor` of the previous page."},
    "from": {"type": "string", "format": "date-time", "description": "Inclusive, with a time zone."},
    "to": {"type": "string", "format": "date-time", "description": "Exclusive, with a time zone."},
    "after": {"type": "integer", "minimum": 0, "maximum": MAX_INT, "description": "Only messages after this `seq`."},
    "before": {
        "type": "integer",
        "minimum": 0,
        "maximum": MAX_INT,
        "description": "The last messages before this `seq`.",
    },
    "cause_tag": {"type": "string", "enum": list(CauseTag)},
    "operator_action": {
        "type": "string",
        "enum": ["none", *OperatorAction],
        "description": "`none`: open failures.",
    },
    "processing_result": {"type": "string", "examples": list(ProcessingResult)},
    "q": {"type": "string", "description": "Part of a name, number, address or id."},
    "operator_id": {"type": "string", "format": "uuid"},
    "object_id": {
        "type": "string",
        "description": "An id, or the name of a setting. Entries whose lists contain the object are found too.",
    },
    "bodies": {"type": "boolean", "default": True, "description": "Whether to return the bodies of the calls."},
    "superseded": {"type": "boolean", "default": False},
}

FILE: dict[str, Any] = {
    "schema": {"type": "string", "description": "All rows, below the names of the fields."},
    "examples": {"answer": {"value": "id,created_at\r\n"}},
}
ANSWER = "answer"  # the name of the example of success; those of refusals are their codes
SCHEMA, EXAMPLE = "#/components/schemas/", "#/components/examples/"
# Query parameters whose values are days.
DAYS: dict[str, dict[str, Any]] = {
    name: {"type": "string", "format": "date", "description": "A day in the business's time zone; it is included."}
    for name in ("from", "to")
}


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
        "servers": SERVERS,
        "tags": [
            {"name": name} | ({"description": TAGS[name]} if name in TAGS else {})
            for name in sorted({o["tags"][0] for p in paths.values() for o in p.values()})
        ],
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": {
                "Error": ERROR,
                "ErrorCode": error_code(_codes(paths)),
                "ErrorDetails": DETAILS,
                **dict(sorted(schemas.components.items())),
            },
            "examples": {
                name: {"value": answer_of({"$ref": SCHEMA + name}, schemas.components)} for name in _answered(paths)
            },
            "headers": HEADERS,
            "parameters": PARAMETERS,
            "securitySchemes": {"bearerAuth": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}},
        },
    }


def _answered(paths: Schema) -> list[str]:
    """Return the names of the objects that are examples of answers."""
    contents = [
        content
        for methods in paths.values()
        for operation in methods.values()
        for response in operation["responses"].values()
        for content in response.get("content", {}).values()
    ]
    examples = [content.get("examples", {}).get(ANSWER, {}) for content in contents]
    return sorted({one["$ref"].removeprefix(EXAMPLE) for one in examples if "$ref" in one})


def _codes(paths: Schema) -> set[str]:
    """Return the codes that the routes may answer with, and those of requests that reach no route."""
    operations = [operation for methods in paths.values() for operation in methods.values()]
    contents = [one.get("content", {}) for operation in operations for one in operation["responses"].values()]
    declared = {code for content in contents for media in content.values() for code in media.get("examples", ())}
    return declared - {ANSWER} | {HEADERS_TOO_LARGE.code, METHOD_NOT_ALLOWED.code}


def tag_of(handler: Any, path: str) -> str:
    """Return a route's tag: its area on the internal listener; on the public one its module or package."""
    area = re.match(r"/internal/([a-z-]+)", path)
    module = handler.fn.__module__.removeprefix("api.").removeprefix("public.").partition(".")[0]
    return area[1] if area else module.replace("_", "-")


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
        areas = " or ".join(f"`{area}`" for area in (access.area, access.or_area) if area)
        also = f", and `{access.and_area}`: `read`" if access.and_area else ""
        who = f"For operators with {areas}: `{access.level}`{also}."
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
                "example": examples.PATH_EXAMPLES.get(name, examples.UUID),
            }
        )
    for name, kind in signature.query.items():
        schema = DAYS.get(name) if dt.date in get_args(kind) else QUERY.get(name)
        schema = schema or schemas.answer(kind)
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
    """Return status -> response.

    A route's `also` has the statuses besides success whose body is not `Error`, `produces` the further media types of
    success.
    """
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
        made[str(status)] = _response(bodies.get(status), refused.get(status, []), media)
        if bodies.get(status) and status < 400:
            (content,) = made[str(status)]["content"].values()
            content["examples"] = {ANSWER: _answer_example(bodies[status][0], schemas)} | content.get("examples", {})
    produces: dict[str, Any] = handler.opt.get("produces", {})
    for other, kind in produces.items():
        schema = schemas.answer(kind)
        made[str(signature.status)]["content"][other] = {
            "schema": schema,
            "examples": {ANSWER: _answer_example(schema, schemas)},
        }
    if listener == "internal" and handler.http_methods == {"GET"} and columns_of(handler) is not None:
        made["200"]["content"]["text/csv"] = FILE
    return made


def _answer_example(schema: Schema, schemas: Schemas) -> Schema:
    """Return the example of an answer: a reference for an object, of which several routes may answer with one."""
    first = schema["anyOf"][0] if "anyOf" in schema else schema
    if "$ref" in first:
        return {"$ref": EXAMPLE + first["$ref"].removeprefix(SCHEMA)}
    return {"value": answer_of(first, schemas.components)}


def _response(bodies: list[Schema] | None, refused: list[Refusal], media: str) -> Schema:
    names = ["X-Server-Time", "X-Request-Id"]
    names += ["Content-Language"] if refused else []
    names += ["Retry-After"] if any(one.waits for one in refused) else []
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
        "INTERNAL_ERROR": {"request_id": examples.UUID},
        "SESSION_IN_PROGRESS": {"session_id": examples.UUID},
        "ACCOUNT_BLOCKED": {"until": examples.TIME},
        "PRICE_CHANGED": {"amount": 30_000},
        "OTP_INVALID": {"attempts_remaining": 4},
    }.get(refusal.code)
    seconds = 1 if refusal.waits else None
    return errors.body(refusal, languages.DEFAULT, details=details, retry_after_seconds=seconds)
