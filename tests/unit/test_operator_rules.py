"""Permissions of operators, and the lockout of their sign-in (docs/product.md#operators)."""

import datetime as dt
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.accounts.operators.rules import (
    ADMINISTRATOR,
    AREAS,
    after_failure,
    allows,
    locked_for,
    require,
    requires_totp,
)
from core.base.errors import Forbidden
from tests.each import for_each

NOW = dt.datetime(2026, 11, 21, 6, tzinfo=dt.UTC)
LOCKOUT = dt.timedelta(minutes=15)
LEVELS = st.sampled_from(["read", "write"])


def test_permission_areas_equal_the_documented_ones():
    assert set(AREAS) == {
        "config", "security", "pricing", "mitras", "customers", "customers.pii", "operators", "activity", "failed_pairings",
        "reports", "sessions", "payments", "webhooks", "audit",
    }  # fmt: skip


@given(st.dictionaries(st.sampled_from([*AREAS, "*"]), LEVELS), st.sampled_from(AREAS), LEVELS)
def test_write_includes_read_and_star_includes_every_area(permissions: dict[str, str], area: str, level: str):
    held = {permissions.get(area), permissions.get("*")} - {None}
    may = "write" in held or (level == "read" and bool(held))
    assert allows(permissions, area, level) is may
    if may:
        require(permissions, area, level)
    else:
        with pytest.raises(Forbidden):
            require(permissions, area, level)


@for_each("area", AREAS)
def test_administrator_has_every_permission(area: str):
    require(ADMINISTRATOR, area, "read")
    require(ADMINISTRATOR, area, "write")


def test_customers_permission_excludes_phone_and_email():
    assert not allows({"customers": "write"}, "customers.pii", "read")


GUARDED = {"config", "security", "operators", "failed_pairings", "payments"}


@given(st.dictionaries(st.sampled_from([*AREAS, "*"]), LEVELS), st.booleans(), st.booleans())
def test_second_factor_is_required_by_the_role_or_in_production_by_rights_that_move_money_or_change_the_service(
    permissions: dict[str, str], by_role: bool, production: bool
):
    guarded = any(allows(permissions, area, "write") for area in GUARDED)
    required = requires_totp(permissions, by_role=by_role, production=production)
    assert required is (by_role or (production and guarded))


@pytest.mark.parametrize("held", ["", "none", "READ", "owner"])
def test_unknown_permission_level_grants_nothing(held: str):
    assert not allows({"config": held}, "config", "read")


@given(st.floats(0.001, 100_000))
def test_lockout_returns_the_whole_seconds_until_its_end(seconds: float):
    until = NOW + dt.timedelta(seconds=seconds)
    left = locked_for(until, now=NOW)
    assert left == max(1, math.ceil((until - NOW).total_seconds()))
    assert locked_for(until, now=NOW + dt.timedelta(seconds=left)) is None


def test_lockout_is_over_at_its_end():
    assert locked_for(None, now=NOW) is None
    assert locked_for(NOW, now=NOW) is None
    assert locked_for(NOW - dt.timedelta(days=1), now=NOW) is None
    assert locked_for(NOW + dt.timedelta(microseconds=1), now=NOW) == 1


@given(st.integers(0, 8), st.lists(st.integers(0, 1200), max_size=60))
def test_lockout_follows_exactly_the_limit_of_failures(limit: int, gaps: list[int]):
    """For a client that retries, whatever the pauses: 401 up to and including the limit, then 423."""
    count, until, now, tries = 0, None, NOW, 0
    for gap in gaps:
        now += dt.timedelta(seconds=gap)
        if locked_for(until, now=now) is not None:
            assert tries == max(1, limit)
            continue
        if until is not None:
            tries = 0
        count, until = after_failure(failed_before=count, lockout_until=until, limit=limit, lockout=LOCKOUT, now=now)
        tries += 1
        assert count == tries
        assert (until is not None) is (tries == max(1, limit))
        assert until in (None, now + LOCKOUT)


def test_failure_after_a_lockout_counts_as_the_first():
    assert after_failure(failed_before=5, lockout_until=NOW, limit=5, lockout=LOCKOUT, now=NOW) == (1, None)


def test_lowered_limit_locks_with_the_next_failure():
    assert after_failure(failed_before=4, lockout_until=None, limit=2, lockout=LOCKOUT, now=NOW) == (5, NOW + LOCKOUT)
