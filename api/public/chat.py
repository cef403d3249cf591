"""Routes of chats over REST, for the parties of a session. For other callers the session does not exist (NotFound)."""

from typing import Any, Literal

import attrs
from litestar import Request, get, patch, post

from api.auth import customers, mitras, parties
from api.idempotency import key_of
from api.parameters import path_id, query_choice, query_id
from api.request_bodies import Body, integer, text
from api.shared_answers import List
from core.base import field_messages, ids
from core.base.actor import Actor
from core.base.errors import ValidationFailed
from core.base.field_types import ClientMessageId, PaymentRequestId
from core.base.pages import Items, read_page
from core.extensions.rules import ExtensionResolved
from core.extensions.views import ExtensionView
from core.flows import extension_answer, extension_ask, message_send, session_end, session_sensitivity
from core.idempotency.rules import IdempotencyInFlight, IdempotencyMismatch
from core.messages.rules import Draft, TooFast, check_message
from core.payments.rules import PaymentNotConfirmed
from core.reads import chats, histories, own
from core.runtime import Runtime
from core.sessions.rules import ClosureExists, EarlyEndDisabled, SessionNotActive, SessionNotClosable
from core.sessions.sensitivity import Sensitivity, SensitivityLatched
from core.sessions.states import SessionStatus
from core.sessions.views import SessionView

MAX_SEQ = 2**31 - 1


@attrs.frozen(kw_only=True)
class ActiveSession:
    """The caller's running session and running search; each is null without one."""

    session: SessionView | None
    unread_count: int
    searching: SessionView | None


@attrs.frozen(kw_only=True)
class MessageBody:
    """A new message. A message with the same `client_message_id` is stored once, so it is safe to send it again."""

    client_message_id: ClientMessageId
    type: Literal["text"] = "text"
    content: str = text(1, 4000)
    metadata: dict[str, Any] | None = None


@attrs.frozen(kw_only=True)
class ReadBody:
    """The caller has read all messages with a `seq` up to this one."""

    up_to: int = integer(0)


@attrs.frozen(kw_only=True)
class ClosureBody:
    """The caller's goodbye."""

    message: str = text(1, 1000)


@attrs.frozen(kw_only=True)
class AskBody:
    """The confirmed payment request of the extension."""

    payment_request_id: PaymentRequestId


@attrs.frozen(kw_only=True)
class AnswerBody:
    """Whether the mitra accepts the extension."""

    accept: bool


@attrs.frozen(kw_only=True)
class TopicBody:
    """The session's new topic sensitivity."""

    topic_sensitivity: Sensitivity


@get("/api/shared/chat/sessions/{session_id:str}", **parties())
async def session(session_id: str, runtime: Runtime, actor: Actor) -> SessionView:
    """Return a session of the caller."""
    return await chats.session(runtime, actor, path_id(session_id))


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
        if value is not None and not 0 <= value <= MAX_SEQ:
            raise ValidationFailed.of(name, field_messages.between(0, MAX_SEQ))
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


@post("/api/shared/chat/sessions/{session_id:str}/end", status_code=200, **parties(EarlyEndDisabled, SessionNotActive))
async def end(session_id: str, runtime: Runtime, actor: Actor) -> SessionView:
    """End the session."""
    return await session_end.end(runtime, actor, session_id=path_id(session_id))


@post(
    "/api/shared/chat/sessions/{session_id:str}/closure",
    status_code=200,
    dto=Body[ClosureBody],
    return_dto=None,
    **parties(SessionNotClosable, ClosureExists),
)
async def closure(session_id: str, data: ClosureBody, runtime: Runtime, actor: Actor) -> SessionView:
    """Say goodbye."""
    return await session_end.say_goodbye(runtime, actor, session_id=path_id(session_id), message=data.message)


@post(
    "/api/shared/chat/sessions/{session_id:str}/extensions",
    status_code=200,
    dto=Body[AskBody],
    return_dto=None,
    idempotent=True,
    **customers(PaymentNotConfirmed, IdempotencyMismatch, IdempotencyInFlight),
)
async def ask_extension(
    session_id: str, data: AskBody, request: Request[Any, Any, Any], runtime: Runtime, actor: Actor
) -> ExtensionView:
    """Ask the mitra for a paid extension.

    The service does this when the payment is confirmed, so apps need not call it. A further call returns the extension
    as it is.
    """
    return await extension_ask.ask_explicitly(
        runtime,
        actor,
        session_id=path_id(session_id),
        payment_request_id=data.payment_request_id,
        key=key_of(request, actor, f"extension of {session_id}", data),
    )


@post(
    "/api/shared/chat/sessions/{session_id:str}/extensions/{extension_id:str}/answer",
    status_code=200,
    dto=Body[AnswerBody],
    return_dto=None,
    **mitras(ExtensionResolved),
)
async def answer_extension(
    session_id: str, extension_id: str, data: AnswerBody, runtime: Runtime, actor: Actor
) -> ExtensionView:
    """Accept or reject an extension."""
    return await extension_answer.answer(
        runtime, actor, session_id=path_id(session_id), extension_id=path_id(extension_id), accept=data.accept
    )


@patch(
    "/api/shared/chat/sessions/{session_id:str}/topic",
    dto=Body[TopicBody],
    return_dto=None,
    **mitras(SessionNotActive, SensitivityLatched),
)
async def set_topic(session_id: str, data: TopicBody, runtime: Runtime, actor: Actor) -> SessionView:
    """Set the session's topic sensitivity."""
    return await session_sensitivity.set_sensitivity(
        runtime, actor, session_id=path_id(session_id), topic_sensitivity=data.topic_sensitivity
    )


@get("/api/client/chat/history", **customers())
async def history(
    runtime: Runtime, actor: Actor, cursor: str | None = None, limit: int | None = None
) -> Items[histories.HistoryRow]:
    """List the mitras of the caller's past sessions, the most recent first.

    There is one row per mitra, with the goodbyes of the last session.
    """
    return await histories.customer_history(runtime, actor, read_page(cursor, limit))


@get("/api/client/chat/sessions", **customers())
async def sessions(
    runtime: Runtime,
    actor: Actor,
    mitra_id: str | None = None,
    status: str | None = None,
    cursor: str | None = None,
    limit: int | None = None,
) -> Items[SessionView]:
    """List the caller's sessions, newest first.

    `mitra_id` and `status` filter the list.
    """
    return await own.sessions(
        runtime,
        actor,
        read_page(cursor, limit),
        mitra_id=query_id("mitra_id", mitra_id),
        status=query_choice("status", status, SessionStatus),
    )


@get("/api/client/chat/session/active-with-unread", **customers())
async def active_with_unread(runtime: Runtime, actor: Actor) -> ActiveSession:
    """Return the caller's running session with its unread count, and the running search.

    If there are several sessions, it is the newest one that is not closing. `searching` has all that an app needs to
    show the search again after a restart.
    """
    found, searching = await chats.open_and_searching(runtime, actor)
    shown = min(found, key=lambda one: one.status == "closing", default=None)
    return ActiveSession(session=shown, unread_count=shown.unread_count if shown else 0, searching=searching)


ROUTES = [
    session, messages, send, read, end, closure, ask_extension, answer_extension, set_topic, history, sessions,
    active_with_unread,
]  # fmt: skip
