"""Routes of sessions: lists, the end with its goodbyes, and the topic's sensitivity."""

import attrs
from litestar import get, patch, post

from api.auth import customers, mitras, parties
from api.parameters import path_id, query_choice, query_id
from api.request_bodies import Body, shown_text
from core.base.actor import Actor
from core.base.pages import Items, read_page
from core.runtime.container import Runtime
from core.sessions import end as end_session
from core.sessions import histories, own_lists, set_sensitivity
from core.sessions.end import MAX_CLOSURE
from core.sessions.messages import chats
from core.sessions.rules import ClosureExists, EarlyEndDisabled, SessionNotActive, SessionNotClosable
from core.sessions.sensitivity import Sensitivity, SensitivityLatched
from core.sessions.states import SessionStatus
from core.sessions.views import SessionView


@attrs.frozen(kw_only=True)
class ActiveSession:
    """The caller's running session and running search; each is null without one."""

    session: SessionView | None
    unread_count: int
    searching: SessionView | None


@attrs.frozen(kw_only=True)
class ClosureBody:
    """The caller's goodbye."""

    message: str = shown_text(MAX_CLOSURE)


@attrs.frozen(kw_only=True)
class TopicBody:
    """The session's new topic sensitivity."""

    topic_sensitivity: Sensitivity


@get("/api/shared/chat/sessions/{session_id:str}", **parties())
async def session(session_id: str, runtime: Runtime, actor: Actor) -> SessionView:
    """Return a session of the caller."""
    return await chats.session(runtime, actor, path_id(session_id))


@post("/api/shared/chat/sessions/{session_id:str}/end", status_code=200, **parties(EarlyEndDisabled, SessionNotActive))
async def end(session_id: str, runtime: Runtime, actor: Actor) -> SessionView:
    """End the session."""
    return await end_session.end(runtime, actor, session_id=path_id(session_id))


@post(
    "/api/shared/chat/sessions/{session_id:str}/closure",
    status_code=200,
    dto=Body[ClosureBody],
    return_dto=None,
    **parties(SessionNotClosable, ClosureExists),
)
async def closure(session_id: str, data: ClosureBody, runtime: Runtime, actor: Actor) -> SessionView:
    """Say goodbye."""
    return await end_session.say_goodbye(runtime, actor, session_id=path_id(session_id), message=data.message)


@patch(
    "/api/shared/chat/sessions/{session_id:str}/topic",
    dto=Body[TopicBody],
    return_dto=None,
    **mitras(SessionNotActive, SensitivityLatched),
)
async def set_topic(session_id: str, data: TopicBody, runtime: Runtime, actor: Actor) -> SessionView:
    """Set the session's topic sensitivity."""
    return await set_sensitivity.set_sensitivity(
        runtime, actor, session_id=path_id(session_id), topic_sensitivity=data.topic_sensitivity
    )


@get("/api/client/chat/history", **customers())
async def history(
    runtime: Runtime, actor: Actor, cursor: str | None = None, limit: int | None = None
) -> Items[histories.ChatHistoryRow]:
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
    return await own_lists.sessions(
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


ROUTES = [session, end, closure, set_topic, history, sessions, active_with_unread]
