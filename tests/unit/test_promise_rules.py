"""Promised waits: the hours that count for an estimate, and when nothing is promised (docs/fairness.md#honest-promise)."""

import datetime as dt
import itertools

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.idempotency import body_of
from api.public.payments import PaymentBody
from core.pairing.promises import rules
from core.pairing.promises.rules import Estimate, Promise

NOW = dt.datetime(2025, 3, 4, 14, 30, tzinfo=dt.UTC)
SECOND, MINUTE, HOUR, DAY = (dt.timedelta(**{unit: 1}) for unit in ("seconds", "minutes", "hours", "days"))
ESTIMATE = Estimate(
    hour=14, searches=30, p50_seconds=40, p90_seconds=120, judged=100, missed=25, estimated_at=NOW - MINUTE
)
JAKARTA = dt.timezone(dt.timedelta(hours=7))
MOMENTS = st.integers(0, 10 * 365 * 86_400).map(lambda after: dt.datetime(2020, 1, 1, tzinfo=dt.UTC) + after * SECOND)


@given(
    now=MOMENTS,
    hour=st.integers(0, 23),
    longest=st.sampled_from((5 * MINUTE, 90 * MINUTE, DAY)),
    back=st.timedeltas(-DAY, 31 * DAY) | st.sampled_from((5 * MINUTE, DAY, 28 * DAY)),
    zone=st.sampled_from((dt.UTC, JAKARTA)),
)
def test_search_counts_if_it_began_in_one_of_the_three_hours_of_28_days(
    now: dt.datetime, hour: int, longest: dt.timedelta, back: dt.timedelta, zone: dt.tzinfo
) -> None:
    began = now - back
    intervals = rules.same_hours(hour, now=now.astimezone(zone), longest=longest)
    counts = longest < back <= 28 * DAY and (began.hour - hour) % 24 in (23, 0, 1)
    assert sum(begin <= began < end for begin, end in intervals) == counts
    assert all(earlier[1] <= later[0] for earlier, later in itertools.pairwise(intervals))


@pytest.mark.parametrize(
    ("moment", "hours"),
    [
        (NOW, [14]),
        (NOW + 19 * MINUTE + 59 * SECOND, [14]),
        (NOW + 20 * MINUTE, [14, 15]),
        (dt.datetime(2025, 3, 4, 23, 55, tzinfo=dt.UTC), [0, 23]),
        (dt.datetime(2025, 3, 4, 21, 30, tzinfo=JAKARTA), [14]),
    ],
)
def test_next_hour_is_estimated_ten_minutes_before_it_begins(moment: dt.datetime, hours: list[int]) -> None:
    assert rules.hours_to_estimate(moment) == hours


def test_estimate_of_enough_searches_is_shown() -> None:
    assert rules.promise(ESTIMATE, now=NOW) == Promise(p50_seconds=40, p90_seconds=120, is_shown=True)


@pytest.mark.parametrize(
    "change",
    [
        {"searches": 29},
        {"p90_seconds": None},
        {"p50_seconds": None, "p90_seconds": None},
        {"estimated_at": NOW - 30 * MINUTE - SECOND},
    ],
)
def test_nothing_is_promised_without_a_reliable_estimate(change: dict[str, int | None]) -> None:
    assert rules.promise(attrs.evolve(ESTIMATE, **change), now=NOW) is None
    assert rules.promise(None, now=NOW) is None


@pytest.mark.parametrize(
    ("judged", "missed", "is_shown"),
    [(100, 25, True), (100, 26, False), (99, 25, False), (40, 10, True), (40, 11, False), (6, 5, True), (6, 6, False)],
)
def test_promise_is_withheld_when_more_than_a_quarter_missed(judged: int, missed: int, is_shown: bool) -> None:
    estimate = attrs.evolve(ESTIMATE, judged=judged, missed=missed)
    assert rules.promise(estimate, now=NOW) == Promise(p50_seconds=40, p90_seconds=120, is_shown=is_shown)


def test_accept_wait_counts_for_an_idempotency_key_only_if_it_is_true() -> None:
    """During a rolling deployment, a retry may reach a process whose release does not know the field, or vice versa."""
    assert "accept_wait" not in body_of(PaymentBody(duration_minutes=12))
    assert "first_session_discount" in body_of(PaymentBody(duration_minutes=12))
    assert body_of(PaymentBody(accept_wait=True))["accept_wait"] is True
