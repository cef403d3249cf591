"""The interface document of the sockets: AsyncAPI 3.0, made from the frame classes (contract 7).

It describes the service: what it receives (realtime/frames.py), what it sends (realtime/server_frames.py). Rules that no
schema can say are in the texts and, for machines, in fields that begin with `x-`.
"""

import inspect
import re
from typing import Any, get_args

import msgspec

from core.base.actor import UserType
from core.base.settings import Settings
from realtime import acks, close_codes, frames, hub, server_frames, socket, wire
from realtime import connection as limits
from realtime.frame_examples import CLIENT, SERVER

CHANNELS = {
    "chat": (
        "Running chats",
        "Messages, marks, typing, and what happens to sessions, for customers and mitras.",
        get_args(frames.ChatFrame),
    ),
    "pairing": (
        "The search for a mitra",
        "How a customer's search stands; the requests that a mitra may accept.",
        get_args(frames.PairingFrame),
    ),
}
# What answers a client frame, besides `error`. Frames that are not here are answered by nothing else.
ANSWERS: dict[type[frames.Frame], tuple[type[server_frames.ServerFrame], ...]] = {
    frames.Auth: (server_frames.ChatAuthOk, server_frames.SearchAuthOk, server_frames.DeskAuthOk),
    frames.SendMessage: (server_frames.MessageAck,),
    frames.Sync: (server_frames.SyncPage,),
    frames.Ping: (server_frames.Pong,),
    frames.Accept: (server_frames.Accepted,),
}
# Of the upgrade request.
HEADERS = {
    "type": "object",
    "properties": {
        "Accept-Language": {"type": "string", "examples": ["id-ID, id;q=0.9, en;q=0.8"]},
        "X-Locale": {"type": "string", "examples": ["id", "en"]},
    },
}
REREAD_S = 10  # clients spread their reading after a failover over this time
SOURCES = re.compile(r"\s*\((?:contract|specification)\b[^)]*\)")
DESCRIPTION = """\
Text frames, one JSON object each; `type` says which. The service's time is in every frame that it sends.

**Handshake.** The first frame must be `auth` with an access token of the public interface, within {handshake} s. The \
answer is `auth_ok` with a snapshot. The socket is subscribed before the snapshot is taken, so `sync` after it leaves no \
gap. `auth_expiring` comes 60 s before the token ends: send `auth` again with a new one of the same user.

**Delivery.** At least once. Frames with an `event_id` come again to whoever connects, for an hour, until one device \
has acknowledged them: `message` by `delivered` or `read`, all others by `ack`. Drop an `event_id` that you have seen. \
The ids of a session's events grow strictly in the order of its changes, whichever process made them. An event that was \
lost on its way comes late: where its id is smaller than that of an event you have of the same session, acknowledge it, \
and keep what you know. \
Messages come in the order of `seq`, without gaps; what was missed is found by `sync`. Every device of a user gets every \
frame.

**Epochs.** `auth_ok` and `sync` carry the `epoch` of the database's history. After a failover to another server or a restore it is another one, and messages that were acknowledged last may be lost: the sockets close with 1012. A client that sees another epoch than before reads its sessions again by `sync` with `after: 0`, after a random 0 to {reread} s. It drops messages that are not among the answers, and sends those of its own again with their old `client_message_id`.

**Answers.** Every client frame may carry a `ref`; its answer echoes it. A frame that is refused is answered by `error`, \
and the socket stays. `INVALID_FRAME`: it could not be read; `UNKNOWN_TYPE`: there is no such frame here. The messages of \
errors are Indonesian or English, as the upgrade request asks by `Accept-Language`, else by `X-Locale`; else English.

**Change.** Fields, frames and codes are only ever added: ignore what you do not know. What you send is read strictly.

**Limits.** A frame has at most {max_frame} bytes (else 1009). A user may send {rate} frames a second, {burst} at once, on \
all sockets together (else 4429). A protocol ping counts as a frame; `sync` and `auth` as {sync}, an `ack` of an unknown event \
as {ack}, a frame about a session that is not the user's as {strange}. A `sync` over the budget is answered by `TOO_FAST` and \
leaves the socket open, and so is a message over {messages} a second, {messages_burst} at once, of a user in a session: wait \
`retry_after_seconds`, then send again in the same order. {sockets} sockets a user and path; one more closes the oldest (4409). \
{unknown} sockets of one address may be unauthenticated; one more closes the oldest (1013). {waiting} frames or 1 MiB that wait \
to be read close a socket (4408). A protocol ping comes every {ping} s of silence; two without an answer close (4408).

**Reconnection.** The first attempt comes after a random 0 to 1 s; the next ones after a random 0 to 2, 4, 8 and 10 s, and \
from then on after 0 to 30 s. After 1012: a random 0 to 5 s; after 1013: a random 0 to 10 s. An upgrade that is refused with 503 \
says in `Retry-After` how many seconds to wait. None of these says anything about the token.

**Close codes.**

| code | meaning | reconnect | then |
|---|---|---|---|
{codes}
"""


