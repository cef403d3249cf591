"""Write api/web/client/wire.d.ts: the TypeScript types of all routes and frames that an app uses.

The types are those of the interface documents, which are made from the code: the schemas of the public OpenAPI
document, the frames and views of the AsyncAPI document, and an interface `Routes` for typed calls. `make pages` writes
the file.
"""

import functools
import json
import pathlib
from collections.abc import Iterator
from typing import Any

import attrs

from api import apps
from core.settings.environment import read
from realtime import asyncapi
from tools.pages import typescript_schemas as typescript
from tools.pages.typescript_schemas import Namer, Schema

FILE = pathlib.Path(__file__).parents[2] / "api" / "web" / "client" / "wire.d.ts"
HEAD = """/**
 * The service's interfaces as types: bodies of requests and answers, frames, routes and error codes. Fields keep the
 * names that they have in JSON. Times are ISO 8601 in UTC, ids are UUIDs, amounts are whole Rupiah. New fields, frames
 * and codes may come: ignore those that you do not know.
 *
 * Made by `make pages` from the OpenAPI and AsyncAPI documents, with `tools/pages/client_types.py`; a test keeps it current.
 */
"""
# Not for apps: what the payment gateway and load balancers call. Deprecated routes are left out as well.
OTHER_CALLERS = frozenset({"payment-webhook", "health"})
# Suffix of the types of frames, because some frames are called like an object that they carry.
FRAME = "Frame"
ROLES = ("customer", "mitra")
FRAME_ERROR_CODE = "The code of an `error` frame. New codes may be added."
ROUTES = """/**
 * The routes that apps call. `path` has the ids of the path, `query` and `body` what the route takes, `answer` the body
 * of a successful answer, null without one. `idempotent` routes take an `Idempotency-Key`.
 */
"""


@attrs.frozen
class Interfaces:
    """The two interface documents, with the routes of apps only."""

    sockets: Schema
    views: dict[str, Schema]
    frames: dict[str, Schema]
    routes: dict[str, Schema]

    @functools.cached_property
    def namer(self) -> Namer:
        """The names of the types."""
        renamed = {name: name + FRAME for name in self.frames} | {"Error": "ErrorBody"}
        return Namer(renamed, typescript.enum_names(self.views))


def page() -> str:
    """Return the text of wire.d.ts."""
    found = interfaces()
    namer = found.namer
    parts = [HEAD]
    parts += [typescript.declaration(name, found.views[name], namer) for name in sorted(_used(found))]
    parts += [typescript.declaration(name + FRAME, found.frames[name], namer) for name in sorted(found.frames)]
    parts.append(_union("Code", "The code of a refusal, by REST or on a socket.", ["ErrorCode", "FrameErrorCode"]))
    parts += _unions(found.sockets)
    parts.append(_routes_interface(found))
    return "\n".join(parts)


def interfaces() -> Interfaces:
    """Return what apps use of the two documents."""
    rest = apps.interface("public")
    sockets: Schema = json.loads(asyncapi.encoded(read({})))
    framed = {_name(one["payload"]) for one in sockets["components"]["messages"].values()}
    schemas: dict[str, Schema] = sockets["components"]["schemas"]
    # Where both documents have a view, the AsyncAPI document's is taken, because it names the enumerations.
    views = {"ErrorBody" if name == "Error" else name: one for name, one in rest["components"]["schemas"].items()}
    views |= {name: one for name, one in schemas.items() if name not in framed}
    views["FrameErrorCode"] = {**schemas["Error"]["properties"]["code"], "description": FRAME_ERROR_CODE}
    schemas["Error"]["properties"]["code"] = {"$ref": "FrameErrorCode"}
    frames = {name: one for name, one in schemas.items() if name in framed}
    return Interfaces(sockets, views, frames, dict(_routes(rest)))


def _routes(rest: Schema) -> Iterator[tuple[str, Schema]]:
    """Yield (method and path, operation) of the routes that apps call, with references to parameters resolved."""
    for path, methods in rest["paths"].items():
        for method, operation in methods.items():
            if operation.get("deprecated") or operation["tags"][0] in OTHER_CALLERS:
                continue
            found = [
                rest["components"]["parameters"][_name(one)] if "$ref" in one else one
                for one in operation["parameters"]
            ]
            yield f"{method.upper()} {path}", {**operation, "parameters": found}


