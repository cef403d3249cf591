"""The base classes of server frames, and the frames of both paths (docs/protocol.md#websockets).

The docstrings of server frames are descriptions in the AsyncAPI document and in docs/events.md, so they address app
developers. Objects in frames are the views of `core`. The classes forbid unknown fields for the tests only, which check
every frame that they receive: clients must ignore fields that they do not know.
"""

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, UnsetType

from core.base import field_messages
from core.base.field_types import Count, Id, Party, Positive, Time
from realtime.frames import Ref
from realtime.refusals import CODES

# Identifies the database's history. If it changes, the latest commits may be lost (realtime/interface_description.py).
Epoch = Annotated[str, msgspec.Meta(min_length=1)]

ErrorCode = Annotated[
    str,
    msgspec.Meta(
        pattern="^[A-Z][A-Z0-9_]*$",
        # Codes may be added, so the known ones are no closed enumeration.
        extra_json_schema={"anyOf": [{"type": "string", "enum": sorted(CODES)}, {"type": "string"}]},
    ),
]

ErrorDetails = Annotated[
    dict[str, Any], msgspec.Meta(extra_json_schema={"properties": {"fields": field_messages.SCHEMA}})
]


class User(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The user of this socket."""

    id: Id
    type: Party


class ServerFrame(msgspec.Struct, kw_only=True, tag_field="type", forbid_unknown_fields=True):
    """Base of all server frames.

    `server_time` is the service's time, so that apps count down correctly on any phone.
    """

    server_time: Time


class Answer(ServerFrame, kw_only=True):
    """An answer to a client frame. It echoes that frame's `ref`, if it had one."""

    ref: Ref | UnsetType = UNSET


class Event(ServerFrame, kw_only=True):
    """A stored event. It is repeated after each `auth_ok` until one of the user's devices acknowledges it; only a
    `message` is not repeated, because `sync` returns it."""

    event_id: Id


class AuthOk(Answer, kw_only=True):
    """The token is valid.

    The socket was subscribed before the snapshot was taken, so no frame is missed between them.
    """

    user: User
    connection_id: Id
    epoch: Epoch
    ping_seconds: Positive


class AuthExpiring(ServerFrame, kw_only=True, tag="auth_expiring"):
    """The access token expires at `at`, in 60 s. Send `auth` with a new one, or the socket closes with 4401."""

    at: Time


class Pong(Answer, kw_only=True, tag="pong"):
    """The answer to `ping`."""


class Error(Answer, kw_only=True, tag="error"):
    """A frame was refused; the socket stays open.

    The codes are those of the REST interface, and two more: `INVALID_FRAME` and `UNKNOWN_TYPE`. After `TOO_FAST` wait
    `retry_after_seconds`, then send the frames again in the same order. Messages are in the language of the upgrade
    request. The `ref` is that of the frame, also if it is longer than a frame may have."""

    ref: str | UnsetType = UNSET
    code: ErrorCode
    message: str
    details: ErrorDetails | UnsetType = UNSET
    retry_after_seconds: Count | UnsetType = UNSET
