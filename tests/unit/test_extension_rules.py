"""When a session can be extended, what a missing answer means, and the new end (docs/product.md#extensions)."""

import datetime as dt

import attrs
from hypothesis import given
from hypothesis import strategies as st

from core.config.keys import KEYS
from core.extensions.rules import DefaultAction, by_silence, new_end
from core.extensions.states import ExtensionStatus
from core.sessions.rules import GRACE
from core.sessions.sensitivity import Sensitivity
from core.sessions.states import SessionStatus
from core.sessions.store import Session
from core.steps import extend

NOW = dt.datetime(2026, 11, 21, 6, tzinfo=dt.UTC)
SECONDS = st.integers(-(10**6), 10**6)


def a_session(*, status: SessionStatus, expires_at: dt.datetime | None) -> Session:
    """Return a session of which only the state and the end matter."""
    plain = {field.name: None for field in attrs.fields(Session)}
    return Session(**{**plain, "status": status, "expires_at": expires_at, "topic_sensitivity": Sensitivity.REGULAR})


def test_every_final_extension_state_earns_or_has_a_cause_tag() -> None:
    ends = set(ExtensionStatus) - {ExtensionStatus.PENDING}
    assert ends == extend.EARNING | extend.CAUSES.keys()
    assert not extend.EARNING & extend.CAUSES.keys()


def test_timeout_actions_of_extensions_equal_the_configurable_ones() -> None:
    key = KEYS["extension_default_action_on_timeout"]
    assert set(key.choices) == set(DefaultAction)
    assert by_silence(DefaultAction(key.default)) is ExtensionStatus.AUTO_APPROVED
    assert by_silence(DefaultAction.REJECT) is ExtensionStatus.REJECTED


@given(left=SECONDS, minutes=st.integers(1, 1440))
def test_extension_adds_minutes_to_a_running_session_and_starts_now_after_its_end(left: int, minutes: int) -> None:
    expires_at = NOW + dt.timedelta(seconds=left)
    end = new_end(expires_at=expires_at, minutes=minutes, now=NOW)
    assert end == (expires_at if left > 0 else NOW) + dt.timedelta(minutes=minutes)
    assert end - NOW >= dt.timedelta(minutes=minutes)


@given(status=st.sampled_from(SessionStatus), left=SECONDS)
def test_only_active_and_expired_sessions_can_be_extended(status: SessionStatus, left: int) -> None:
    session = a_session(status=status, expires_at=NOW + dt.timedelta(seconds=left))
    expected = status in ("active", "expired") and left > -GRACE.total_seconds()
    assert extend.extendable(session, now=NOW) is expected


def test_extension_at_the_end_of_the_grace_period_is_refused() -> None:
    for status in (SessionStatus.ACTIVE, SessionStatus.EXPIRED):
        session = a_session(status=status, expires_at=NOW)
        assert extend.extendable(session, now=NOW + GRACE - dt.timedelta(microseconds=1))
        assert not extend.extendable(session, now=NOW + GRACE)


def test_extension_without_a_session_or_an_end_is_refused() -> None:
    assert not extend.extendable(None, now=NOW)
    assert not extend.extendable(a_session(status=SessionStatus.SEARCHING, expires_at=None), now=NOW)
