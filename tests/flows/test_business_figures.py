"""The figures of the business: each on the day it happened, in any time zone (docs/product.md#figures)."""

import datetime as dt
import zoneinfo
from collections.abc import Iterator
from typing import Any

import pytest

from core.base.errors import ValidationFailed
from core.desk import business_figures, operator_work
from core.desk.business_figures import By, Figures, starts
from core.pairing import presence
from core.payments.failures.rules import OperatorAction
from core.payments.refunds import make_good
from tests.clock import HandClock
from tests.flows.conftest import Harness, rows

PRICE = 12_000
# A request that was paid at a moment. Its search has yet to begin, so it needs no other row.
PAID = """INSERT INTO payment_requests (id, customer_id, amount, duration_minutes, mode, status, created_at, confirmed_at,
    expires_at) VALUES (gen_random_uuid(), $1, $2, 12, 'chat', 'confirmed', $3, $3, $3)"""
SKIPPED, REPEATED = dt.date(2026, 3, 8), dt.date(2026, 11, 1)  # an hour of New York's clocks


@pytest.fixture
def moved(clean_harness: Harness) -> Iterator[Harness]:
    """Yield a runtime whose clock the test moves."""
    runtime, before = clean_harness.runtime, clean_harness.runtime.clock
    runtime.clock = HandClock.at(2026, 11, 21)
    yield clean_harness
    runtime.clock = before


def read(harness: Harness, first: dt.date | None = None, last: dt.date | None = None, by: By = By.DAY) -> Figures:
    """Return the figures of some days."""
    return harness.run(business_figures.figures(harness.runtime, first=first, last=last, by=by))


def pay(harness: Harness, amount: int, at: str) -> None:
    """Let a new customer pay at a moment."""
    customer = harness.run(harness.customer())
    harness.run(harness.runtime.db.fetch(PAID, customer.user_id, amount, dt.datetime.fromisoformat(at)))


def shown(found: Figures, name: str) -> dict[str | None, int]:
    """Return one figure by its key, without zeros."""
    return {row.key: value for row in found.items if (value := getattr(row, name))}


@pytest.mark.parametrize(("day", "hours"), [(SKIPPED, 23), (REPEATED, 25), (dt.date(2026, 6, 1), 24)])
def test_day_with_a_change_of_the_clocks_has_an_hour_less_or_more(day: dt.date, hours: int) -> None:
    begin, end = starts(day, day, zoneinfo.ZoneInfo("America/New_York"))
    assert end - begin == dt.timedelta(hours=hours)


def test_day_without_a_midnight_begins_when_the_clocks_change() -> None:
    begin, _ = starts(dt.date(2026, 4, 24), dt.date(2026, 4, 24), zoneinfo.ZoneInfo("Africa/Cairo"))
    assert begin == dt.datetime(2026, 4, 23, 22, tzinfo=dt.UTC)


def test_payments_count_on_the_day_of_the_business(moved: Harness) -> None:
    # The first and last second of both days, and one second outside of them: 1, 2 and 4 are the first day's.
    pay(moved, 1, "2026-11-01T04:00:00Z")
    pay(moved, 2, "2026-11-01T05:30:00Z")  # 01:30 for the first time
    pay(moved, 4, "2026-11-02T04:59:59Z")  # an hour later than on other days
    pay(moved, 8, "2026-11-01T03:59:59Z")
    pay(moved, 16, "2026-11-02T05:00:00Z")
    with rows(moved.runtime, business_time_zone="America/New_York"):
        found = read(moved, REPEATED, REPEATED + dt.timedelta(days=1))
        assert shown(found, "paid") == {"2026-11-01": 7, "2026-11-02": 16}
        assert (found.time_zone, found.first_day) == ("America/New_York", REPEATED)
        assert shown(read(moved, REPEATED, REPEATED, By.MODE), "paid") == {"chat": 7}
    jakarta = read(moved, dt.date(2026, 10, 31), dt.date(2026, 11, 3))
    assert shown(jakarta, "paid") == {"2026-11-01": 1 + 2 + 8, "2026-11-02": 4 + 16}
    assert [row.key for row in jakarta.items] == ["2026-10-31", "2026-11-01", "2026-11-02", "2026-11-03"]


