"""The AsyncAPI 3.0 document of the WebSocket interface, generated from the frame classes.

Its point of view is the service: it receives the frames of realtime/frames.py and sends those of
realtime/server_frames.py. The docstrings of both, and of the events in core, become descriptions. Rules that a schema
can't express are in the texts and, for programs, in fields that begin with `x-`.
"""

import inspect
import re
from importlib.metadata import version
from typing import Any, get_args

import msgspec

from core.base.actor import UserType
from core.pairing.events import FIELD_OF_STATUS
from core.settings.settings import Settings
from realtime import (
    acks,
    budgets,
    close_codes,
    frames,
    inbox,
    server_frames,
)
from realtime import connection as limits
from realtime.connections import SOCKETS_A_USER
from realtime.frame_examples import CLIENT, SERVER
from realtime.handshake import HANDSHAKE_S

SCHEMA = "#/components/schemas/{name}"
OR_NULL = "OrNull"  # ends the name of a component that is another one or null
# References to the project's docs, which readers of the document do not have at hand.
SOURCES = re.compile(r"\s*\(docs/[^)]*\)")
REREAD_S = 10  # clients spread their re-reading after a failover over this many seconds
CHANNELS = {
    "chat": (
        "Running chats",
        "Messages, read markers, typing and session events, for customers and mitras.",
        get_args(frames.ChatFrame),
    ),
    "pairing": (
        "Pairing",
        "The progress of a customer's search, and the chat requests that a mitra may accept.",
        get_args(frames.PairingFrame),
    ),
}
# The answers to each client frame, besides `error`. Frames that are missing here have no other answer.
ANSWERS: dict[type[frames.Frame], tuple[type[server_frames.ServerFrame], ...]] = {
    frames.Auth: (server_frames.ChatAuthOk, server_frames.SearchAuthOk, server_frames.DeskAuthOk),
    frames.SendMessage: (server_frames.MessageAck,),
    frames.Sync: (server_frames.SyncPage,),
    frames.Ping: (server_frames.Pong,),
    frames.Accept: (server_frames.Accepted,),
}
# Headers of the upgrade request.
HEADERS = {
    "type": "object",
    "properties": {
        "Accept-Language": {"type": "string", "examples": ["id-ID, id;q=0.9, en;q=0.8"]},
        "X-Locale": {"type": "string", "examples": ["id", "en"]},
    },
}
# The rules that the schemas cannot express.
DESCRIPTION = """\
Each text frame is one JSON object, and `type` names it. Every frame from the service carries the service's time.

**Handshake.** Send `auth` with an access token of the public interface as the first frame, within {handshake} s. The \
answer is `auth_ok` with a snapshot. The socket is subscribed before the snapshot is taken, so a `sync` after it \
leaves no gap. 60 s before the token expires you get `auth_expiring`: send `auth` again with a new token of the same \
user.

**Delivery.** At least once. An event with an `event_id` is repeated after each `auth_ok` of its user, for an hour, \
until one device acknowledges it by `ack`. Ignore an `event_id` that you have already handled. A lost event can \
arrive late. The ids of the events of one order key (`x-order-key` of a message, with the fields in braces filled in) \
increase in the order of the changes, whichever process made them: if an id is smaller than that of an event you have \
of the same order key, acknowledge it and keep your state. Don't compare events of different order keys. A `message` \
is not repeated, although it has an `event_id`: messages arrive in the order of `seq`, without gaps, and `sync` \
returns the ones you missed. Acknowledge them by `delivered` or `read`. Every device of a user gets every frame.

**Epochs.** `auth_ok` and `sync` carry the `epoch` of the database's history. A failover to another server or a \
restore changes it and closes the sockets with 1012; the messages that were acknowledged last may be lost. If the \
epoch differs from the one you knew, wait a random 0 to {reread} s, then read your sessions again by `sync` with \
`after: 0`. Drop messages that the answers do not contain, and send your own ones among them again with their old \
`client_message_id`.

**Answers.** Every client frame may carry a `ref`, and its answer echoes it. A refused frame is answered by `error`, \
and the socket stays open. `INVALID_FRAME` means that the frame could not be read; `UNKNOWN_TYPE` that this socket has \
no such frame. Error messages are in Indonesian or English. The upgrade request selects the language by \
`Accept-Language`, or else by `X-Locale`; the default is English.

**Compatibility.** Fields, frames and codes may be added, never removed: ignore those that you do not know. The \
service rejects unknown fields in the frames that you send.

**Limits.** A frame has at most {max_frame} bytes (else 1009). A user may send {rate} frames a second, with bursts of \
{burst}, on all sockets together (else 4429). A protocol ping counts as one frame, `sync` and `auth` as {sync}, an \
`ack` of an unknown event as {ack}, and a frame about another user's session as {strange}. A user may send {messages} \
messages a second in a session, with bursts of {messages_burst}. A message or a `sync` over its limit is answered by \
`TOO_FAST`, and the socket stays open: wait `retry_after_seconds`, then send again in the same order. A user may have \
{sockets} sockets on each path; one more closes the oldest (4409). An address may have {unknown} unauthenticated \
sockets; one more closes the oldest (1013). A socket closes (4408) when {waiting} frames or 1 MiB wait to be read by \
its client. The service sends a protocol ping after {ping} s of silence; two unanswered ones close the socket (4408).

**Reconnecting.** Wait a random 0 to 1 s before the first attempt, a random 0 to 2, 4, 8 and 10 s before the next \
ones, and 0 to 30 s from then on. After 1012 wait a random 0 to 5 s, after 1013 a random 0 to 10 s. An upgrade that is \
refused with 503 names the seconds to wait in `Retry-After`. In all these cases the token stays valid.

**Close codes.**

| code | meaning | reconnect | what to do |
|---|---|---|---|
{codes}
"""


