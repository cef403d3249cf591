"""What the player serves: a vector's few fields, laid over the frames and bodies that the service has sent."""

import json
import pathlib
import re
from typing import Any

from tools.compatibility import compare

ROOT = pathlib.Path(__file__).parents[2]
DOCUMENTS = compare.documents()
SOCKETS, REST = DOCUMENTS[compare.SOCKETS], DOCUMENTS["public.openapi.json"]
OBJECTS = json.loads((pathlib.Path(__file__).parent / "objects.json").read_text(encoding="utf-8"))
# Only a fault of the service makes it send such a frame.
UNRECORDED_ERROR = {"type": "error", "code": "UNAVAILABLE", "message": "The service is unavailable."}
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


def frame_schema(role: str, path: str, kind: str) -> dict[str, Any]:
    """Return the schema of a frame that the service sends to users of this role."""
    for reference in SOCKETS["channels"][path.removeprefix("/ws/")]["messages"].values():
        message = SOCKETS["components"]["messages"][reference["$ref"].rsplit("/", 1)[1]]
        if message["name"] == kind and role in message.get("x-sent-to", ()):
            return message["payload"]
    raise LookupError(f"the service sends no {kind} to a {role} on {path}")


def whole_frame(role: str, path: str, fields: dict[str, Any]) -> dict[str, Any]:
    """Return a whole frame for the fields of a vector. Raises KeyError if none of its type was recorded."""
    recorded = OBJECTS["frames"][f"{role} {path}"]
    kind = fields["type"]
    if kind == "error":
        return lay_over(fields, recorded.get(f"error {fields['code']}", UNRECORDED_ERROR))
    return lay_over(fields, recorded.get(f"{kind} {fields.get('status')}") or recorded[kind])


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
