"""The types of the client library: all routes and frames that an app uses, as one JSON schema.

The schemas are those of the interface documents, which are made from the code: views and routes of the public OpenAPI
document, frames of the AsyncAPI document. json-schema-to-typescript writes them as api/web/client/wire.d.ts.
"""

import json
from collections.abc import Iterator
from typing import Any

from api import apps
from core.settings.environment import read
from realtime import asyncapi

Schema = dict[str, Any]
HEAD = """/**
 * The service's interfaces as types: bodies of requests and answers, frames, routes and error codes. Fields keep the
 * names that they have in JSON. Times are ISO 8601 in UTC, ids are UUIDs, amounts are whole Rupiah. New fields, frames
 * and codes may come: ignore those that you do not know. `make client` makes this file.
 */"""
# Not for apps: what the payment gateway and load balancers call. Deprecated routes are left out as well.
OTHER_CALLERS = frozenset({"payment-webhook", "health"})
# Suffix of the types of frames, because some frames are called like an object that they carry.
FRAME = "Frame"
ROLES = ("customer", "mitra")
ROUTES = """The routes that apps call. `path` has the ids of the path, `query` and `body` what the route takes, `answer` the
body of a successful answer, null without one. `idempotent` routes take an `Idempotency-Key`."""
KEPT = frozenset({"description", "type", "properties", "required", "items", "additionalProperties", "enum", "anyOf"})


class Interfaces:
    """The schemas of the two documents by their names, and the routes of apps."""

    def __init__(self) -> None:
        """Read the documents."""
        rest = apps.interface("public")
        self.sockets: Schema = json.loads(asyncapi.encoded(read({})))
        self.parameters: Schema = rest["components"]["parameters"]
        self.routes = dict(_routes(rest))
        self.messages: Schema = self.sockets["components"]["messages"]
        frames = {_name(one["payload"]) for one in self.messages.values()}
        self._frames = frames
        # Where both documents have a view, the AsyncAPI document's is taken, because it names the enumerations.
        self.views = {_view(name): one for name, one in rest["components"]["schemas"].items()}
        self.schemas = self.views | {
            name + FRAME if name in frames else name: _short(one)
            for name, one in self.sockets["components"]["schemas"].items()
            if not name.endswith(asyncapi.OR_NULL)
        }
        self._enums = {frozenset(one["enum"]): name for name, one in self.schemas.items() if "enum" in one}

    def document(self) -> Schema:
        """Return the JSON schema of `Routes`, whose definitions are the other types."""
        routes = {route: self._route(operation) for route, operation in self.routes.items()}
        code = self.schemas["Error" + FRAME]["properties"]["code"]
        codes = {"FrameErrorCode": {**code, "description": "The code of an `error` frame. New codes may be added."}}
        self.schemas["Error" + FRAME]["properties"]["code"] = _reference("FrameErrorCode")
        types = {name: self._type(name, one) for name, one in (self.schemas | codes).items()}
        types["Code"] = _union("The code of a refusal, by REST or on a socket.", ["ErrorCode", "FrameErrorCode"])
        types |= self._unions()
        named = ("", "ErrorBody", "Code", *(name for name in types if name.endswith(FRAME)))
        used = set(_used({**types, "": _object(routes)}, *named))
        return {
            "title": "Routes",
            "description": ROUTES,
            **_object(routes),
            "definitions": {name: types[name] for name in sorted(types.keys() & {*used, *self._enums.values()})},
        }

    def _type(self, name: str, schema: Schema) -> Schema:
        """Return a schema; one whose fields depend on the value of another as a union with one type for each value."""
        if "allOf" not in schema:
            return self._plain(schema) if "enum" not in schema else {**schema, "enum": sorted(schema["enum"])}
        return {"description": schema["description"], "anyOf": [self._variant(schema, one) for one in schema["allOf"]]}

    def _variant(self, schema: Schema, condition: Schema) -> Schema:
        then = condition["then"]
        absent = {field for one in then["not"]["anyOf"] for field in one["required"]}
        fields = {name: one for name, one in schema["properties"].items() if name not in absent}
        required = [*schema["required"], *then["required"]]
        return self._plain(_object(fields | condition["if"]["properties"], required))

    def _plain(self, schema: Any) -> Any:
        """Return a schema with what types say, references to the definitions, and the names of its enumerations."""
        if "$ref" in schema:
            return self._named(_name(schema), in_rest=False)
        values = schema.get("enum")
        if values and (name := self._enums.get(frozenset(values) - {None})):
            return {"anyOf": [_reference(name), {"type": "null"}]} if None in values else _reference(name)
        found = {key: value for key, value in schema.items() if key in KEPT}
        if values or "anyOf" in found:
            found.pop("type", None)
        if "properties" in found:
            found["properties"] = {name: self._plain(one) for name, one in found["properties"].items()}
        if "items" in found:
            found["items"] = self._plain(found["items"])
        if "anyOf" in found:
            found["anyOf"] = self._alternatives(found["anyOf"])
        return found

    def _alternatives(self, alternatives: list[Schema]) -> list[Schema]:
        if "enum" in alternatives[0] and alternatives[-1].get("type") == "string":
            # Known values and any other string: a plain `string` would hide the known ones from editors.
            return [{"enum": sorted(alternatives[0]["enum"])}, {"tsType": "(string & {})"}]
        return [self._plain(one) for one in alternatives]

    def _named(self, name: str, *, in_rest: bool) -> Schema:
        return _reference(_view(name) if in_rest or name not in self._frames else name + FRAME)

    def _unions(self) -> dict[str, Schema]:
        """Return the unions of frames: those that a client sends on a path, and those that a role gets there."""
        made, of_role = {}, {role: [] for role in ROLES}
        channels = self.sockets["channels"]
        for path, channel in channels.items():
            here, place = sorted(_name(one) for one in channel["messages"].values()), f"on `{channel['address']}`."
            sent = [name + FRAME for name in here if "x-sent-to" not in self.messages[name]]
            made[f"{path.title()}ClientFrame"] = _union(f"What a client sends {place}", sent)
            for role, names in of_role.items():
                names.append(f"{path.title()}{role.title()}Frame")
                got = [one + FRAME for one in here if role in self.messages[one].get("x-sent-to", ())]
                made[names[-1]] = _union(f"What the service sends to a {role} {place}", got)
        made["ClientFrame"] = _union("What a client sends.", [f"{path.title()}ClientFrame" for path in channels])
        for role, names in of_role.items():
            made[f"{role.title()}Frame"] = _union(f"What the service sends to a {role}.", names)
        return made | {"ServerFrame": _union("What the service sends.", [f"{role.title()}Frame" for role in ROLES])}

    def _route(self, operation: Schema) -> Schema:
        """Return the type of a route, with the parts that it has."""
        found = [self.parameters[_name(one)] if "$ref" in one else one for one in operation["parameters"]]
        parts = {}
        for place in ("path", "query"):
            if here := {one["name"]: self._plain(one["schema"]) for one in found if one["in"] == place}:
                parts[place] = _object(
                    here, [one["name"] for one in found if one.get("required") and one["name"] in here]
                )
        if body := operation.get("requestBody"):
            parts["body"] = self._content(body)
        answers = [self._content(one) for status, one in operation["responses"].items() if status.startswith("2")]
        parts["answer"] = answers[0] if len(answers) == 1 else {"anyOf": answers}
        if any(one["name"] == "Idempotency-Key" for one in found):
            parts["idempotent"] = {"enum": [True]}
        return {"description": operation["summary"] + ".", **_object(parts)}

    def _content(self, part: Schema) -> Schema:
        """Return the schema of a body or an answer; that of null if it has no content."""
        content = part.get("content", {})
        schema = content["application/json"]["schema"] if content else {"type": "null"}
        return self._named(_name(schema), in_rest=True) if "$ref" in schema else self._plain(schema)