def document(settings: Settings) -> dict[str, Any]:
    """Return the document, with the address and the limits from the settings."""
    rules = {
        "x-handshake-seconds": int(HANDSHAKE_S),
        "x-ping-seconds": limits.PING_S,
        "x-limits": {
            "frame_bytes": inbox.MAX_FRAME,
            "frames_per_second": settings.ws_frames_per_second,
            "frames_burst": settings.ws_frames_burst,
            "frame_costs": _costs(),
            "messages_per_second": settings.ws_messages_per_second,
            "messages_burst": settings.ws_messages_burst,
            "unauthenticated_per_address": settings.ws_unauthenticated_per_address,
            "sockets": SOCKETS_A_USER,
            "waiting_frames": limits.MAX_FRAMES,
            "waiting_bytes": limits.MAX_BYTES,
        },
        "x-close-codes": [msgspec.to_builtins(code) for code in close_codes.ALL],
    }
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Sesi WebSocket interface",
            "version": version("sesi"),
            "description": _description(settings),
            "license": {"name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"},
        },
        "defaultContentType": "application/json",
        "servers": {"realtime": _server(settings)},
        "channels": {path: _channel(path) | rules for path in CHANNELS},
        "operations": {name: operation for path in CHANNELS for name, operation in _operations(path).items()},
        "components": {"messages": _messages(), "schemas": _schemas()},
    }


def _description(settings: Settings) -> str:
    """Return the description, with the limits from the settings."""
    rows = [f"| {c.code} | {c.meaning} | {'yes' if c.reconnect else 'no'} | {c.then} |" for c in close_codes.ALL]
    return DESCRIPTION.format(
        handshake=int(HANDSHAKE_S),
        max_frame=inbox.MAX_FRAME,
        rate=settings.ws_frames_per_second,
        burst=settings.ws_frames_burst,
        sync=budgets.SYNC_COST,
        ack=1 + acks.UNKNOWN_COST,
        strange=1 + budgets.STRANGE_COST,
        messages=settings.ws_messages_per_second,
        messages_burst=settings.ws_messages_burst,
        unknown=settings.ws_unauthenticated_per_address,
        sockets=SOCKETS_A_USER,
        waiting=limits.MAX_FRAMES,
        ping=limits.PING_S,
        reread=REREAD_S,
        codes="\n".join(rows),
    )


def encoded(settings: Settings) -> bytes:
    """Return the document as JSON text."""
    return msgspec.json.format(msgspec.json.encode(document(settings)), indent=2)


def type_of(frame: type[msgspec.Struct]) -> str:
    """Return a frame's `type` on the websocket."""
    return str(frame.__struct_config__.tag)


