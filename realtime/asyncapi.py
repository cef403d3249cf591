"""The AsyncAPI 3.0 document of the WebSocket interface, generated from the frame classes.

Its point of view is the service: it receives the frames of realtime/frames.py and sends those of
realtime/server_frames.py. The docstrings of both become descriptions. Rules that a schema can't express are in the
texts and, for programs, in fields that begin with `x-`.
"""

import re
from typing import Any, get_args

import msgspec

from core.base.actor import UserType
from core.settings.settings import Settings
from realtime import (
    acks,
    budgets,
    chat_frames,
    close_codes,
    frame_schemas,
    frames,
    inbox,
    interface_description,
    pairing_frames,
    server_frames,
    shared_frames,
)
from realtime import connection as limits
from realtime.connections import SOCKETS_A_USER
from realtime.frame_examples import CLIENT, SERVER
from realtime.handshake import HANDSHAKE_S

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
ANSWERS: dict[type[frames.Frame], tuple[type[shared_frames.ServerFrame], ...]] = {
    frames.Auth: (chat_frames.ChatAuthOk, pairing_frames.SearchAuthOk, pairing_frames.DeskAuthOk),
    frames.SendMessage: (chat_frames.MessageAck,),
    frames.Sync: (chat_frames.SyncPage,),
    frames.Ping: (shared_frames.Pong,),
    frames.Accept: (pairing_frames.Accepted,),
}
# Headers of the upgrade request.
HEADERS = {
    "type": "object",
    "properties": {
        "Accept-Language": {"type": "string", "examples": ["id-ID, id;q=0.9, en;q=0.8"]},
        "X-Locale": {"type": "string", "examples": ["id", "en"]},
    },
}


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
            "version": "1.0.0",
            "description": interface_description.text(settings),
            "license": {"name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"},
        },
        "defaultContentType": "application/json",
        "servers": {"realtime": _server(settings)},
        "channels": {path: _channel(path) | rules for path in CHANNELS},
        "operations": {name: operation for path in CHANNELS for name, operation in _operations(path).items()},
        "components": {"messages": _messages(), "schemas": frame_schemas.schemas()},
    }


def encoded(settings: Settings) -> bytes:
    """Return the document as JSON text."""
    return msgspec.json.format(msgspec.json.encode(document(settings)), indent=2)


def said(thing: Any) -> str:
    """Return the docstring of a class, without references to the project's docs."""
    return frame_schemas.published(thing.__doc__ or "")


def type_of(frame: type[msgspec.Struct]) -> str:
    """Return a frame's `type` on the websocket."""
    return str(frame.__struct_config__.tag)


def sent_on(path: str) -> list[type[shared_frames.ServerFrame]]:
    """List the frames that the service sends on a path, each once."""
    found = [frame for (one, _), kinds in server_frames.FRAMES.items() if one == path for frame in kinds]
    return list(dict.fromkeys(found))


def acknowledged_by(frame: type[shared_frames.ServerFrame]) -> list[str]:
    """List the types of the client frames that acknowledge a server frame; empty if it needs no acknowledgement."""
    if not issubclass(frame, shared_frames.Event):
        return []
    return ["delivered", "read"] if frame is chat_frames.NewMessage else ["ack"]


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
        answers = [one for one in ANSWERS.get(frame, ()) if one in sent] + [shared_frames.Error]
        made[f"{path}.{type_of(frame)}"] = {
            "action": "receive",
            "channel": channel,
            "summary": said(frame).split(". ")[0].rstrip(".") + ".",
            "messages": [_message_of(path, frame)],
            "reply": {"channel": channel, "messages": [_message_of(path, one) for one in answers]},
        }
    unasked = [frame for frame in sent if not issubclass(frame, shared_frames.Answer)]
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
        text = said(frame)
        message = {
            "name": type_of(frame),
            "title": type_of(frame),
            "summary": re.split(r"(?<=[.?])\s", text)[0],
            "description": text,
            "payload": _ref("components", "schemas", frame.__name__),
            "examples": [{"name": type_of(frame), "payload": _payload(example)}],
        }
        if issubclass(frame, shared_frames.ServerFrame):
            message["x-sent-to"] = _sent_to(frame)
            message["x-acknowledged-by"] = acknowledged_by(frame)
        made[frame.__name__] = message
    return made


def _payload(example: msgspec.Struct) -> dict[str, Any]:
    """Return an example as JSON would carry it, without the optional fields of client frames that are None."""
    fields = msgspec.to_builtins(example)
    if isinstance(example, frames.Frame):
        return {name: value for name, value in fields.items() if value is not None}
    return fields


def _sent_to(frame: type[shared_frames.ServerFrame]) -> list[str]:
    kinds = {kind for (_, kind), sent in server_frames.FRAMES.items() if frame in sent}
    return [kind.value for kind in UserType if kind in kinds]


def _message_of(path: str, frame: type[msgspec.Struct]) -> dict[str, str]:
    return _ref("channels", path, "messages", frame.__name__)


def _ref(*way: str) -> dict[str, str]:
    return {"$ref": "#/" + "/".join(way)}
