"""One example of every frame, for the AsyncAPI document. The tests send the client frames to a real service."""

import datetime as dt
from typing import Any

import attrs

from core.base.field_types import Id
from core.pairing.events import REQUEST
from core.payments.events import AT
from core.sessions.events import NewMessage
from core.sessions.examples import (
    AYU,
    CLIENT_MESSAGE_ID,
    DEWI,
    EXTENSION,
    MESSAGE,
    MESSAGE_ID,
    RUNNING,
    SEARCHING,
    SESSION_ID,
    STARTED,
)
from core.sessions.messages.chats import OpenSession
from core.sessions.rules import SessionNotActive
from realtime import frames, server_frames

CONNECTION_ID = Id("019aa4b6-5f00-7000-8000-00000000d001")
EVENT_ID = Id("019aa4b6-5f00-7000-8000-00000000e001")
EPOCH = "86d9a77de846a836"
DIGEST = "5e2bf57d3f40c4b6df69daf1936cb766f832374b4fc0259a7cbff06e2f70f269"
TOKEN = "eyJhbGciOiJIUzI1NiIsImtpZCI6IjIwMjZhIn0.eyJ0eXAiOiJjdXN0b21lciJ9.c2lnbmF0dXJl"  # noqa: S105 - made up

CLIENT: tuple[frames.Frame, ...] = (
    frames.Auth(token=TOKEN, ref="1"),
    frames.SendMessage(
        session_id=SESSION_ID,
        client_message_id=CLIENT_MESSAGE_ID,
        content="Halo Kak, aku butuh teman bicara.",
        metadata={"reply_to": 3},
        ref="2",
    ),
    frames.Delivered(session_id=SESSION_ID, up_to=4),
    frames.Read(session_id=SESSION_ID, up_to=4),
    frames.Typing(session_id=SESSION_ID, is_typing=True),
    frames.Sync(session_id=SESSION_ID, after=0, ref="3"),
    frames.Ack(event_id=EVENT_ID),
    frames.Ping(ref="4"),
    frames.Accept(session_id=SESSION_ID, ref="5"),
    frames.Reject(session_id=SESSION_ID, ref="6"),
    frames.Heartbeat(),
)

OPEN = OpenSession(
    **attrs.asdict(RUNNING, recurse=False), extension=EXTENSION, peer_delivered_up_to=4, peer_read_up_to=3
)
_customer = server_frames.User(id=DEWI.id, type="customer")
_mitra = server_frames.User(id=AYU.id, type="mitra")
_known: dict[str, Any] = {
    "connection_id": CONNECTION_ID,
    "epoch": EPOCH,
    "ping_seconds": 25,
    "time_scale": 1,
    "server_time": AT,
    "ref": "1",
}


def _example_of(frame: type[server_frames.EventFrame]) -> server_frames.EventFrame:
    event_id = MESSAGE_ID if frame.event is NewMessage else EVENT_ID
    return frame(event_id=event_id, server_time=AT, **frame.event.example)


SERVER: tuple[server_frames.ServerFrame, ...] = (
    server_frames.ChatAuthOk(user=_customer, sessions=[OPEN], **_known),
    server_frames.MessageAck(
        client_message_id=CLIENT_MESSAGE_ID, id=MESSAGE_ID, seq=4, created_at=AT, server_time=AT, ref="2"
    ),
    server_frames.MessageStatus(session_id=SESSION_ID, status="read", up_to=4, at=AT, server_time=AT),
    server_frames.PartyTyping(session_id=SESSION_ID, is_typing=True, server_time=AT),
    server_frames.SyncPage(
        session_id=SESSION_ID,
        messages=[MESSAGE],
        last_seq=4,
        more=False,
        epoch=EPOCH,
        digest=DIGEST,
        blanked=False,
        server_time=AT,
        ref="3",
    ),
    server_frames.SearchAuthOk(user=_customer, searching=SEARCHING, **_known),
    server_frames.DeskAuthOk(user=_mitra, requests=[REQUEST], **_known),
    server_frames.Accepted(session=STARTED, server_time=AT, ref="5"),
    server_frames.AuthExpiring(at=AT + dt.timedelta(seconds=60), server_time=AT),
    server_frames.Pong(server_time=AT, ref="4"),
    server_frames.Error(
        code=SessionNotActive.code,
        message="The message was not stored.",
        server_time=AT,
        ref="2",
    ),
    *(_example_of(frame) for frame in server_frames.EVENT_FRAMES),
)
