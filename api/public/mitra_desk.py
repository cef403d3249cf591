"""Routes for mitras: presence, chat requests and their answers."""

from typing import Any

from litestar import Request, get, post

from api.auth import mitras, note_sign
from api.parameters import path_id
from core.accounts.mitras.rules import HeartbeatChannel, MitraAtCapacity, MitraOffline
from core.base.actor import Actor
from core.base.pages import Items, read_page
from core.pairing import answer as pairing_answer
from core.pairing import presence, views
from core.pairing.rules import RequestClosed, RequestTaken
from core.pairing.views import ChatRequest
from core.runtime.container import Runtime
from core.sessions import histories
from core.sessions.messages import chats
from core.sessions.views import SessionView


@get("/api/mitra/status", **mitras(MitraOffline))
async def status(runtime: Runtime, actor: Actor) -> views.MitraStatus:
    """Return the caller's presence and number of sessions."""
    return await views.mitra_status(runtime, actor)


@post("/api/mitra/status/online", status_code=200, **mitras(MitraOffline))
async def go_online(runtime: Runtime, actor: Actor) -> views.MitraStatus:
    """Go online, to get chat requests."""
    await presence.go_online(runtime, actor)
    return await views.mitra_status(runtime, actor)


@post("/api/mitra/status/offline", status_code=200, **mitras(MitraOffline))
async def go_offline(runtime: Runtime, actor: Actor) -> views.MitraStatus:
    """Go offline, to get no more chat requests."""
    await presence.go_offline(runtime, mitra_id=actor.user_id)
    return await views.mitra_status(runtime, actor)


@post("/api/mitra/status/heartbeat", status_code=200, **mitras(MitraOffline, by_itself=True))
async def heartbeat(request: Request[Any, Any, Any], runtime: Runtime, actor: Actor) -> views.MitraStatus:
    """Record a heartbeat of the caller's app."""
    if await presence.heartbeat(runtime, actor, HeartbeatChannel.REST):
        note_sign(request, actor)
    return await views.mitra_status(runtime, actor)


@get("/api/mitra/chat-requests", **mitras())
async def chat_requests(runtime: Runtime, actor: Actor) -> Items[ChatRequest]:
    """List the chat requests that are open to the caller, newest first."""
    return Items(items=await views.chat_requests(runtime, actor))


@post(
    "/api/mitra/chat-requests/{session_id:str}/accept",
    status_code=200,
    **mitras(RequestTaken, RequestClosed, MitraOffline, MitraAtCapacity),
)
async def accept(session_id: str, runtime: Runtime, actor: Actor) -> SessionView:
    """Accept a chat request.

    The first mitra who accepts gets the session.
    """
    return await pairing_answer.accept(runtime, actor, session_id=path_id(session_id))


@post("/api/mitra/chat-requests/{session_id:str}/reject", status_code=204, **mitras(RequestTaken, RequestClosed))
async def reject(session_id: str, runtime: Runtime, actor: Actor) -> None:
    """Reject a chat request."""
    await pairing_answer.reject(runtime, actor, session_id=path_id(session_id))


@get("/api/mitra/chat-requests/sessions/active-with-unread", **mitras())
async def active_with_unread(runtime: Runtime, actor: Actor) -> Items[SessionView]:
    """List the caller's running sessions with their unread counts."""
    return Items(items=await chats.open_sessions(runtime, actor))


@get("/api/mitra/chat/history", **mitras())
async def history(
    runtime: Runtime, actor: Actor, cursor: str | None = None, limit: int | None = None
) -> Items[SessionView]:
    """List the caller's sessions, newest first."""
    return await histories.mitra_history(runtime, actor, read_page(cursor, limit))


ROUTES = [
    status, go_online, go_offline, heartbeat, chat_requests, accept, reject, active_with_unread, history,
]  # fmt: skip
