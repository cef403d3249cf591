"""What customers look at before they pay (contract 4)."""

import asyncio

import attrs

from core.base.actor import Actor
from core.base.clock import monotonic
from core.mitras import store as mitras
from core.pricing import rules, store
from core.pricing.store import Tier
from core.runtime import Runtime, away_is_unavailable
from core.steps.freedom import freedom

FRESH_S = 1.8  # real seconds; the answer is at most 2 s old (contract 4)


@attrs.frozen(kw_only=True)
class TierView:
    """A tier item (specification, pricing_tiers)."""

    id: str
    minutes: int
    price_idr: int
    tag: str | None


@attrs.frozen(kw_only=True)
class TierGroup:
    """The tiers of one mode."""

    tiers: list[TierView]


@attrs.frozen(kw_only=True)
class Discount:
    """The first-session discount, and whether the caller could have it."""

    enabled: bool
    eligible: bool
    price_idr: int
    gimmick_price_idr: int
    duration_minutes: int
    modes: list[str]


@attrs.frozen(kw_only=True)
class Pricing:
    """The price list."""

    chat: TierGroup
    call: TierGroup
    first_session_discount: Discount


def _group(tiers: list[Tier], mode: str) -> TierGroup:
    return TierGroup(
        tiers=[TierView(id=t.id, minutes=t.minutes, price_idr=t.price_idr, tag=t.tag) for t in tiers if t.mode == mode]
    )


async def pricing(runtime: Runtime, actor: Actor) -> Pricing:
    """Read the price list as the caller may use it."""
    with away_is_unavailable():
        tiers = await store.active_tiers(runtime.db)
        promotion = await store.first_session(runtime.db)
        past = await store.past_of(runtime.db, list(actor.ids), but_pending=True)
    discount = Discount(
        enabled=promotion is not None and promotion.enabled,
        eligible=rules.eligible(promotion, past),
        price_idr=promotion.price_idr if promotion else 0,
        gimmick_price_idr=promotion.gimmick_price_idr if promotion else 0,
        duration_minutes=promotion.duration_minutes if promotion else 0,
        modes=promotion.modes if promotion else [],
    )
    return Pricing(chat=_group(tiers, "chat"), call=_group(tiers, "call"), first_session_discount=discount)


class Availability:
    """The count of free mitras: one database read in 2 s, whatever the load."""

    def __init__(self) -> None:
        self._count = 0
        self._until = 0.0
        self._reading: asyncio.Task[int] | None = None

    async def count(self, runtime: Runtime) -> int:
        """Return how many mitras could take a request; at most 2 s old."""
        if monotonic() < self._until:
            return self._count
        if self._reading is None:
            self._reading = asyncio.create_task(self._read(runtime))
            self._reading.add_done_callback(self._done)
        # Everybody waits for the same read and shares its failure; one who leaves does not take it along.
        return await asyncio.shield(self._reading)

    def _done(self, task: asyncio.Task[int]) -> None:
        self._reading = None
        if not task.cancelled():
            task.exception()  # each waiter has had it

    async def _read(self, runtime: Runtime) -> int:
        started = monotonic()
        with away_is_unavailable():
            self._count = await mitras.count_free(runtime.db, freedom(runtime.config), now=runtime.now())
        self._until = started + FRESH_S
        return self._count
