"""Presence checks: which silent mitras are asked for a heartbeat by push, and when (docs/product.md#presence-check).

The database functions `presence_check_due` and `next_presence_check` (piccolo_migrations/sql/0017_presence_checks.sql)
apply the rule; tests/flows/test_presence_checks.py compares them with `due_at`.
"""

import datetime as dt
from collections.abc import Sequence

import attrs

from core.accounts.mitras.rules import Configuration
from core.base.field_types import MitraId
from core.storage import sql_files
from core.storage.records import many
from core.storage.transaction import Reader, Tx

# Service seconds. While a check is unanswered, the next one comes after PAUSE_S. ANSWER_S is the time for the answer if
# heartbeats are not required.
PAUSE_S = 600.0
ANSWER_S = 60.0
# The budget of the whole service: at most AT_ONCE mitras are asked within PACE_S seconds of real time, also after an
# outage in which thousands fell silent.
AT_ONCE = 10
PACE_S = 0.1
PASSED_AT_ONCE = 500

SQL = sql_files.load(__file__)


@attrs.frozen(kw_only=True)
class CheckPolicy:
    """When a silent mitra is asked, in service seconds without a sign of life.

    `stale_after_s` is the silence after which a mitra is taken offline, if heartbeats are required.
    """

    silence_s: float
    stale_after_s: float
    require_ping: bool


def check_policy(config: Configuration, *, cadence_s: float) -> CheckPolicy:
    """Return the policy as it is configured now: halfway between the cadence and the end of the mitra's presence."""
    stale_after_s = config.seconds("mitra_stale_after_seconds").total_seconds()
    return CheckPolicy(
        silence_s=(cadence_s + stale_after_s) / 2,
        stale_after_s=stale_after_s,
        require_ping=config.flag("require_mitra_ping"),
    )


def due_at(*, silent_since: dt.datetime, checked_at: dt.datetime | None, silence_s: float) -> dt.datetime:
    """Return when an online mitra's next check is due.

    A check is unanswered until a heartbeat follows it, or an outage that excuses the silence.
    """
    first = silent_since + dt.timedelta(seconds=silence_s)
    if checked_at is None or checked_at <= silent_since:
        return first
    return max(first, checked_at + dt.timedelta(seconds=PAUSE_S))


@attrs.frozen(kw_only=True)
class Check:
    """A recorded check. A heartbeat answers it until `ends_at`."""

    mitra_id: MitraId
    ends_at: dt.datetime


async def next_due(reader: Reader, policy: CheckPolicy, *, now: dt.datetime) -> dt.datetime | None:
    """Return when the earliest check is due; None while no mitra is online."""
    return await reader.fetchval(SQL["next"], now, policy.silence_s, PAUSE_S)


async def claim(tx: Tx, policy: CheckPolicy) -> list[Check]:
    """Record due checks of up to AT_ONCE mitras with a device that takes pushes. The caller sends the pushes."""
    rows = await tx.fetch(SQL["claim"], *_parameters(tx, policy), AT_ONCE, ANSWER_S)
    return many(Check, rows)


async def pass_over(tx: Tx, policy: CheckPolicy) -> Sequence[str]:
    """Record due checks that no push can make; return the reason of each: `no_token` or `too_late`."""
    rows = await tx.fetch(SQL["pass_over"], *_parameters(tx, policy), PASSED_AT_ONCE)
    return [row["reason"] for row in rows]


def _parameters(tx: Tx, policy: CheckPolicy) -> tuple[object, ...]:
    return tx.now, policy.silence_s, PAUSE_S, policy.stale_after_s, policy.require_ping
