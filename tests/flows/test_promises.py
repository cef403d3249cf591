"""Promised waits are stored with the request, withdrawn when too many are missed, and shown again."""

import asyncio
import datetime as dt
from collections.abc import Sequence
from typing import Any

import attrs
import pytest

from core.base import ids
from core.base.errors import ValidationFailed
from core.desk.reports import MOST, promises
from core.idempotency.rules import KeyedRequest
from core.pairing import request as payment_request
from core.pairing.catalogue import Availability, TypicalWait
from core.pairing.promises import promise as wait_estimates
from core.pairing.promises import rules, store
from core.pairing.promises.rules import JUDGED, LEAST_JUDGED, LEAST_SEARCHES, Promise
from core.payments.views import PaymentRequestView, PromisedWait
from core.telemetry.metrics import REGISTRY
from tests.flows.conftest import ADDRESS, READER, WISH, Harness
from tests.flows.past_searches import Past, insert

SECOND, MINUTE, HOUR, DAY = (dt.timedelta(**{unit: 1}) for unit in ("seconds", "minutes", "hours", "days"))
SET_ESTIMATE = """INSERT INTO wait_estimates SELECT hour, 100, 40, 120, 100, $2, $1 FROM generate_series(0, 23) AS h (hour)
ON CONFLICT (hour) DO UPDATE SET estimated_at = $1, missed = $2, p50_seconds = 40, p90_seconds = 120"""


# -- what a customer is shown


async def played(harness: Harness, past: Sequence[Past], *, promised: bool = False) -> None:
    """Store the past and make the estimate."""
    async with harness.runtime.transaction() as tx:
        await insert(tx, past, promised=promised)
    await wait_estimates.estimate(harness.runtime)


async def shown(harness: Harness) -> TypicalWait | None:
    return (await Availability().answer(harness.runtime, READER)).typical_wait_seconds


async def requested(harness: Harness, **changes: Any) -> PaymentRequestView:
    wish = attrs.evolve(WISH, **changes)
    return await payment_request.request_payment(harness.runtime, await harness.customer(), wish, address=ADDRESS)


async def stored(harness: Harness, payment_request_id: str) -> Promise | None:
    sql = "SELECT p50_seconds, p90_seconds, is_shown FROM wait_promises WHERE payment_request_id = $1"
    row = await harness.runtime.db.fetchrow(sql, payment_request_id)
    return None if row is None else Promise(**dict(row))


def yesterday(harness: Harness, count: int, **changes: Any) -> list[Past]:
    one = Past(made_at=harness.runtime.now() - DAY, end="accepted", wait=40.0)
    return [attrs.evolve(one, id=ids.new_id(), **changes) for _ in range(count)]


def test_thirty_searches_are_enough_for_an_estimate(clean_harness: Harness) -> None:
    async def play() -> None:
        harness = clean_harness
        await played(harness, yesterday(harness, LEAST_SEARCHES - 1))
        assert await shown(harness) is None
        before = await requested(harness)
        assert (before.promised, await stored(harness, before.payment_request_id)) == (None, None)
        await played(harness, yesterday(harness, 1))
        assert await shown(harness) == TypicalWait(p50=40, p90=40)
        view = await requested(harness)
        assert view.promised == PromisedWait(p50=40, p90=40, at=view.created_at)

    clean_harness.run(play())


def test_wait_without_an_end_counts_and_too_many_leave_no_estimate(clean_harness: Harness) -> None:
    async def play() -> None:
        harness = clean_harness
        await played(harness, yesterday(harness, 27) + yesterday(harness, 3, end="failed", wait=300.0))
        assert await shown(harness) == TypicalWait(p50=40, p90=40)
        await played(harness, yesterday(harness, 1, end="cancelled", wait=10.0))
        assert await shown(harness) is None  # more than a tenth found no mitra

    clean_harness.run(play())


