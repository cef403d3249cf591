"""Routes of messages: read a part of a chat, send one, mark as read."""

from typing import Any, Literal

import attrs
from litestar import get, post

from api.auth import parties
from api.parameters import path_id
from api.request_bodies import Body, integer, shown_text
from api.shared_answers import List
from core.base import field_messages, ids
from core.base.actor import Actor
from core.base.errors import ValidationFailed
from core.base.field_types import MAX_INT, ClientMessageId
from core.base.pages import read_page
from core.runtime.container import Runtime
from core.sessions.messages import chats
from core.sessions.messages import send as message_send
from core.sessions.messages.rules import MAX_CONTENT, Draft, TooFast, check_message
from core.sessions.rules import SessionNotActive


@attrs.frozen(kw_only=True)
class MessageBody:
    """A new message. A message with the same `client_message_id` is stored once, so it is safe to send it again."""

    client_message_id: ClientMessageId
    type: Literal["text"] = "text"
    content: str = shown_text(MAX_CONTENT)
    metadata: dict[str, Any] | None = None


@attrs.frozen(kw_only=True)
class ReadBody:
    """The caller has read all messages with a `seq` up to this one."""

    up_to: int = integer(0)


@get("/api/shared/chat/sessions/{session_id:str}/messages", **parties())
async def messages(
    session_id: str,
    runtime: Runtime,
    actor: Actor,
    after: int | None = None,
    before: int | None = None,
    limit: int | None = None,
) -> List[chats.MessageView]:
    """List a part of the session's messages, by ascending `seq`.

    `after` lists the messages after a `seq`, `before` the last ones before it. Without both it lists the last ones.
    """
    for name, value in (("after", after), ("before", before)):
        if value is not None and not 0 <= value <= MAX_INT:
            raise ValidationFailed.of(name, field_messages.between(0, MAX_INT))
    size = read_page(None, limit).limit
    found = await chats.messages(runtime, actor, path_id(session_id), after=after, before=before, limit=size)
    return List(items=found)


@post(
    "/api/shared/chat/sessions/{session_id:str}/messages",
    status_code=201,
    dto=Body[MessageBody],
    return_dto=None,
    **parties(SessionNotActive, TooFast),
)
async def send(session_id: str, data: MessageBody, runtime: Runtime, actor: Actor) -> chats.MessageView:
    """Send a message.

    It is handled like a message sent over the socket.
    """
    metadata = check_message(message_type=data.type, content=data.content, metadata=data.metadata)
    draft = Draft(
        id=ids.new_id(),
        session_id=path_id(session_id),
        sender_id=actor.user_id,
        client_message_id=data.client_message_id,
        type=data.type,
        content=data.content,
        metadata=metadata,
    )
    placed = await message_send.send_one(runtime, actor, draft)
    return await chats.message(runtime, placed.id, draft.session_id)


@post(
    "/api/shared/chat/sessions/{session_id:str}/read",
    status_code=204,
    dto=Body[ReadBody],
    return_dto=None,
    **parties(),
)
async def read(session_id: str, data: ReadBody, runtime: Runtime, actor: Actor) -> None:
    """Mark the messages up to a `seq` as read."""
    await message_send.mark_read(runtime, actor, session_id=path_id(session_id), up_to=data.up_to)


ROUTES = [messages, send, read]
