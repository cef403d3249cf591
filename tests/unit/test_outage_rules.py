"""How intervals of outages are combined."""

import datetime as dt

from core.cluster.outages.rules import Interval, gaps, lost, merged

ORIGIN = dt.datetime(2026, 11, 23, tzinfo=dt.UTC)
LEASE = dt.timedelta(seconds=3)


def interval(began: float, ended: float) -> Interval:
    """Return an interval in seconds after a fixed moment."""
    return ORIGIN + dt.timedelta(seconds=began), ORIGIN + dt.timedelta(seconds=ended)


def test_merged_joins_overlapping_and_touching_intervals_and_drops_empty_ones() -> None:
    found = merged(
        [interval(20, 30), interval(0, 5), interval(3, 8), interval(8, 9), interval(12, 12), interval(22, 25)]
    )
    assert found == [interval(0, 9), interval(20, 30)]


def test_session_loses_at_most_the_bound_for_each_outage_from_its_own_beginning() -> None:
    most, out = dt.timedelta(seconds=10), [interval(0, 30), interval(28, 33), interval(50, 55)]
    for since, seconds in ((-5, 20), (0, 20), (5, 20), (25, 13), (31, 7), (40, 5), (52, 3), (60, 0)):
        assert lost(out, since=interval(since, 0)[0], most=most) == dt.timedelta(seconds=seconds), since


def test_gaps_without_covers_returns_the_whole_interval_unless_short() -> None:
    assert gaps(interval(0, 10), [], longer_than=LEASE) == [interval(0, 10)]
    assert gaps(interval(0, 3), [], longer_than=LEASE) == []


def test_gaps_between_covers_are_returned_except_short_ones() -> None:
    covers = [interval(-5, 1), interval(3, 4), interval(10, 12), interval(11, 40)]
    assert gaps(interval(0, 50), covers, longer_than=LEASE) == [interval(4, 10), interval(40, 50)]


def test_gaps_of_a_negative_interval_are_empty() -> None:
    assert gaps(interval(10, 0), [interval(-5, 20)], longer_than=LEASE) == []
    assert gaps(interval(0, 10), [interval(-5, 20)], longer_than=LEASE) == []
    assert gaps(interval(0, 10), [interval(20, 30)], longer_than=LEASE) == [interval(0, 10)]
