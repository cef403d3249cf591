"""Routes by which support looks up sessions and ends them."""

from typing import Annotated

import attrs
from litestar import get, post
from litestar.params import QueryParameter

from api.auth import operators
from api.parameters import path_id, query_choice, query_time
from api.request_bodies import Body, shown_text
from core.base.actor import Actor
from core.base.pages import Items, read_page
from core.desk import disclosure, support
from core.desk.support import LookUp
from core.pairing import end_by_operator
from core.runtime.container import Runtime
from core.sessions.receipts import show as show_receipts
from core.sessions.receipts.rules import ReceiptNotReady, SessionNotCompleted, SignedReceipt
from core.sessions.states import SessionStatus


@get("/internal/sessions", **operators("sessions"))
async def sessions(
    runtime: Runtime,
    actor: Actor,
    q: str | None = None,
    since: Annotated[str | None, QueryParameter(name="from")] = None,
    to: str | None = None,
    status: str | None = None,
    no_reply: bool = False,
    texts: bool = True,
    cursor: str | None = None,
    limit: int | None = None,
) -> Items[support.SupportSession]:
    """List sessions, newest first.

    `q` is a part of a party's name, the customer's phone number, or the id of a session, party or payment request.
    `no_reply=true` finds running chats whose customer wrote last and has waited `no_reply_minutes` for a reply. Goodbyes
    and topics are hidden without `customers.pii`, and with `texts=false`, which leaves no audit row.
    """
    which = LookUp(
        q=q,
        since=query_time("from", since),
        until=query_time("to", to),
        status=query_choice("status", status, SessionStatus),
        no_reply=no_reply,
    )
    reader = actor if texts else disclosure.unread(actor)
    return await support.sessions(runtime, reader, read_page(cursor, limit), which)


@get("/internal/sessions/{session_id:str}", **operators("sessions"))
async def session(session_id: str, runtime: Runtime, actor: Actor, texts: bool = True) -> support.SupportSession:
    """Return a session.

    Goodbyes and topics are hidden without `customers.pii`, and with `texts=false`, which leaves no audit row.
    """
    reader = actor if texts else disclosure.unread(actor)
    return await support.session(runtime, reader, path_id(session_id))


@get(
    "/internal/sessions/{session_id:str}/receipt", **operators("sessions", "read", SessionNotCompleted, ReceiptNotReady)
)
async def receipt(session_id: str, runtime: Runtime) -> SignedReceipt:
    """Return the signed receipt of a completed session.

    Sessions that were completed before the service made receipts have none: 404.
    """
    return await show_receipts.of_session(runtime, path_id(session_id))


@attrs.frozen(kw_only=True)
class EndBody:
    """Why you end the session. The reason is stored in the audit log."""

    reason: str = shown_text(end_by_operator.MAX_REASON)


@post(
    "/internal/sessions/{session_id:str}/end",
    status_code=200,
    dto=Body[EndBody],
    return_dto=None,
    **operators("sessions", "write"),
)
async def end(session_id: str, data: EndBody, runtime: Runtime, actor: Actor) -> support.SupportSession:
    """End a chat, or cancel a search.

    Both parties get the event. A session that has ended already stays unchanged.
    """
    found = path_id(session_id)
    await end_by_operator.end(runtime, actor, session_id=found, reason=data.reason)
    return await support.session(runtime, actor, found, noted=False)


ROUTES = [sessions, session, receipt, end]
