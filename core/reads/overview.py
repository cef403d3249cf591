"""Reads for the overview of the control center."""

import datetime as dt
from typing import Literal, get_args

import attrs

from core.base import id_ranges
from core.mitras.rules import availability_policy
from core.runtime import Runtime
from core.storage import sql_files
from core.storage.records import many
from core.transactions import translate_db_errors

HOUR = dt.timedelta(hours=1)
SQL = sql_files.load(__file__)
TimedWork = Literal[
    "session expiry",
    "session warning",
    "session grace",
    "pairing round",
    "pairing wave",
    "extension answer",
    "payment expiry",
    "pairing start",
]
KINDS: tuple[TimedWork, ...] = get_args(TimedWork)


@attrs.frozen(kw_only=True)
class Lateness:
    """A kind of timed work: how many items are overdue, and by how many seconds of service time the oldest is."""

    name: TimedWork
    overdue: int
    late_seconds: float


@attrs.frozen(kw_only=True)
class Hour:
    """The chats, payments and failed pairings of one hour. Amounts are in Rupiah."""

    at: dt.datetime
    chats: int
    paid_amount: int
    failures: int


@attrs.frozen(kw_only=True)
class Overview:
    """The figures of the overview page. Amounts are in Rupiah."""

    mitras_online: int
    mitras_busy: int
    mitras_free: int
    searching: int
    active: int
    expired: int
    closing: int
    failures_open: int
    failures_open_amount: int
    failures_oldest_at: dt.datetime | None
    pending_payments: int
    confirmed_amount_24h: int
    webhook_errors_last_hour: int
    sweeps: list[Lateness]
    hours: list[Hour]


async def overview(runtime: Runtime) -> Overview:
    """Return the figures of the overview page."""
    now, policy = runtime.now(), availability_policy(runtime.config)
    with translate_db_errors():
        row = await runtime.db.fetchrow(
            SQL["figures"],
            now,
            policy.require_ping,
            policy.stale_after_seconds,
            policy.capacity,
            id_ranges.since(now - HOUR),
        )
        hours = many(Hour, await runtime.db.fetch(SQL["hours"], now))
        late = {found.name: found for found in many(Lateness, await runtime.db.fetch(SQL["overdue"], now))}
    sweeps = [late.get(kind) or Lateness(name=kind, overdue=0, late_seconds=0.0) for kind in KINDS]
    return Overview(**dict(row), sweeps=sweeps, hours=hours)
