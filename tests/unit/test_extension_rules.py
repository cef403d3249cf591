"""What a missing answer to an extension means, and the new end (docs/product.md#extensions)."""

import datetime as dt

from hypothesis import given
from hypothesis import strategies as st

from core.config.keys import KEYS
from core.sessions.extensions import extend
from core.sessions.extensions.rules import DefaultAction, by_silence, new_end
from core.sessions.extensions.states import ExtensionStatus

NOW = dt.datetime(2026, 11, 21, 6, tzinfo=dt.UTC)
SECONDS = st.integers(-(10**6), 10**6)


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
    end = new_end(expires_at=expires_at, minutes=minutes, now=NOW, is_over=left <= 0)
    assert end == (expires_at if left > 0 else NOW) + dt.timedelta(minutes=minutes)
    assert end - NOW >= dt.timedelta(minutes=minutes)