def document(settings: Settings) -> dict[str, Any]:
    """Return the document, with the address and the limits of the settings."""
    rules = {
        "x-handshake-seconds": int(socket.HANDSHAKE_S),
        "x-ping-seconds": socket.PING_S,
        "x-limits": {
            "frame_bytes": wire.MAX_FRAME,
            "frames_per_second": settings.ws_frames_per_second,
            "frames_burst": settings.ws_frames_burst,
            "frame_costs": _costs(),
            "messages_per_second": settings.ws_messages_per_second,
            "messages_burst": settings.ws_messages_burst,
            "unauthenticated_per_address": settings.ws_unauthenticated_per_address,
            "sockets": hub.SOCKETS_A_USER,
            "waiting_frames": limits.MAX_FRAMES,
            "waiting_bytes": limits.MAX_BYTES,
        },
        "x-close-codes": [msgspec.to_builtins(code) for code in close_codes.ALL],
    }
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Sesi: the sockets",
            "version": "1.0.0",
            "description": _description(settings),
            "license": {"name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"},
        },
        "defaultContentType": "application/json",
        "servers": {"realtime": _server(settings)},
        "channels": {path: _channel(path) | rules for path in CHANNELS},
        "operations": {name: operation for path in CHANNELS for name, operation in _operations(path).items()},
        "components": {"messages": _messages(), "schemas": _schemas()},
    }


def encoded(settings: Settings) -> bytes:
    """Return the document as JSON text."""
    return msgspec.json.format(msgspec.json.encode(document(settings)), indent=2)


def said(thing: Any) -> str:
    """Return a class's docstring for readers who do not have our papers."""
    return SOURCES.sub("", inspect.cleandoc(thing.__doc__ or ""))


def type_of(frame: type[msgspec.Struct]) -> str:
    """Return a frame's `type` on the wire."""
    return str(frame.__struct_config__.tag)


def sent_on(path: str) -> list[type[server_frames.ServerFrame]]:
    """List the frames that are sent on a path, each once."""
    found = [frame for (one, _), kinds in server_frames.FRAMES.items() if one == path for frame in kinds]
    return list(dict.fromkeys(found))


def acknowledged_by(frame: type[server_frames.ServerFrame]) -> list[str]:
    """List the client frames that acknowledge a server frame; none when it need not be."""
    if not issubclass(frame, server_frames.Event):
        return []
    return ["delivered", "read"] if frame is server_frames.NewMessage else ["ack"]