def sent_on(path: str) -> list[type[server_frames.ServerFrame]]:
    """List the frames that the service sends on a path, each once."""
    found = [frame for (one, _), kinds in server_frames.FRAMES.items() if one == path for frame in kinds]
    return list(dict.fromkeys(found))


def acknowledged_by(frame: type[server_frames.ServerFrame]) -> list[str]:
    """List the types of the client frames that acknowledge a server frame; empty if it needs no acknowledgement."""
    return list(frame.event.acknowledged_by) if issubclass(frame, server_frames.EventFrame) else []


def _costs() -> dict[str, int]:
    """Return the cost of frames that count as more than one, by kind of frame."""
    return {
        "sync": budgets.SYNC_COST,
        "auth": budgets.AUTH_COST,
        "ack_of_unknown_event": 1 + acks.UNKNOWN_COST,
        "session_of_another_user": 1 + budgets.STRANGE_COST,
    }


def _server(settings: Settings) -> dict[str, Any]:
    return {
        "host": f"{settings.realtime_host}:{settings.realtime_port}",
        "protocol": "ws",
        "description": "The realtime process. In production it is behind TLS (wss).",
    }


def _channel(path: str) -> dict[str, Any]:
    title, description, received = CHANNELS[path]
    messages = {frame.__name__: _ref("components", "messages", frame.__name__) for frame in (*received, *sent_on(path))}
    return {
        "address": f"/ws/{path}",
        "title": title,
        "description": description,
        "servers": [_ref("servers", "realtime")],
        "messages": messages,
        "bindings": {"ws": {"method": "GET", "headers": HEADERS, "bindingVersion": "0.1.0"}},
    }


def _operations(path: str) -> dict[str, Any]:
    """Return an operation for each client frame, with its answers, and one for all frames that answer nothing."""
    channel = _ref("channels", path)
    sent = sent_on(path)
    made: dict[str, Any] = {}
    for frame in CHANNELS[path][2]:
        answers = [one for one in ANSWERS.get(frame, ()) if one in sent] + [server_frames.Error]
        made[f"{path}.{type_of(frame)}"] = {
            "action": "receive",
            "channel": channel,
            "summary": published(frame.__doc__ or "").split(". ")[0].rstrip(".") + ".",
            "messages": [_message_of(path, frame)],
            "reply": {"channel": channel, "messages": [_message_of(path, one) for one in answers]},
        }
    unasked = [frame for frame in sent if not issubclass(frame, server_frames.AnswerFrame)]
    made[f"{path}.events"] = {
        "action": "send",
        "channel": channel,
        "summary": "Frames that the service sends without a request.",
        "messages": [_message_of(path, frame) for frame in unasked],
    }
    return made


def _messages() -> dict[str, Any]:
    examples = {type(one): one for one in (*CLIENT, *SERVER)}
    made: dict[str, Any] = {}
    for frame, example in examples.items():
        text = published(frame.__doc__ or "")
        message = {
            "name": type_of(frame),
            "title": type_of(frame),
            "summary": re.split(r"(?<=[.?])\s", text)[0],
            "description": text,
            "payload": _ref("components", "schemas", frame.__name__),
            "examples": [{"name": type_of(frame), "payload": payload_of(example)}],
        }
        if issubclass(frame, server_frames.ServerFrame):
            message["x-sent-to"] = _sent_to(frame)
            message["x-acknowledged-by"] = acknowledged_by(frame)
        if issubclass(frame, server_frames.EventFrame):
            message["x-order-key"] = frame.event.order_key
        made[frame.__name__] = message
    return made


def payload_of(example: msgspec.Struct) -> dict[str, Any]:
    """Return an example as JSON would carry it, without the optional fields of client frames that are None."""
    fields = msgspec.to_builtins(example)
    if isinstance(example, frames.Frame):
        return {name: value for name, value in fields.items() if value is not None}
    return fields


def _sent_to(frame: type[server_frames.ServerFrame]) -> list[str]:
    kinds = {kind for (_, kind), sent in server_frames.FRAMES.items() if frame in sent}
    return [kind.value for kind in UserType if kind in kinds]


def _message_of(path: str, frame: type[msgspec.Struct]) -> dict[str, str]:
    return _ref("channels", path, "messages", frame.__name__)


def _ref(*way: str) -> dict[str, str]:
    return {"$ref": "#/" + "/".join(way)}


