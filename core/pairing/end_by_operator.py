"""An operator ends a chat or a search (docs/product.md#early-end)."""

from core.accounts.operators import store as operators
from core.base import shown_texts
from core.base.actor import Actor
from core.base.errors import NotFound
from core.pairing import search
from core.pairing.rules import WHEN_CANCELLED
from core.payments.failures.causes import SubCause
from core.runtime.container import Runtime
from core.sessions import announce
from core.sessions import end as end_session
from core.sessions import store as sessions
from core.sessions.events import SessionClosing
from core.sessions.states import HELD, SessionStatus

MAX_REASON = 500  # characters


async def end(runtime: Runtime, actor: Actor, *, session_id: str, reason: str) -> None:
    """End a chat, or cancel a search with the same effect on the money as a customer's cancellation.

    An ended session stays as it is. `reason` has 1 to 500 characters and goes into the audit log. Raises NotFound,
    ValidationFailed.
    """
    reason = reason.strip(shown_texts.SPACES)
    shown_texts.check_text("reason", reason, most=MAX_REASON)
    async with runtime.transaction() as tx:
        session = await sessions.lock(tx, session_id)
        if session is None:
            raise NotFound
        status = await end_session.status_now(runtime, session, tx)
        if status is SessionStatus.SEARCHING:
            await search.give_up(tx, session, WHEN_CANCELLED, SubCause.BY_OPERATOR)
        elif status in HELD:
            await end_session.close(runtime, tx, session, actor)
            await announce.about_sessions(tx, [session_id], SessionClosing)
        else:
            return
        after = SessionStatus.CANCELLED if status is SessionStatus.SEARCHING else SessionStatus.CLOSING
        await operators.audit(
            tx,
            actor.user_id,
            "session.ended",
            "chat_session",
            session_id,
            before={"status": status.value},
            after={"status": after.value, "reason": reason},
        )