def _description(settings: Settings) -> str:
    rows = [f"| {c.code} | {c.meaning} | {'yes' if c.reconnect else 'no'} | {c.then} |" for c in close_codes.ALL]
    return DESCRIPTION.format(
        handshake=int(socket.HANDSHAKE_S),
        max_frame=wire.MAX_FRAME,
        rate=settings.ws_frames_per_second,
        burst=settings.ws_frames_burst,
        sync=socket.SYNC_COST,
        ack=1 + acks.UNKNOWN_COST,
        strange=1 + hub.STRANGE_COST,
        messages=settings.ws_messages_per_second,
        messages_burst=settings.ws_messages_burst,
        unknown=settings.ws_unauthenticated_per_address,
        sockets=hub.SOCKETS_A_USER,
        waiting=limits.MAX_FRAMES,
        ping=socket.PING_S,
        reread=REREAD_S,
        codes="\n".join(rows),
    )


def _costs() -> dict[str, int]:
    """Return what frames cost that count as more than one."""
    return {
        "sync": socket.SYNC_COST,
        "auth": socket.AUTH_COST,
        "ack_of_unknown_event": 1 + acks.UNKNOWN_COST,
        "session_of_another_user": 1 + hub.STRANGE_COST,
    }


def _server(settings: Settings) -> dict[str, Any]:
    return {
        "host": f"{settings.realtime_host}:{settings.realtime_port}",
        "protocol": "ws",
        "description": "The realtime process; in production behind TLS (wss).",
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
    """One operation for each client frame, with what answers it; one for all that is sent unasked."""
    channel = _ref("channels", path)
    sent = sent_on(path)
    made: dict[str, Any] = {}
    for frame in CHANNELS[path][2]:
        answers = [one for one in ANSWERS.get(frame, ()) if one in sent] + [server_frames.Error]
        made[f"{path}.{type_of(frame)}"] = {
            "action": "receive",
            "channel": channel,
            "summary": said(frame).split(". ")[0].rstrip(".") + ".",
            "messages": [_message_of(path, frame)],
            "reply": {"channel": channel, "messages": [_message_of(path, one) for one in answers]},
        }
    unasked = [frame for frame in sent if not issubclass(frame, server_frames.Answer)]
    made[f"{path}.events"] = {
        "action": "send",
        "channel": channel,
        "summary": "What the service sends by itself.",
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
        if issubclass(frame, server_frames.ServerFrame):
            message["x-sent-to"] = _sent_to(frame)
            message["x-acknowledged-by"] = acknowledged_by(frame)
        made[frame.__name__] = message
    return made


def _payload(example: msgspec.Struct) -> dict[str, Any]:
    """Return an example as it is sent; an app leaves out what it has nothing to say about."""
    fields = msgspec.to_builtins(example)
    if isinstance(example, frames.Frame):
        return {name: value for name, value in fields.items() if value is not None}
    return fields


def _sent_to(frame: type[server_frames.ServerFrame]) -> list[str]:
    kinds = {kind for (_, kind), sent in server_frames.FRAMES.items() if frame in sent}
    return [kind.value for kind in UserType if kind in kinds]


def _schemas() -> dict[str, Any]:
    """Every class; what the service sends stays open, because fields are only ever added."""
    received = sorted({type(one) for one in CLIENT}, key=lambda frame: frame.__name__)
    sent = sorted({type(one) for one in SERVER}, key=lambda frame: frame.__name__)
    template = "#/components/schemas/{name}"
    _, strict = msgspec.json.schema_components(received, ref_template=template)
    _, open_ = msgspec.json.schema_components(sent, ref_template=template)
    for schema in open_.values():
        schema.pop("additionalProperties", None)
    schemas = {**strict, **open_}
    for schema in schemas.values():
        if "description" in schema:
            schema["description"] = SOURCES.sub("", inspect.cleandoc(schema["description"]))
    return schemas


def _message_of(path: str, frame: type[msgspec.Struct]) -> dict[str, str]:
    return _ref("channels", path, "messages", frame.__name__)


def _ref(*way: str) -> dict[str, str]:
    return {"$ref": "#/" + "/".join(way)}
