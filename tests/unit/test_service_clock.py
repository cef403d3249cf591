"""Service time is anchor + (real - anchor) * scale (SESI_TIME_SCALE)."""

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.base.clock import SLEW_RATE, Clock, monotonic

ANCHOR = dt.datetime(2026, 11, 21, 6, tzinfo=dt.UTC)
NEAR_S = 0.5  # what a slow machine may need between two readings


def clock_at(real: dt.datetime, *, scale: float) -> Clock:
    clock = Clock(anchor=ANCHOR, scale=scale)
    clock.set_real(real, at_monotonic=monotonic())
    return clock


@given(st.floats(0, 1e6), st.sampled_from([0.5, 1, 60, 1000]))
def test_service_time_runs_at_its_scale_from_the_anchor(real_seconds: float, scale: float):
    clock = clock_at(ANCHOR + dt.timedelta(seconds=real_seconds), scale=scale)
    passed = (clock.now() - ANCHOR).total_seconds()
    assert real_seconds * scale - 0.01 * scale <= passed <= (real_seconds + NEAR_S) * scale


def test_service_time_with_a_scale_of_one_ignores_the_anchor():
    real = dt.datetime(2030, 1, 1, tzinfo=dt.UTC)
    assert abs((clock_at(real, scale=1).now() - real).total_seconds()) < NEAR_S


@given(st.floats(-1e5, 1e5), st.sampled_from([1, 60]))
def test_real_wait_is_the_service_wait_divided_by_the_scale(service_seconds: float, scale: float):
    clock = clock_at(ANCHOR, scale=scale)
    left = clock.real_seconds_until(ANCHOR + dt.timedelta(seconds=service_seconds))
    assert service_seconds / scale - NEAR_S <= left <= service_seconds / scale + 0.01


def test_adopting_the_database_clock_returns_the_difference():
    clock = clock_at(ANCHOR, scale=1)
    moved = clock.set_real(clock.real_now() + dt.timedelta(seconds=90), at_monotonic=monotonic())
    assert moved == pytest.approx(90, abs=NEAR_S)


@pytest.mark.parametrize("seconds", [-0.9, -0.05, 0.05, 0.9])
def test_small_clock_difference_is_slewed_without_going_backwards(seconds: float):
    clock = clock_at(ANCHOR, scale=1)
    began = monotonic()
    before = dt.datetime.fromtimestamp(clock._seconds(began), dt.UTC)
    clock.set_real(before + dt.timedelta(seconds=seconds), at_monotonic=began)
    times = [before, *(clock.real_now() for _ in range(1000))]
    assert times == sorted(times)
    assert (times[-1] - before).total_seconds() <= (monotonic() - began) * (1 + SLEW_RATE) + 0.001
    late = monotonic() + abs(seconds) / SLEW_RATE + 0.1
    assert clock._seconds(late) - clock._base - late == pytest.approx(seconds, abs=0.01)


def test_clock_difference_of_more_than_a_second_is_a_step():
    clock = clock_at(ANCHOR, scale=1)
    clock.set_real(clock.real_now() + dt.timedelta(seconds=20), at_monotonic=monotonic())
    assert (clock.real_now() - ANCHOR).total_seconds() == pytest.approx(20, abs=NEAR_S)


def test_service_times_are_aware_and_utc():
    clock = clock_at(ANCHOR, scale=60)
    assert clock.now().utcoffset() == clock.real_now().utcoffset() == dt.timedelta(0)


@given(st.datetimes(timezones=st.just(dt.UTC)), st.sampled_from([0.01, 0.5, 1, 10, 60, 10_000]))
def test_real_time_is_the_inverse_of_service_time(real: dt.datetime, scale: float) -> None:
    clock = clock_at(ANCHOR, scale=scale)
    try:
        service = clock.service_time(real)
    except OverflowError:  # no row can have this time
        service = dt.datetime.max.replace(tzinfo=dt.UTC) if real > ANCHOR else dt.datetime.min.replace(tzinfo=dt.UTC)
        assert abs(clock.real_time(service) - ANCHOR) <= abs(real - ANCHOR)
    else:
        assert abs(clock.real_time(service) - real) < dt.timedelta(seconds=1)
