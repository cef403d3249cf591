"""Months and other ranges of ids (core/base/id_ranges.py)."""

import datetime as dt
import uuid

from hypothesis import given
from hypothesis import strategies as st

from core.base import id_ranges, ids
from core.base.id_ranges import EPOCH, SLACK, first_id, moment_of, month_of, months_after, months_between
from core.base.pages import Page
from core.desk import newest_first

MOMENTS = st.timedeltas(dt.timedelta(days=365), dt.timedelta(days=2_500_000)).map(lambda after: EPOCH + after)
ZONES = st.timezones()
COUNTS = st.integers(-600, 600)


@given(MOMENTS, st.binary(max_size=8))
def test_id_lies_in_exactly_the_month_of_its_time(moment: dt.datetime, name: bytes) -> None:
    made, month = ids.id_of(moment, name), month_of(moment)
    assert first_id(month) <= made < first_id(months_after(month, 1))
    assert uuid.UUID(first_id(month)) <= uuid.UUID(made)  # texts compare like ids


@given(MOMENTS)
def test_bound_has_the_time_that_it_was_made_for(moment: dt.datetime) -> None:
    assert dt.timedelta() <= moment - moment_of(first_id(moment)) < id_ranges.MILLISECOND
    assert moment_of(first_id(month_of(moment))) == month_of(moment)


@given(MOMENTS)
def test_bounds_of_a_range_are_those_of_months(moment: dt.datetime) -> None:
    for bound in (id_ranges.since(moment), id_ranges.until(moment)):
        assert bound == first_id(month_of(moment_of(bound)))
    assert months_between(moment_of(id_ranges.since(moment)), moment_of(id_ranges.until(moment))) in (1, 2)


@given(MOMENTS, MOMENTS)
def test_bounds_are_in_the_order_of_their_times(one: dt.datetime, other: dt.datetime) -> None:
    earlier, later = sorted((one, other))
    assert first_id(earlier) <= first_id(later)


@given(MOMENTS, st.timedeltas(-SLACK, SLACK - id_ranges.MILLISECOND), st.binary(max_size=8))
def test_row_whose_id_is_up_to_a_day_off_is_in_the_range_of_its_time(
    moment: dt.datetime, off: dt.timedelta, name: bytes
) -> None:
    made = ids.id_of(moment + off, name)
    assert id_ranges.since(moment) <= made < id_ranges.until(moment + id_ranges.MILLISECOND)
    assert id_ranges.since_named(made) <= made


@given(MOMENTS, MOMENTS, st.sampled_from([0.01, 0.5, 10, 60, 10_000]), st.binary(max_size=8))
def test_row_of_scaled_time_is_in_the_range_of_its_time_whatever_its_id(
    service: dt.datetime, real: dt.datetime, scale: float, name: bytes
) -> None:
    made = ids.id_of(real, name)
    assert id_ranges.since(service, scale=scale) <= made < id_ranges.until(service, scale=scale)


@given(MOMENTS, COUNTS, COUNTS)
def test_months_are_counted_like_numbers(moment: dt.datetime, one: int, other: int) -> None:
    month = month_of(moment.replace(year=max(2100, min(moment.year, 8900))))
    assert months_after(months_after(month, one), other) == months_after(month, one + other)
    assert months_between(month, months_after(month, one)) == one
    assert month_of(months_after(month, 1) - dt.timedelta(microseconds=1)) == month


@given(MOMENTS, ZONES)
def test_month_does_not_depend_on_the_time_zone(moment: dt.datetime, zone: dt.tzinfo) -> None:
    assert month_of(moment.astimezone(zone)) == month_of(moment)


def test_time_outside_the_range_of_ids_has_the_nearest_bound() -> None:
    lowest, highest = dt.datetime.min.replace(tzinfo=dt.UTC), dt.datetime.max.replace(tzinfo=dt.UTC)
    assert first_id(lowest) == id_ranges.since(lowest) == first_id(EPOCH) == str(uuid.UUID(int=0))
    assert id_ranges.until(highest) == first_id(dt.datetime(9999, 2, 1, tzinfo=dt.UTC))


def test_id_without_a_time_has_the_lowest_bound() -> None:
    for named in (None, str(uuid.uuid4())):
        assert id_ranges.since_named(named) == first_id(EPOCH)


@given(MOMENTS, st.none() | MOMENTS, st.none() | MOMENTS, st.none() | MOMENTS)
def test_page_is_read_from_later_times_first_and_from_its_filter_at_last(
    now: dt.datetime, since: dt.datetime | None, until: dt.datetime | None, before_at: dt.datetime | None
) -> None:
    begins = list(newest_first.begins(Page(before_at=before_at), since=since, until=until, now=now))
    assert begins[-1] == since
    windows = [begin for begin in begins[:-1] if begin is not None]
    assert len(windows) == len(begins) - 1
    assert windows == sorted(windows, reverse=True)
    assert all(since is None or begin > since for begin in windows)
