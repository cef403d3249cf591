"""Write what happened to events on devices (docs/fairness.md#delivery-trail)."""

from collections.abc import Sequence

from core.base.actor import Actor
from core.base.id_ranges import first_id
from core.deliveries import trail
from core.deliveries.stages import KEPT, TrailMark, TrailStage
from core.runtime.container import Runtime
from core.telemetry import metrics


async def note_sent(runtime: Runtime, marks: Sequence[TrailMark]) -> None:
    """Store that events were written to sockets. Raises Unavailable; repeat the call then."""
    added = await trail.add(runtime.db, marks)
    metrics.DELIVERY_TRAIL_ROWS.labels(TrailStage.SENT).inc(added)


async def note_opened(runtime: Runtime, actor: Actor, *, event_id: str) -> None:
    """Store that the caller opened the app by the push of an event.

    An event that is unknown, another user's, or older than the trail is ignored, and so is a repeated call. Raises
    Unavailable.
    """
    if event_id.lower() < first_id(runtime.clock.real_now() - KEPT):
        return  # its month may be about to be removed
    mark = TrailMark(
        event_id=event_id, auth_session_id=actor.auth_session_id, stage=TrailStage.OPENED, at=runtime.now()
    )
    added = await trail.add(runtime.db, [mark], recipient_ids=actor.ids)
    metrics.DELIVERY_TRAIL_ROWS.labels(TrailStage.OPENED).inc(added)
