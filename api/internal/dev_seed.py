"""A development route that adds a past session, so that a customer can return to a mitra.

It is absent in production.
"""

import attrs
from litestar import post

from api.auth import operators
from api.parameters import query_time
from api.public.payments import topics_field
from api.request_bodies import Body
from core.base.actor import Actor
from core.base.errors import NotFound
from core.base.field_types import CustomerId, MitraId
from core.desk import setup, support
from core.runtime.container import Runtime


@attrs.frozen(kw_only=True)
class HistoryBody:
    """The parties of the past session. The default of `ended_at` is the present time."""

    customer_id: CustomerId
    mitra_id: MitraId
    ended_at: str | None = None
    topics: list[str] | None = topics_field()


@post(
    "/internal/_test/seed-history-session",
    status_code=201,
    dto=Body[HistoryBody],
    return_dto=None,
    **operators("sessions", "write", NotFound),
)
async def seed_history_session(data: HistoryBody, runtime: Runtime, actor: Actor) -> support.SupportSession:
    """Add a completed session without a payment."""
    session_id = await setup.seed_history_session(
        runtime,
        actor,
        customer_id=data.customer_id,
        mitra_id=data.mitra_id,
        ended_at=query_time("ended_at", data.ended_at),
        topics=data.topics,
    )
    return await support.session(runtime, actor, session_id, noted=False)


ROUTES = [seed_history_session]
