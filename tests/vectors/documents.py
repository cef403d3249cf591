"""What the player serves: a vector's few fields, laid over the examples of the interface documents."""

import json
import pathlib
import re
from typing import Any

ROOT = pathlib.Path(__file__).parents[2]
SOCKETS = json.loads((ROOT / "docs/api/sockets.asyncapi.json").read_text(encoding="utf-8"))
REST = json.loads((ROOT / "docs/api/public.openapi.json").read_text(encoding="utf-8"))
OBJECTS = json.loads((pathlib.Path(__file__).parent / "objects.json").read_text(encoding="utf-8"))
BEGINS_AT = "2026-11-21T06:30:00Z"  # the service's time when a vector begins


def lay_over(fields: Any, example: Any) -> Any:
    """Return `fields` with what they leave out taken from the example; each item of a list is laid over its first."""
    if isinstance(fields, dict):
        under = example if isinstance(example, dict) else {}
        return under | {key: lay_over(value, under.get(key)) for key, value in fields.items()}
    if isinstance(fields, list):
        under = example[0] if isinstance(example, list) and example else None
        return [lay_over(item, under) for item in fields]
    return fields


def frame_schema(role: str, path: str, kind: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the schema and the example of a frame that the service sends to users of this role."""
    for reference in SOCKETS["channels"][path.removeprefix("/ws/")]["messages"].values():
        message = SOCKETS["components"]["messages"][reference["$ref"].rsplit("/", 1)[1]]
        if message["name"] == kind and role in message.get("x-sent-to", ()):
            return message["payload"], message["examples"][0]["payload"]
    raise LookupError(f"the service sends no {kind} to a {role} on {path}")


def whole_frame(role: str, path: str, fields: dict[str, Any]) -> dict[str, Any]:
    """Return a whole frame for the fields of a vector."""
    example = {key: value for key, value in frame_schema(role, path, fields["type"])[1].items() if key != "ref"}
    if fields["type"] == "auth_ok":
        example |= {"user": {"id": "$me", "type": role}}
    return lay_over(fields, example)


def whole_body(body: Any) -> Any:
    """Return a whole body for the fields of a vector: `like` names the object of objects.json under it."""
    if isinstance(body, dict) and "like" in body:
        fields = {key: value for key, value in body.items() if key != "like"}
        return lay_over(fields, OBJECTS["schemas"][body["like"]])
    return body


def usual_body(route: str) -> Any:
    """Return the body with which the player answers a request that no vector mentions, or None."""
    for template, name in OBJECTS["routes"].items():
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), route):
            return OBJECTS["schemas"][name]
    return None
