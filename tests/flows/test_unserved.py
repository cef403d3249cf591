"""Unserved searches by hour of the week: which count, and the bounds of the range."""

import datetime as dt

import pytest

from core.base.errors import ValidationFailed
from core.desk.reports import MOST, UnservedHour, unserved
from core.pairing import advance as pairing_advance
from core.pairing import cancel as pairing_cancel
from core.pairing import start as pairing_start
from core.sessions.store import Session
from tests.flows.conftest import Harness
from tests.flows.test_waves import begin

MONDAY = dt.datetime(2025, 3, 3, tzinfo=dt.UTC)
TUESDAY = MONDAY + dt.timedelta(days=1, hours=20)
SUNDAY = MONDAY + dt.timedelta(days=6, hours=23, minutes=59)
BOTH = [
    UnservedHour(weekday=2, hour=20, searches=3, unserved=2),
    UnservedHour(weekday=7, hour=23, searches=1, unserved=1),
]


async def began(harness: Harness, search: Session, at: dt.datetime) -> None:
    """Let a search have begun at another time."""
    await harness.runtime.db.fetch("UPDATE chat_sessions SET created_at = $2 WHERE id = $1", search.id, at)


async def failed(harness: Harness, at: dt.datetime) -> None:
    """Create a search without a mitra, begun at this time."""
    search = await begin(harness)
    await harness.runtime.db.fetch(
        "UPDATE chat_sessions SET search_ends_at = $2, round_ends_at = $2 WHERE id = $1",
        search.id,
        harness.runtime.now(),
    )
    await pairing_advance.end_rounds(harness.runtime)
    await began(harness, search, at)


async def hours(harness: Harness, since: dt.datetime | None, until: dt.datetime | None) -> list[UnservedHour]:
    return (await unserved(harness.runtime, since=since, until=until)).items


def test_ended_searches_are_counted_by_the_hour_in_which_they_began(clean_harness: Harness) -> None:
    async def play() -> None:
        harness = clean_harness
        for at in (TUESDAY, TUESDAY + dt.timedelta(minutes=59), SUNDAY):
            await failed(harness, at)
        customer = await harness.customer()
        cancelled = await harness.paid(customer)
        await pairing_start.start(harness.runtime, payment_request_id=cancelled)
        await pairing_cancel.cancel(harness.runtime, customer, payment_request_id=cancelled)
        await began(harness, await harness.session_of(cancelled), TUESDAY)
        await failed(harness, TUESDAY)
        chosen = await harness.mitra()
        await harness.runtime.db.fetch(
            "UPDATE chat_sessions SET targeted_mitra_id = $1 WHERE id = (SELECT max(id::text)::uuid FROM chat_sessions)",
            chosen.user_id,
        )
        await began(harness, await begin(harness), TUESDAY)  # it still runs
        week_later = MONDAY + dt.timedelta(days=7)
        assert await hours(harness, MONDAY, week_later) == BOTH
        assert await hours(harness, MONDAY, SUNDAY) == BOTH[:1]  # the end is excluded
        assert await hours(harness, SUNDAY, week_later) == BOTH[1:]
        assert await hours(harness, None, week_later) == BOTH
        assert await hours(harness, None, None) == []  # the last 28 days

    clean_harness.run(play())


@pytest.mark.parametrize(
    ("length", "code"),
    [(dt.timedelta(0), "to"), (dt.timedelta(days=-1), "to"), (MOST + dt.timedelta(microseconds=1), "from")],
)
def test_range_must_be_in_order_and_at_most_a_quarter(harness: Harness, length: dt.timedelta, code: str) -> None:
    with pytest.raises(ValidationFailed) as caught:
        harness.run(hours(harness, MONDAY, MONDAY + length))
    assert code in str(caught.value.details)
    assert harness.run(hours(harness, MONDAY, MONDAY + MOST)) is not None


def test_range_that_ends_in_the_first_year_has_no_searches(clean_harness: Harness) -> None:
    first = dt.datetime(1, 1, 1, tzinfo=dt.UTC)
    with pytest.raises(ValidationFailed):  # the default beginning is later
        clean_harness.run(hours(clean_harness, None, first))
