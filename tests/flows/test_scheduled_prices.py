"""Prices at a time: each starts once, in order, or is cancelled, whatever races it or is killed
(docs/product.md#prices-at-a-time)."""

import asyncio
import datetime as dt
import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from core.base.actor import Actor
from core.base.errors import DomainError, NotFound, Unavailable
from core.base.pages import read_page
from core.desk.ledger.audit import audit
from core.pairing import request as payment_request
from core.pairing.request import PaymentWish
from core.payments.pricing import admin_store, edit, schedule, views
from core.payments.pricing.rules import StaleWrite
from tests.flows.conftest import ADDRESS, WAITING, Harness
from tests.tiers import parts
from tests.verdicts import check_books

HOUR = dt.timedelta(hours=1)
MINUTES = itertools.count(200)
LOCK = "SELECT FROM pricing_tiers WHERE id = $1 FOR UPDATE"
PAST = "UPDATE pricing_schedules SET starts_at = starts_at - interval '1 day' WHERE pricing_tier_id = $1"
HISTORY = """SELECT change_kind, changed_by::text, (after ->> 'price_idr')::int AS price, schedule
FROM pricing_tiers_history WHERE pricing_tier_id = $1 ORDER BY (after ->> 'updated_at')::timestamptz"""
# Kill the connection at the next statement that writes a table.
KILL = """CREATE FUNCTION pg_temp_kill() RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN
  PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$;
CREATE TRIGGER kill AFTER INSERT OR UPDATE OR DELETE ON {table} EXECUTE FUNCTION pg_temp_kill()"""
SPARE = "DROP TRIGGER kill ON {table}; DROP FUNCTION pg_temp_kill"


class Desk:
    """An operator, and a tier of the test."""

    def __init__(self, harness: Harness) -> None:
        self.harness, self.runtime = harness, harness.runtime
        self.minutes = next(MINUTES)
        self.operator: Actor
        self.tier_id: str

    async def begin(self) -> "Desk":
        """Add the tier, at 1,000."""
        self.operator = await self.harness.operator()
        self.tier_id = await edit.add_tier(
            self.runtime, self.operator, mode="chat", minutes=self.minutes, price_idr=1_000, tag=None, sort_order=None
        )
        return self

    async def tier(self) -> admin_store.TierForOperators:
        """Return the tier."""
        return await views.tier(self.runtime, self.tier_id)

    async def schedule(self, price: int, after: dt.timedelta = HOUR) -> str:
        """Schedule a price; return the id of the schedule."""
        starts_at = self.runtime.now() + after
        token = (await self.tier()).updated_at
        await schedule.schedule(
            self.runtime, self.operator, tier_id=self.tier_id, token=token, price_idr=price, starts_at=starts_at
        )
        (made,) = [one.id for one in (await self.tier()).scheduled if one.starts_at == starts_at]
        return made

    async def due(self, *prices: int) -> list[str]:
        """Schedule prices an hour apart, and let all be due."""
        made = [await self.schedule(price, n * HOUR) for n, price in enumerate(prices, start=1)]
        await self.runtime.db.fetch(PAST, self.tier_id)
        return made

    async def start(self) -> int:
        """Do what the jobs process does."""
        return await schedule.start_due(self.runtime)

    async def cancel(self, schedule_id: str) -> None:
        """Cancel a schedule."""
        await schedule.cancel(self.runtime, self.operator, tier_id=self.tier_id, schedule_id=schedule_id)

    async def change(self, token: str, **values: Any) -> None:
        """Edit the tier."""
        await edit.change_tier(self.runtime, self.operator, tier_id=self.tier_id, token=token, values=values)

    async def delete(self, token: str) -> None:
        """Delete the tier."""
        await edit.delete_tier(self.runtime, self.operator, tier_id=self.tier_id, token=token)

    async def queued(self, *steps: Callable[[], Awaitable[Any]]) -> list[Any]:
        """Let steps wait for the tier in this order, then let them go; return their results or refusals."""
        tasks = []
        async with (
            self.runtime.db.pool.acquire() as connection,
            asyncio.TaskGroup() as group,
            connection.transaction(),
        ):
            await connection.execute(LOCK, self.tier_id)
            for number, step in enumerate(steps, start=1):
                tasks.append(group.create_task(_outcome(step)))
                await self.harness.until(WAITING, number)
        return [task.result() for task in tasks]

    async def story(self) -> list[tuple[str, int]]:
        """Return the kinds and prices of the tier's history, oldest first, and check the books."""
        check_books(await audit(self.runtime, overdue=False))
        return [(row["change_kind"], row["price"]) for row in await self.runtime.db.fetch(HISTORY, self.tier_id)]


async def _outcome(step: Callable[[], Awaitable[Any]]) -> Any:
    try:
        return await step()
    except DomainError as refused:
        return type(refused)


@pytest.fixture
def desk(clean_harness: Harness) -> Desk:
    """Return the desk of a new tier."""
    return clean_harness.run(Desk(clean_harness).begin())


def test_late_prices_start_in_order_once_and_name_who_asked_and_when(desk: Desk) -> None:
    async def play() -> None:
        before = desk.runtime.now()
        await desk.due(2_000, 3_000, 4_000)
        async with asyncio.TaskGroup() as group:
            started = [group.create_task(desk.start()) for _ in range(4)]
        assert sum(task.result() for task in started) == 3
        assert await desk.story() == [
            ("created", 1_000),
            *[("scheduled", 1_000)] * 3,
            ("started", 2_000),
            ("started", 3_000),
            ("started", 4_000),
        ]
        newest = (await views.tier_history(desk.runtime, desk.tier_id, read_page(None, None))).items[0]
        assert newest.changed_by is not None
        assert newest.schedule is not None
        assert newest.changed_by.id == desk.operator.user_id
        assert newest.schedule.price_idr == 4_000
        assert newest.schedule.starts_at < before <= newest.schedule.asked_at <= newest.changed_at
        assert (await desk.tier()).scheduled == []
        assert await desk.start() == 0

    desk.harness.run(play())


