"""A mitra sets the topic sensitivity of a session (docs/product.md#topic-sensitivity)."""

from core.base.actor import Actor
from core.runtime.container import Runtime
from core.sessions import announce, own_session, views
from core.sessions import store as sessions
from core.sessions.events import SessionTopicUpdated
from core.sessions.rules import SessionNotActive
from core.sessions.sensitivity import Sensitivity, flips
from core.sessions.states import OPEN
from core.sessions.views import SessionView


async def set_sensitivity(
    runtime: Runtime, actor: Actor, *, session_id: str, topic_sensitivity: Sensitivity
) -> SessionView:
    """Set the topic sensitivity of the calling mitra's session. Setting the present value changes and sends nothing.

    Raises NotFound, SessionNotActive, SensitivityLatched.
    """
    async with runtime.transaction() as tx:
        session, _ = await own_session.lock(tx, actor, session_id=session_id)
        if session.status not in OPEN:
            raise SessionNotActive
        before = Sensitivity(session.topic_sensitivity)
        if flips(before, topic_sensitivity, one_way=runtime.config.flag("sensitive_flag_one_way_latch")):
            await sessions.set_sensitivity(
                tx, session_id, before=before.value, after=topic_sensitivity.value, mitra_id=actor.user_id
            )
            event = SessionTopicUpdated(session_id=session.id, topic_sensitivity=topic_sensitivity)
            await announce.to_parties(tx, [(session, event)])
        view = await views.one_of(tx, session_id, party_ids=list(actor.ids), side=actor.user_type)
    assert view is not None
    return view