def test_hour_that_the_clocks_skip_is_in_no_day(moved: Harness) -> None:
    pay(moved, 1, "2026-03-08T05:00:00Z")
    pay(moved, 2, "2026-03-09T03:59:59Z")
    pay(moved, 4, "2026-03-09T04:00:00Z")
    with rows(moved.runtime, business_time_zone="America/New_York"):
        assert shown(read(moved, SKIPPED, SKIPPED), "paid") == {"2026-03-08": 3}


def test_refunds_count_on_the_day_the_money_went_back(refunding: Harness) -> None:
    runtime, before = refunding.runtime, refunding.runtime.clock
    runtime.clock = clock = HandClock.at(2026, 11, 21)
    try:
        operator = refunding.run(refunding.operator())
        failure_id = refunding.run(refunding.failed())
        mitra = refunding.run(refunding.mitra())
        refunding.run(presence.go_online(runtime, mitra))
        customer = refunding.run(refunding.customer())
        refunding.run(refunding.start_session(customer, mitra))
        clock.advance(86_400)
        sql = "SELECT id::text FROM payment_requests WHERE customer_id = $1"
        payment_id = refunding.run(runtime.db.fetchval(sql, customer.user_id))
        refunding.run(
            make_good.record(
                runtime, operator, payment_request_id=payment_id, amount=5_000, reason="maaf", reference="TRF-1"
            )
        )
        clock.advance(86_400)
        refunding.run(
            operator_work.act_on_failure(
                runtime, operator, failure_id=failure_id, action=OperatorAction.REFUNDED, note=None
            )
        )
        found = read(refunding)
        assert shown(found, "paid") == {"2026-11-21": 2 * PRICE}
        assert shown(found, "earned") == shown(found, "failed") == {"2026-11-21": PRICE}
        assert shown(found, "refunded") == {"2026-11-22": 5_000, "2026-11-23": PRICE}
        assert shown(found, "open") == {}
        assert shown(found, "chats") == {"2026-11-21": 1}
        assert (len(found.items), found.items[-1].key) == (30, "2026-11-23")
        assert shown(read(refunding, by=By.TIER), "refunded") == {"chat 12": 5_000 + PRICE}
        assert shown(read(refunding, by=By.CHANNEL), "paid") == {"QRIS": PRICE, None: PRICE}
        assert shown(read(refunding, by=By.CAUSE), "refunded") == {None: 5_000, "customer_cancelled": PRICE}
    finally:
        runtime.clock = before


TODAY = dt.date(2026, 11, 21)


@pytest.mark.parametrize(
    ("first", "last", "wanted"),
    [
        (None, None, (dt.date(2026, 10, 23), TODAY)),
        (None, dt.date(2026, 11, 1), (dt.date(2026, 10, 3), dt.date(2026, 11, 1))),
        (TODAY, None, (TODAY, TODAY)),
        (dt.date(2026, 11, 1), dt.date.max, (dt.date(2026, 11, 1), TODAY)),
        (dt.date(2026, 8, 22), TODAY, (dt.date(2026, 8, 22), TODAY)),
        (dt.date(2026, 8, 21), TODAY, "from"),
        (dt.date(2026, 11, 22), None, "to"),
        (dt.date(2026, 11, 2), dt.date(2026, 11, 1), "to"),
        (dt.date.min, dt.date.min, "from"),
        (None, dt.date.min, "to"),
    ],
)
def test_range_is_at_most_a_quarter_and_ends_today(first: dt.date | None, last: dt.date | None, wanted: Any) -> None:
    if isinstance(wanted, tuple):
        assert business_figures.range_of(first, last, today=TODAY) == wanted
        return
    with pytest.raises(ValidationFailed) as refusal:
        business_figures.range_of(first, last, today=TODAY)
    assert refusal.value.details is not None
    assert refusal.value.details["fields"][0]["field"] == wanted
