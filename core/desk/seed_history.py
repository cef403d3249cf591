"""Insert a past session, so that returning customers can be tried. Development only."""

import datetime as dt

from core.accounts.customers import store as customers
from core.accounts.mitras import store as mitras
from core.accounts.operators import store as operators
from core.base import ids
from core.base.actor import Actor
from core.base.errors import NotFound, ValidationFailed
from core.base.languages import Text
from core.runtime.container import Runtime
from core.sessions import transitions

LASTED = dt.timedelta(minutes=12)
EARLIEST = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)


async def seed_history_session(
    runtime: Runtime,
    actor: Actor,
    *,
    customer_id: str,
    mitra_id: str,
    ended_at: dt.datetime | None,
    topics: list[str] | None,
) -> str:
    """Insert a completed session without a payment and return its id. Raises NotFound, ValidationFailed."""
    async with runtime.transaction() as tx:
        if await customers.get(tx, customer_id) is None or await mitras.get(tx, mitra_id) is None:
            raise NotFound
        end = ended_at or tx.now
        if not EARLIEST <= end <= tx.now:
            raise ValidationFailed.of(
                "ended_at",
                Text(en="must be between the year 2000 and now", id="harus antara tahun 2000 dan sekarang"),
            )
        session_id = ids.new_id()
        await transitions.create_completed(
            tx,
            session_id,
            customer_id=customer_id,
            mitra_id=mitra_id,
            began_at=end - LASTED,
            ended_at=end,
            topics=topics,
        )
        await operators.audit(
            tx,
            operator_id=actor.user_id,
            action="session.seeded",
            object_type="chat_session",
            object_id=session_id,
            before=None,
            after={"customer_id": customer_id, "mitra_id": mitra_id},
        )
    return session_id