def _routes(rest: Schema) -> Iterator[tuple[str, Schema]]:
    """Yield (method and path, operation) of the routes that apps call."""
    for path, methods in rest["paths"].items():
        for method, operation in methods.items():
            if not operation.get("deprecated") and operation["tags"][0] not in OTHER_CALLERS:
                yield f"{method.upper()} {path}", operation


def _used(types: dict[str, Schema], *names: str) -> Iterator[str]:
    """Yield names of types and of those that they refer to, directly or by another one."""
    waiting, seen = [*names], set()
    while waiting:
        if (name := waiting.pop()) not in seen:
            seen.add(name)
            waiting += _references(types[name])
            yield name


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(schema.get("$ref"), str):
            yield _name(schema)
        for one in schema.values():
            yield from _references(one)
    elif isinstance(schema, list):
        for one in schema:
            yield from _references(one)


def _object(fields: Schema, required: list[str] | None = None) -> Schema:
    return {"type": "object", "properties": fields, "required": [*fields] if required is None else required}


def _union(text: str, names: list[str]) -> Schema:
    return {"description": text, "anyOf": [_reference(name) for name in names]}


def _reference(name: str) -> Schema:
    return {"$ref": f"#/definitions/{name}"}


def _short(schema: Any) -> Any:
    """Return a schema of the AsyncAPI document as the compiler of types wants it.

    A single value is an enumeration, and what may be null refers to the component that it is otherwise.
    """
    if isinstance(schema, list):
        return [_short(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if isinstance(schema.get("$ref"), str) and schema["$ref"].endswith(asyncapi.OR_NULL):
        return {"anyOf": [{"$ref": schema["$ref"].removesuffix(asyncapi.OR_NULL)}, {"type": "null"}]}
    found = {name: _short(one) for name, one in schema.items()}
    if "const" in found:
        found["enum"] = [found.pop("const")]
    return found


def _view(name: str) -> str:
    return "ErrorBody" if name == "Error" else name


def _name(reference: Schema) -> str:
    return str(reference["$ref"]).rpartition("/")[2]