def published(docstring: str) -> str:
    """Return a docstring as the document has it, without references to the project's docs."""
    return SOURCES.sub("", inspect.cleandoc(docstring))


def _schemas() -> dict[str, Any]:
    """Return the schema of every class. Those of server frames allow more fields, because fields may be added."""
    received = sorted({type(one) for one in CLIENT}, key=lambda frame: frame.__name__)
    sent = sorted({type(one) for one in SERVER}, key=lambda frame: frame.__name__)
    _, strict = msgspec.json.schema_components(received, ref_template=SCHEMA)
    _, open_ = msgspec.json.schema_components(sent, ref_template=SCHEMA)
    for name, schema in open_.items():
        schema.pop("additionalProperties", None)
        if name.endswith("View"):  # always sent whole; a default is for objects that earlier releases have stored
            schema["required"] = list(schema["properties"])
    classes = {_name_of(name): schema for name, schema in {**strict, **open_}.items()}
    made: dict[str, Any] = {}
    for name, schema in classes.items():
        made[name] = _plain(schema, name, made, classes)
    for schema in made.values():
        if "description" in schema:
            schema["description"] = published(schema["description"])
    made["PairingStatus"]["allOf"] = _variants("status", FIELD_OF_STATUS)
    return made


def _variants(choice: str, field_of: dict[str, str]) -> list[dict[str, Any]]:
    """Return which field an object has for each value of `choice`, as conditions of JSON Schema."""
    return [
        {
            "if": {"properties": {choice: {"const": value}}},
            "then": {
                "required": [field],
                "not": {"anyOf": [{"required": [one]} for one in sorted(set(field_of.values()) - {field})]},
            },
        }
        for value, field in field_of.items()
    ]


def _name_of(name: str) -> str:
    """Return the name of a class in the document, which is that of the OpenAPI document."""
    return name.removesuffix("View")


def _plain(schema: dict[str, Any], title: str, made: dict[str, Any], classes: dict[str, Any]) -> dict[str, Any]:
    """Return a schema in the forms from which generators of code make types.

    A value that may be null has a list of types, and an object that may be null is a component for that, added to
    `made`; a single value is a `const`; an object or an enumeration has a title. References have the names of the
    document.
    """
    if isinstance(ref := schema.get("$ref"), str):
        return {**schema, "$ref": SCHEMA.format(name=_name_of(ref.rpartition("/")[2]))}
    found = _titled(schema, title)
    for name, one in found.get("properties", {}).items():
        found["properties"][name] = _plain(one, title + name.title().replace("_", ""), made, classes)
    for keyword in ("items", "additionalProperties"):
        if isinstance(found.get(keyword), dict):
            found[keyword] = _plain(found[keyword], title, made, classes)
    if "anyOf" in found:
        found["anyOf"] = [_plain(one, title, made, classes) for one in found["anyOf"]]
        if len(found["anyOf"]) == 2 and found["anyOf"][1] == {"type": "null"}:
            return _nullable(found, made, classes)
    return found


def _titled(schema: dict[str, Any], title: str) -> dict[str, Any]:
    """Return a copy of a schema, with the type of its values, and a title if it is an object or an enumeration."""
    found = dict(schema)
    if "properties" in found:
        found["properties"] = dict(found["properties"])
    values = found.get("enum", ())
    if values:
        found["type"] = "integer" if isinstance(values[0], int) else "string"
    if len(values) == 1:
        found["const"] = found.pop("enum")[0]
    elif values or found.get("type") == "object":
        found["title"] = title
    return found


def _nullable(schema: dict[str, Any], made: dict[str, Any], classes: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of what is one thing or null."""
    thing, rest = schema["anyOf"][0], {name: value for name, value in schema.items() if name != "anyOf"}
    if "$ref" in thing:
        name = thing["$ref"].rpartition("/")[2]
        if name + OR_NULL not in made:
            made[name + OR_NULL] = {}  # while its fields are read, which may refer to it
            made[name + OR_NULL] = _or_null(_plain(classes[name], name, made, classes))
        return {"$ref": SCHEMA.format(name=name + OR_NULL), **rest}
    return {**_or_null(thing), **rest}


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    found = {**schema, "type": [schema["type"], "null"]}
    if "enum" in found:
        found["enum"] = [*found["enum"], None]
    return found
