"""Reads for the screens before a payment: prices, onboarding, support contacts, available mitras and the usual wait."""

import asyncio
import datetime as dt
import functools
from collections.abc import Sequence

import attrs

from core.accounts.blocks import store as blocks
from core.accounts.mitras import store as mitras
from core.accounts.mitras.rules import AvailabilityPolicy, availability_policy
from core.base.actor import Actor
from core.base.batch_loader import PAUSE_S, BatchLoader
from core.base.clock import monotonic
from core.base.errors import NotFound
from core.base.field_types import Mode, Positive, TierId
from core.pairing.promises.rules import Estimate, hour_of, promise
from core.payments.pricing import rules, store
from core.payments.pricing.store import Tier
from core.runtime.container import Runtime
from core.storage import sql_files
from core.storage.records import as_dict
from core.storage.transaction import Reader

SQL = sql_files.load(__file__)
FRESH_S = 1.8  # real seconds; with the time of the read itself, an answer is at most 2 s old
KNOWN_BLOCKS = 2_000  # customers with a block that a process knows; with more of them each caller's blocks are read


@attrs.frozen(kw_only=True)
class TierView:
    """A price: `price_idr` Rupiah for a number of minutes. `tag` is a label to show, such as "popular"."""

    id: TierId
    minutes: int
    price_idr: int
    tag: str | None


@attrs.frozen(kw_only=True)
class TierGroup:
    """The prices of one mode, in the order to show them."""

    tiers: list[TierView]


@attrs.frozen(kw_only=True)
class FirstSessionDiscount:
    """The first-session discount, and whether the caller can have it. `gimmick_price_idr` is the crossed-out price to
    show."""

    enabled: bool
    eligible: bool
    price_idr: int
    gimmick_price_idr: int
    duration_minutes: int
    modes: list[Mode]


@attrs.frozen(kw_only=True)
class Pricing:
    """The price list."""

    chat: TierGroup
    call: TierGroup
    first_session_discount: FirstSessionDiscount


def _group(tiers: list[Tier], mode: str) -> TierGroup:
    return TierGroup(
        tiers=[TierView(id=t.id, minutes=t.minutes, price_idr=t.price_idr, tag=t.tag) for t in tiers if t.mode == mode]
    )


def _eligible(runtime: Runtime, promotion: rules.Promotion | None, past: rules.Past) -> bool:
    required = runtime.config.flag("first_session_discount_requires_identity")
    return rules.eligible(promotion, past, requires_identity=required)


async def pricing(runtime: Runtime, actor: Actor) -> Pricing:
    """Return the price list for the caller."""
    tiers = await store.active_tiers(runtime.db)
    promotion = await store.first_session(runtime.db)
    past = await store.past_of(runtime.db, list(actor.ids), but_pending=True)
    discount = FirstSessionDiscount(
        enabled=promotion is not None and promotion.enabled,
        eligible=_eligible(runtime, promotion, past),
        price_idr=promotion.price_idr if promotion else 0,
        gimmick_price_idr=promotion.gimmick_price_idr if promotion else 0,
        duration_minutes=promotion.duration_minutes if promotion else 0,
        modes=promotion.modes if promotion else [],
    )
    return Pricing(chat=_group(tiers, "chat"), call=_group(tiers, "call"), first_session_discount=discount)


@attrs.frozen(kw_only=True)
class Onboarding:
    """Flags by which the app chooses its first screen."""

    is_anonymous: bool
    has_display_name: bool
    usp_seen: bool
    has_consulted_before: bool
    first_session_discount_eligible: bool
    has_live_session: bool


async def onboarding(runtime: Runtime, actor: Actor) -> Onboarding:
    """Return the flags by which the app chooses its first screen.

    Raises NotFound if the caller is gone.
    """
    row = await runtime.db.fetchrow(SQL["onboarding"], actor.user_id, list(actor.ids))
    promotion = await store.first_session(runtime.db)
    past = await store.past_of(runtime.db, list(actor.ids), but_pending=True)
    if row is None:
        raise NotFound
    return Onboarding(**dict(row), first_session_discount_eligible=_eligible(runtime, promotion, past))


@attrs.frozen(kw_only=True)
class SupportHandle:
    """A support contact: the label to show, and the link to open."""

    label: str
    deeplink: str


@attrs.frozen(kw_only=True)
class SupportHandles:
    """The support contacts, the primary one first."""

    handles: list[SupportHandle]