def test_price_never_starts_before_its_time(desk: Desk) -> None:
    async def play() -> None:
        await desk.schedule(2_000)
        assert await desk.start() == 0
        assert (await desk.tier()).price_idr == 1_000

    desk.harness.run(play())


def test_open_request_keeps_the_price_that_it_was_made_with(desk: Desk) -> None:
    async def ask() -> int:
        wish = PaymentWish(
            mode="chat",
            duration_minutes=desk.minutes,
            first_session_discount=False,
            targeted_mitra_id=None,
            topics=None,
        )
        customer = await desk.harness.customer()
        return (await payment_request.request_payment(desk.runtime, customer, wish, address=ADDRESS)).amount

    async def play() -> None:
        assert await ask() == 1_000
        await desk.due(2_000)
        await desk.start()
        assert await ask() == 2_000
        sql = "SELECT array_agg(amount ORDER BY created_at) FROM payment_requests WHERE duration_minutes = $1"
        assert await desk.runtime.db.fetchval(sql, desk.minutes) == [1_000, 2_000]

    desk.harness.run(play())


@pytest.mark.parametrize("cancel_first", [True, False])
def test_price_that_is_cancelled_as_it_starts_is_one_of_both(desk: Desk, cancel_first: bool) -> None:
    async def play() -> None:
        (made,) = await desk.due(2_000)
        steps = [lambda: desk.cancel(made), desk.start]
        found = await desk.queued(*(steps if cancel_first else reversed(steps)))
        kinds = [kind for kind, _ in await desk.story()][2:]
        if cancel_first:
            assert (found, kinds) == ([None, 0], ["unscheduled"])
        else:
            assert (found, kinds) == ([1, NotFound], ["started"])
        assert (await desk.tier()).price_idr == (1_000 if cancel_first else 2_000)
        with pytest.raises(NotFound):
            await desk.cancel(made)

    desk.harness.run(play())


@pytest.mark.parametrize("edit_first", [True, False])
def test_edit_as_a_price_starts_never_hides_it(desk: Desk, edit_first: bool) -> None:
    async def play() -> None:
        await desk.due(2_000)
        token = (await desk.tier()).updated_at
        steps = [lambda: desk.change(token, price_idr=7_000), desk.start]
        found = await desk.queued(*(steps if edit_first else reversed(steps)))
        assert found == ([None, 1] if edit_first else [1, StaleWrite])
        assert (await desk.tier()).price_idr == 2_000
        assert [kind for kind, _ in await desk.story()][2:] == (["updated"] * edit_first) + ["started"]

    desk.harness.run(play())


@pytest.mark.parametrize("delete_first", [True, False])
def test_tier_that_is_deleted_as_its_price_starts_has_no_schedule_left(desk: Desk, delete_first: bool) -> None:
    async def play() -> None:
        await desk.due(2_000, 3_000)
        token = (await desk.tier()).updated_at
        steps = [lambda: desk.delete(token), desk.start]
        found = await desk.queued(*(steps if delete_first else reversed(steps)))
        tier = await desk.tier()
        if delete_first:
            assert found == [None, 0]
            assert (tier.is_active, tier.price_idr, tier.scheduled) == (False, 1_000, [])
            token = tier.updated_at
            await edit.reactivate_tier(desk.runtime, desk.operator, tier_id=desk.tier_id, token=token)
            assert (await desk.tier()).scheduled == []
        else:
            assert found == [2, StaleWrite]
            assert (tier.is_active, tier.price_idr) == (True, 3_000)
        await desk.story()

    desk.harness.run(play())


def test_edit_keeps_a_schedule(desk: Desk) -> None:
    async def play() -> None:
        made = await desk.schedule(2_000)
        await desk.change((await desk.tier()).updated_at, price_idr=1_500, sort_order=7)
        (left,) = (await desk.tier()).scheduled
        assert (left.id, left.price_idr, left.asked_by.id) == (made, 2_000, desk.operator.user_id)

    desk.harness.run(play())


@pytest.mark.parametrize("step", ["schedule", "cancel", "delete", "start"])
@pytest.mark.parametrize(
    "table", parts(["operator_audit_log", "pricing_schedules", "pricing_tiers", "pricing_tiers_history"])
)
def test_step_that_is_killed_at_a_statement_has_no_effect_and_is_repeated(desk: Desk, step: str, table: str) -> None:
    async def play() -> None:
        made = None if step == "schedule" else (await desk.due(2_000))[0]
        token = (await desk.tier()).updated_at

        async def act() -> Any:
            match step:
                case "schedule":
                    return await desk.schedule(2_000)
                case "cancel":
                    return await desk.cancel(str(made))
                case "delete":
                    return await desk.delete(token)
                case _:
                    return await desk.start()

        before = (await desk.tier(), await desk.story())
        async with desk.runtime.db.pool.acquire() as connection:
            await connection.execute(KILL.format(table=table))
        try:
            if (step, table) != ("start", "operator_audit_log"):  # the operator's own row is that of the schedule
                with pytest.raises(Unavailable):
                    await act()
                assert (await desk.tier(), await desk.story()) == before
        finally:
            async with desk.runtime.db.pool.acquire() as connection:
                await connection.execute(SPARE.format(table=table))
        await act()
        last = {"schedule": "scheduled", "cancel": "unscheduled", "delete": "deleted", "start": "started"}[step]
        assert [kind for kind, _ in await desk.story()][len(before[1]) :] == [last]

    desk.harness.run(play())
