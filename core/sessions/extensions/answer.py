"""Answer an extension: by the mitra, or by timeout (docs/product.md#extensions)."""

from core.base.actor import Actor
from core.base.errors import NotFound, Unavailable
from core.payments.failures.causes import SubCause
from core.runtime.container import Runtime
from core.sessions import own_session
from core.sessions import store as sessions
from core.sessions.clock import session_clock
from core.sessions.extensions import extend, rules
from core.sessions.extensions import store as extensions
from core.sessions.extensions.rules import DefaultAction, ExtensionNotPending
from core.sessions.extensions.states import ExtensionStatus
from core.sessions.extensions.views import ExtensionView, view_of
from core.telemetry import logs

BATCH = 200
log = logs.get("extensions")


async def answer(runtime: Runtime, actor: Actor, *, session_id: str, extension_id: str, accept: bool) -> ExtensionView:
    """Approve or reject an extension of the calling mitra's session.

    Raises NotFound; ExtensionNotPending if it was answered already or `answer_by` has passed, because then the timeout
    decides. While the clock of sessions stands, no timeout does.
    """
    async with runtime.transaction() as tx:
        session, _ = await own_session.lock(tx, actor, session_id=session_id)
        extension = await extensions.get(tx, extension_id)
        if extension is None or extension.session_id != session_id:
            raise NotFound
        if extension.status is not ExtensionStatus.PENDING:
            raise ExtensionNotPending
        if extension.answer_by <= tx.now and not await session_clock.stands(runtime, tx):
            raise ExtensionNotPending
        status = ExtensionStatus.APPROVED if accept else ExtensionStatus.REJECTED
        resolved = await extend.resolve(runtime, tx, session, extension, status)
    return view_of(resolved, topic_sensitivity=session.topic_sensitivity)


async def time_out(runtime: Runtime) -> int:
    """Resolve extensions whose `answer_by` has passed, as configured; return how many."""
    action = DefaultAction(runtime.config.text("extension_default_action_on_timeout"))
    resolved = 0
    for due in await extensions.due(runtime.db, now=runtime.now(), limit=BATCH):
        try:
            async with runtime.transaction() as tx:
                if await session_clock.stands(runtime, tx):
                    return resolved
                session = await sessions.lock_if_free(tx, due.session_id)
                extension = await extensions.get(tx, due.id)
                if session is None or extension is None or extension.status is not ExtensionStatus.PENDING:
                    continue
                await extend.resolve(runtime, tx, session, extension, rules.by_silence(action), SubCause.NOT_ANSWERED)
                resolved += 1
        except Unavailable:
            raise
        except Exception:  # one failure must not keep the others from being resolved
            log.exception("resolving an extension failed", extension_id=due.id)
    return resolved
