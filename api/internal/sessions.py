"""Sessions, as support looks them up (contract 8)."""

from typing import Annotated

from litestar import get
from litestar.params import QueryParameter

from api.auth import operators
from api.bodies import path_id, query_choice, query_time
from core.base.pages import Items, read_page
from core.reads import support
from core.reads.support import LookUp
from core.runtime import Runtime
from core.sessions.states import SessionStatus


@get("/internal/sessions", **operators("sessions"))
async def sessions(
    runtime: Runtime,
    q: str | None = None,
    since: Annotated[str | None, QueryParameter(name="from")] = None,
    to: str | None = None,
    status: str | None = None,
    cursor: str | None = None,
    limit: int | None = None,
) -> Items[support.SupportSession]:
    """Sessions, newest first; `q` is a party's name, or an id of session, party or payment request."""
    which = LookUp(
        q=q,
        since=query_time("from", since),
        until=query_time("to", to),
        status=query_choice("status", status, SessionStatus),
    )
    return await support.sessions(runtime, read_page(cursor, limit), which)


@get("/internal/sessions/{session_id:str}", **operators("sessions"))
async def session(session_id: str, runtime: Runtime) -> support.SupportSession:
    """One session."""
    return await support.session(runtime, path_id(session_id))


ROUTES = [sessions, session]
