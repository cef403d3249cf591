"""Service time is anchor + (real - anchor) * scale (contract 1, SESI_TIME_SCALE)."""

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.base.clock import Clock, monotonic

ANCHOR = dt.datetime(2026, 11, 21, 6, tzinfo=dt.UTC)
NEAR_S = 0.5  # what a slow machine may take between two readings


def clock_at(real: dt.datetime, *, scale: float) -> Clock:
    clock = Clock(anchor=ANCHOR, scale=scale)
    clock.set_real(real, at_monotonic=monotonic())
    return clock


@given(st.floats(0, 1e6), st.sampled_from([0.5, 1, 60, 1000]))
def test_service_time_runs_scale_times_as_fast_from_the_anchor(real_seconds: float, scale: float):
    clock = clock_at(ANCHOR + dt.timedelta(seconds=real_seconds), scale=scale)
    passed = (clock.now() - ANCHOR).total_seconds()
    assert real_seconds * scale - 0.01 * scale <= passed <= (real_seconds + NEAR_S) * scale


def test_with_a_scale_of_one_the_anchor_changes_nothing():
    real = dt.datetime(2030, 1, 1, tzinfo=dt.UTC)
    assert abs((clock_at(real, scale=1).now() - real).total_seconds()) < NEAR_S


@given(st.floats(-1e5, 1e5), st.sampled_from([1, 60]))
def test_a_wait_in_real_seconds_is_the_service_wait_divided_by_the_scale(service_seconds: float, scale: float):
    clock = clock_at(ANCHOR, scale=scale)
    left = clock.real_seconds_until(ANCHOR + dt.timedelta(seconds=service_seconds))
    assert service_seconds / scale - NEAR_S <= left <= service_seconds / scale + 0.01


def test_taking_over_the_databases_clock_tells_how_far_off_this_one_was():
    clock = clock_at(ANCHOR, scale=1)
    moved = clock.set_real(clock.real_now() + dt.timedelta(seconds=90), at_monotonic=monotonic())
    assert moved == pytest.approx(90, abs=NEAR_S)


def test_times_are_aware_and_utc():
    clock = clock_at(ANCHOR, scale=60)
    assert clock.now().utcoffset() == clock.real_now().utcoffset() == dt.timedelta(0)