def test_missed_promises_withdraw_the_estimate_and_kept_ones_bring_it_back(clean_harness: Harness) -> None:
    async def play() -> None:
        harness, now = clean_harness, clean_harness.runtime.now()
        usual = yesterday(harness, 300, wait=100.0, p90=120)
        missed = yesterday(harness, JUDGED // 4, made_at=now - HOUR, wait=121.0)
        await played(harness, usual + missed, promised=True)
        assert await shown(harness) is not None
        more = yesterday(harness, 1, made_at=now - HOUR, wait=121.0)
        await played(harness, more, promised=True)
        assert await shown(harness) is None
        view = await requested(harness)
        promise = await stored(harness, view.payment_request_id)
        assert view.promised is None
        assert promise is not None
        assert not promise.is_shown
        # Withheld promises are judged as well: 75 newer ones were kept, one of the missed is no longer among the 100.
        kept = yesterday(harness, JUDGED - JUDGED // 4, made_at=now - 30 * MINUTE, wait=100.0, is_shown=False)
        await played(harness, kept[1:], promised=True)
        assert await shown(harness) is None
        await played(harness, kept[:1], promised=True)
        assert await shown(harness) is not None
        assert (await requested(harness)).promised is not None

    clean_harness.run(play())


def test_a_quarter_of_the_least_verdict_is_missed_before_the_first_promises_are_withdrawn(
    clean_harness: Harness,
) -> None:
    async def play() -> None:
        harness, made_at = clean_harness, clean_harness.runtime.now() - HOUR
        await played(harness, yesterday(harness, 100, wait=100.0))
        await played(harness, yesterday(harness, LEAST_JUDGED // 4, made_at=made_at, wait=121.0), promised=True)
        assert await shown(harness) is not None
        await played(harness, yesterday(harness, 1, made_at=made_at, wait=121.0), promised=True)
        assert await shown(harness) is None

    clean_harness.run(play())


def test_available_mitras_and_the_wait_are_read_with_one_connection(clean_harness: Harness) -> None:
    async def play() -> None:
        checkouts = "sesi_database_pool_wait_seconds_count", {"pool": "write"}
        before = REGISTRY.get_sample_value(*checkouts) or 0
        assert await shown(clean_harness) is None
        assert REGISTRY.get_sample_value(*checkouts) == before + 1

    clean_harness.run(play())


def test_old_estimate_is_not_used(clean_harness: Harness) -> None:
    async def play() -> None:
        harness = clean_harness
        await harness.runtime.db.fetch(SET_ESTIMATE, harness.runtime.now() - rules.USABLE, 0)
        assert await shown(harness) is None
        assert (await requested(harness)).promised is None
        await harness.runtime.db.fetch(SET_ESTIMATE, harness.runtime.now(), 0)
        assert await shown(harness) == TypicalWait(p50=40, p90=120)

    clean_harness.run(play())


def test_retry_gets_the_promise_of_the_first_request(clean_harness: Harness) -> None:
    async def play() -> None:
        harness = clean_harness
        runtime, customer = harness.runtime, await harness.customer()
        await runtime.db.fetch(SET_ESTIMATE, runtime.now(), 0)
        key = KeyedRequest(user_id=customer.user_id, key=ids.new_id(), fingerprint="a-body")
        first = await payment_request.request_payment(runtime, customer, WISH, address=ADDRESS, key=key)
        await runtime.db.fetch("UPDATE wait_estimates SET p50_seconds = 50, p90_seconds = 60")
        again = await payment_request.request_payment(runtime, customer, WISH, address=ADDRESS, key=key)
        assert first == again
        assert again.promised is not None
        assert again.promised.p90 == 120
        assert await stored(harness, first.payment_request_id) == Promise(
            p50_seconds=40, p90_seconds=120, is_shown=True
        )

    clean_harness.run(play())


# -- the jobs process


def test_one_process_of_the_cluster_makes_the_estimate(clean_harness: Harness) -> None:
    async def play() -> None:
        runtime = clean_harness.runtime
        await runtime.db.fetch("DELETE FROM wait_estimates")
        await runtime.db.fetch("DELETE FROM cluster_leases WHERE name = $1", wait_estimates.LEASE)
        lease = "INSERT INTO cluster_leases (name, holder, until_real_at) VALUES ($1, $2, now() + interval '1 h')"
        await runtime.db.fetch(lease, wait_estimates.LEASE, ids.new_id())
        await wait_estimates.refresh(runtime)
        assert await store.newest_estimate(runtime.db) is None
        await runtime.db.fetch("UPDATE cluster_leases SET until_real_at = now() WHERE name = $1", wait_estimates.LEASE)
        await asyncio.gather(*(wait_estimates.refresh(runtime) for _ in range(5)))
        found = await store.newest_estimate(runtime.db)
        assert found is not None
        assert found.searches == 0
        async with runtime.transaction() as tx:  # a slower process does not replace a newer estimate
            await store.keep_estimate(tx, attrs.evolve(found, searches=9, estimated_at=found.estimated_at - SECOND))
        assert await store.estimate_for(runtime.db, found.hour) == found

    clean_harness.run(play())


def test_promises_are_purged_after_400_days(clean_harness: Harness) -> None:
    async def play() -> None:
        harness, now = clean_harness, clean_harness.runtime.now()
        ages = {days: ids.id_of(now - days * DAY, b"a request") for days in (399, 401)}
        past = [Past(made_at=now - days * DAY, end="failed", wait=1.0, id=one) for days, one in ages.items()]
        await played(harness, past, promised=True)
        await wait_estimates.purge(harness.runtime)
        rows = await harness.runtime.db.fetch("SELECT payment_request_id::text AS id FROM wait_promises")
        assert [row["id"] for row in rows] == [ages[399]]

    clean_harness.run(play())


@pytest.mark.parametrize("length", [dt.timedelta(0), MOST + SECOND])
def test_report_has_a_range_in_order_and_of_at_most_a_quarter(harness: Harness, length: dt.timedelta) -> None:
    begin = dt.datetime(2025, 3, 3, tzinfo=dt.UTC)
    with pytest.raises(ValidationFailed):
        harness.run(promises(harness.runtime, since=begin, until=begin + length))