def _used(found: Interfaces) -> set[str]:
    """Return the names of the views that a route or a frame refers to, directly or by another view."""
    operations = [_bodies(operation) for operation in found.routes.values()]
    waiting = {"ErrorBody", *typescript.references([*operations, *found.frames.values()])}
    used: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in used and name in found.views:
            used.add(name)
            waiting |= set(typescript.references(found.views[name]))
    return used | set(found.namer.enums.values())


def _bodies(operation: Schema) -> list[Schema]:
    """Return the schemas of an operation's body and successful answers."""
    asked = [operation["requestBody"]] if "requestBody" in operation else []
    answered = [one for status, one in operation["responses"].items() if status.startswith("2")]
    return [media["schema"] for one in (*asked, *answered) for media in one.get("content", {}).values()]


def _unions(sockets: Schema) -> Iterator[str]:
    """Yield the unions of frames: those that a client sends on a path, and those that a role gets there."""
    messages: dict[str, Any] = sockets["components"]["messages"]
    of_role: dict[str, list[str]] = {role: [] for role in ROLES}
    for path, channel in sockets["channels"].items():
        here = sorted(_name(one) for one in channel["messages"].values())
        yield _union(
            f"{path.title()}ClientFrame",
            f"What a client sends on `{channel['address']}`.",
            [name + FRAME for name in here if "x-sent-to" not in messages[name]],
        )
        for role in ROLES:
            name = f"{path.title()}{role.title()}Frame"
            of_role[role].append(name)
            got = [one + FRAME for one in here if role in messages[one].get("x-sent-to", ())]
            yield _union(name, f"What the service sends to a {role} on `{channel['address']}`.", got)
    yield _union("ClientFrame", "What a client sends.", [f"{path.title()}ClientFrame" for path in sockets["channels"]])
    for role, names in of_role.items():
        yield _union(f"{role.title()}Frame", f"What the service sends to a {role}.", names)
    yield _union("ServerFrame", "What the service sends.", [f"{role.title()}Frame" for role in ROLES])


def _union(name: str, text: str, types: list[str]) -> str:
    members = "".join(f"\n  | {one}" for one in types)
    return f"{typescript.comment(text)}export type {name} ={members};\n"


def _routes_interface(found: Interfaces) -> str:
    lines = [f"{ROUTES}export interface Routes {{\n"]
    for route, operation in found.routes.items():
        lines.append(typescript.comment(operation["summary"] + ".", "  "))
        lines.append(f"  {json.dumps(route)}: {{ {_parts(operation, found.namer)} }};\n")
    return "".join([*lines, "}\n"])


def _parts(operation: Schema, namer: Namer) -> str:
    """Return the fields of a route's type: the parts that it has."""
    parameters = operation["parameters"]
    answered = [one for status, one in operation["responses"].items() if status.startswith("2")]
    parts = {
        place: _parameters([one for one in parameters if one["in"] == place], namer) for place in ("path", "query")
    }
    if body := operation.get("requestBody"):
        parts["body"] = typescript.type_of(_content(body), namer)
    parts["answer"] = typescript.union(typescript.type_of(_content(one), namer) for one in answered)
    if any(one["name"] == "Idempotency-Key" for one in parameters):
        parts["idempotent"] = "true"
    return "; ".join(f"{part}: {kind}" for part, kind in parts.items() if kind)


def _parameters(parameters: list[Schema], namer: Namer) -> str:
    """Return the type of the parameters of a path or a query; empty if there are none."""
    fields = [
        f"{typescript.property_name(one['name'])}{'' if one.get('required') else '?'}: "
        f"{typescript.type_of(one['schema'], namer)}"
        for one in parameters
    ]
    return f"{{ {'; '.join(fields)} }}" if fields else ""


def _content(part: Schema) -> Schema:
    """Return the schema of a body or an answer; that of null if it has no content."""
    content = part.get("content", {})
    return content["application/json"]["schema"] if content else {"type": "null"}


def _name(reference: Schema) -> str:
    return str(reference["$ref"]).rpartition("/")[2]


def main() -> None:
    """Write the file."""
    text = page()
    FILE.write_text(text)
    print(f"{FILE.name}: {text.count('export ')} types")


if __name__ == "__main__":
    main()
