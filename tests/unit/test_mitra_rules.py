"""Which mitras are available (docs/product.md#eligible-mitras)."""

import datetime as dt
import itertools

import pytest

from core.accounts.mitras.rules import AvailabilityPolicy, MitraAtCapacity, MitraOffline, MitraPresence, check_available
from tests.each import for_each

NOW = dt.datetime(2026, 11, 21, 6, tzinfo=dt.UTC)
STALE_S = 45
BEATS = (
    None,
    NOW,
    NOW - dt.timedelta(seconds=STALE_S) + dt.timedelta(microseconds=1),
    NOW - dt.timedelta(seconds=STALE_S),
)


def refusal(presence: MitraPresence, policy: AvailabilityPolicy) -> type[Exception] | None:
    """Return with which error a mitra is refused, or None."""
    try:
        check_available(presence, policy, now=NOW)
    except (MitraOffline, MitraAtCapacity) as error:
        return type(error)
    return None


@for_each(("active", "online", "signed_in", "blocked"), list(itertools.product(*[(True, False)] * 4)))
def test_mitra_is_available_exactly_if_active_online_signed_in_fresh_unblocked_and_below_capacity(
    active: bool, online: bool, signed_in: bool, blocked: bool
):
    for beat, count, ping in itertools.product(BEATS, (0, 2, 3, 4), (True, False)):
        presence = MitraPresence(
            is_active=active,
            is_online=online,
            is_signed_in=signed_in,
            silent_since=beat,
            active_session_count=count,
            is_blocked=blocked,
        )
        policy = AvailabilityPolicy(require_ping=ping, stale_after_seconds=STALE_S, capacity=3)
        fresh = beat is not None and NOW - beat < dt.timedelta(seconds=STALE_S)
        offline = blocked or not (active and online and signed_in and (fresh or not ping))
        wanted = MitraOffline if offline else MitraAtCapacity if count >= 3 else None
        assert refusal(presence, policy) is wanted, (presence, policy)


def test_mitra_without_a_status_row_is_offline():
    with pytest.raises(MitraOffline):
        check_available(None, AvailabilityPolicy(require_ping=False, stale_after_seconds=STALE_S, capacity=3), now=NOW)


def test_capacity_of_zero_makes_no_mitra_available():
    presence = MitraPresence(
        is_active=True, is_online=True, is_signed_in=True, silent_since=NOW, active_session_count=0, is_blocked=False
    )
    with pytest.raises(MitraAtCapacity):
        check_available(
            presence, AvailabilityPolicy(require_ping=True, stale_after_seconds=STALE_S, capacity=0), now=NOW
        )
