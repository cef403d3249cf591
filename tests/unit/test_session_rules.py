"""When a session warns, ends, can be extended and accepts a goodbye (docs/product.md#sessions)."""

import datetime as dt
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.base.actor import UserType
from core.sessions.rules import (
    GRACE,
    WARNING,
    Closure,
    EarlyEndDisabled,
    SessionNotActive,
    SessionNotClosable,
    closures_for,
    extendable,
    may_close,
    may_end,
    status_at,
    warning_due,
)
from core.sessions.states import HELD, SessionStatus
from tests.each import for_each

NOW = dt.datetime(2026, 11, 21, 6, tzinfo=dt.UTC)
MOMENT = dt.timedelta(microseconds=1)
PARTIES = (UserType.CUSTOMER, UserType.MITRA)


@given(st.integers(0, 10**9))
def test_warning_is_180_s_before_the_end_of_a_longer_session(milliseconds: int):
    expires_at = NOW + dt.timedelta(milliseconds=milliseconds)
    due = warning_due(expires_at=expires_at, set_at=NOW)
    assert due == (expires_at - dt.timedelta(seconds=180) if milliseconds > 180_000 else None)


def test_session_of_exactly_180_s_has_no_warning():
    assert warning_due(expires_at=NOW + WARNING, set_at=NOW) is None
    assert warning_due(expires_at=NOW + WARNING + dt.timedelta(microseconds=1), set_at=NOW) is not None


def test_grace_period_lasts_five_minutes():
    assert dt.timedelta(minutes=5) == GRACE


@for_each(("status", "side", "enabled"), list(itertools.product(SessionStatus, PARTIES, (True, False))))
def test_early_end_has_the_documented_result_in_every_state(status: SessionStatus, side: UserType, enabled: bool):
    if status in ("closing", "completed"):
        assert may_end(status, side, early_end_enabled=enabled) is False
    elif status == "expired" or (status == "active" and enabled):
        assert may_end(status, side, early_end_enabled=enabled) is True
    else:
        with pytest.raises(EarlyEndDisabled if status == "active" else SessionNotActive):
            may_end(status, side, early_end_enabled=enabled)


@pytest.mark.parametrize("status", SessionStatus)
def test_goodbye_is_accepted_only_in_expired_and_closing(status: SessionStatus):
    if status in ("expired", "closing"):
        may_close(status)
    else:
        with pytest.raises(SessionNotClosable):
            may_close(status)


@pytest.mark.parametrize("written", [pair for n in range(3) for pair in itertools.combinations(PARTIES, n)])
def test_side_reads_the_others_goodbye_after_its_own_or_after_completion(written: tuple[UserType, ...]):
    closures = [
        Closure(user_type=side.value, message=f"{side} says", created_at=NOW, blanked=False) for side in written
    ]
    for side in PARTIES:
        assert closures_for(side, closures, SessionStatus.COMPLETED) == closures
        own = [closure for closure in closures if closure.user_type == side.value]
        assert closures_for(side, closures, SessionStatus.CLOSING) == (closures if own else [])


def by_the_clock(status: SessionStatus, since: dt.timedelta, *, extension_pending: bool = False) -> SessionStatus:
    """Return the state `since` the end of the paid time or, when closing, of the grace period."""
    return status_at(
        status,
        expires_at=None if status is SessionStatus.SEARCHING else NOW,
        grace_ends_at=NOW if status is SessionStatus.CLOSING else None,
        extension_pending=extension_pending,
        now=NOW + since,
    )


@pytest.mark.parametrize("status", SessionStatus)
def test_state_by_the_clock_is_the_stored_one_before_the_end(status: SessionStatus) -> None:
    assert by_the_clock(status, -MOMENT) is status


@pytest.mark.parametrize("status", sorted(HELD))
def test_state_by_the_clock_expires_at_the_end_and_is_completed_after_the_grace_period(status: SessionStatus) -> None:
    assert by_the_clock(status, dt.timedelta(0)) is SessionStatus.EXPIRED
    assert by_the_clock(status, GRACE - MOMENT) is SessionStatus.EXPIRED
    assert by_the_clock(status, GRACE) is SessionStatus.COMPLETED
    assert by_the_clock(status, GRACE, extension_pending=True) is SessionStatus.EXPIRED


@pytest.mark.parametrize("status", sorted(set(SessionStatus) - HELD))
def test_state_by_the_clock_changes_in_no_other_state_but_closing(status: SessionStatus) -> None:
    after = SessionStatus.COMPLETED if status is SessionStatus.CLOSING else status
    assert by_the_clock(status, dt.timedelta(0)) is after


@given(status=st.sampled_from(SessionStatus), left=st.integers(-(10**6), 10**6))
def test_only_active_and_expired_sessions_can_be_extended(status: SessionStatus, left: int) -> None:
    expected = status in ("active", "expired") and left > -GRACE.total_seconds()
    assert extendable(status, expires_at=NOW + dt.timedelta(seconds=left), now=NOW) is expected


@pytest.mark.parametrize("status", sorted(HELD))
def test_extension_at_the_end_of_the_grace_period_is_refused(status: SessionStatus) -> None:
    assert extendable(status, expires_at=NOW, now=NOW + GRACE - MOMENT)
    assert not extendable(status, expires_at=NOW, now=NOW + GRACE)


@pytest.mark.parametrize("status", SessionStatus)
def test_extension_of_a_session_without_an_end_is_refused(status: SessionStatus) -> None:
    assert not extendable(status, expires_at=None, now=NOW)