def support_handles(runtime: Runtime) -> SupportHandles:
    """Return the configured contacts."""
    stored = runtime.config.values["support_handles"]
    return SupportHandles(handles=[SupportHandle(**stored[name]) for name in ("primary", "secondary")])


@attrs.frozen(kw_only=True)
class TypicalWait:
    """Seconds from the confirmed payment until a mitra accepts.

    Half of the searches at this time of day took at most `p50`, nine of ten at most `p90`.
    """

    p50: Positive
    p90: Positive


@attrs.frozen(kw_only=True)
class Available:
    """The number of mitras who could take a chat request now, and how long customers usually wait for one.

    `typical_wait_seconds` is null without a reliable estimate (docs/fairness.md#honest-promise).
    """

    available: int
    typical_wait_seconds: TypicalWait | None


@attrs.frozen
class Counted:
    """The answer for callers without a block, and the customers who have one with a free mitra. None: too many."""

    answer: Available
    with_a_block: frozenset[str] | None

    def may_concern(self, actor: Actor) -> bool:
        """Return whether the caller may have a block with one of the mitras of the answer."""
        return self.answer.available > 0 and (self.with_a_block is None or not self.with_a_block.isdisjoint(actor.ids))


async def availability(reader: Reader, policy: AvailabilityPolicy, *, now: dt.datetime) -> Counted:
    """Return how many mitras could take a request, who has a block with them, and the usual wait, by one statement."""
    limits = (policy.require_ping, policy.stale_after_seconds, policy.capacity)
    row = as_dict(await reader.fetchrow(SQL["availability"], now, *limits, hour_of(now), KNOWN_BLOCKS + 1))
    available, with_a_block = row.pop("available"), row.pop("with_a_block")
    estimate = None if row["hour"] is None else Estimate(**row)
    return Counted(
        Available(available=available, typical_wait_seconds=_shown(estimate, now)),
        frozenset(with_a_block) if len(with_a_block) <= KNOWN_BLOCKS else None,
    )


def _blocked_mitras(runtime: Runtime) -> BatchLoader[Sequence[str]]:
    """Return what reads the blocks of several callers in one statement."""
    return BatchLoader(functools.partial(blocks.of_customers, runtime.db), nothing=(), pause_s=PAUSE_S)


class Availability:
    """The available mitras and the usual wait, cached: at most one database read every FRESH_S in this process."""

    def __init__(self) -> None:
        self._known = Counted(Available(available=0, typical_wait_seconds=None), None)
        self._until = 0.0
        self._reading: asyncio.Task[Counted] | None = None

    async def answer(self, runtime: Runtime, actor: Actor) -> Available:
        """Return how many mitras could take a request of the caller, and the usual wait. Both are at most 2 s old.

        For a caller with a block, the mitras of their blocks are read, for many callers at once, and not counted.
        """
        known = await self._of_all(runtime)
        blocked = await runtime.part(_blocked_mitras).of(actor.user_id) if known.may_concern(actor) else ()
        if not blocked:
            return known.answer
        policy = availability_policy(runtime.config)
        theirs = await mitras.count_free(runtime.db, policy, now=runtime.now(), mitra_ids=blocked)
        return attrs.evolve(known.answer, available=max(0, known.answer.available - theirs))

    async def _of_all(self, runtime: Runtime) -> Counted:
        if monotonic() < self._until:
            return self._known
        if self._reading is None:
            self._reading = asyncio.create_task(self._read(runtime))
            self._reading.add_done_callback(self._done)
        # All callers share one read and its failure. The shield keeps a cancelled caller from cancelling it for the
        # others.
        return await asyncio.shield(self._reading)

    def _done(self, task: asyncio.Task[Counted]) -> None:
        self._reading = None
        if not task.cancelled():
            task.exception()  # mark it as retrieved, because each waiter has raised it

    async def _read(self, runtime: Runtime) -> Counted:
        started = monotonic()
        self._known = await availability(runtime.db, availability_policy(runtime.config), now=runtime.now())
        self._until = started + FRESH_S
        return self._known


def _shown(estimate: Estimate | None, now: dt.datetime) -> TypicalWait | None:
    """Return what customers are shown of an estimate."""
    made = promise(estimate, now=now)
    if made is None or not made.is_shown:
        return None
    return TypicalWait(p50=made.p50_seconds, p90=made.p90_seconds)
