"""Read the open work of this moment: failures, searches, mitras, sessions, payment requests and late timed work.

The overview of the control center shows these figures, and one jobs process exports them as metrics.
"""

import datetime as dt
from collections.abc import Sequence
from typing import Literal, get_args

import attrs

from core.accounts.mitras.rules import AvailabilityPolicy
from core.payments.states import PaymentStatus
from core.sessions.states import UNENDED, SessionStatus
from core.storage import sql_files
from core.storage.records import many, one
from core.storage.transaction import Reader

SQL = sql_files.load(__file__)
TimedWork = Literal[
    "session expiry",
    "session warning",
    "session grace",
    "pairing round",
    "pairing wave",
    "extension answer",
    "time credit",
    "payment expiry",
    "pairing start",
]
KINDS: tuple[TimedWork, ...] = get_args(TimedWork)
MitraState = Literal["offline", "available", "full", "unavailable"]
MITRA_STATES: tuple[MitraState, ...] = get_args(MitraState)
SearchMode = Literal["blast", "targeted"]
SEARCH_MODES: tuple[SearchMode, ...] = get_args(SearchMode)
OPEN_SESSIONS = tuple(status for status in SessionStatus if status in UNENDED)
OPEN_PAYMENTS = (PaymentStatus.PENDING, PaymentStatus.CONFIRMED)


@attrs.frozen(kw_only=True)
class Lateness:
    """A kind of timed work: how many items are overdue, and by how many seconds of service time the oldest is."""

    name: TimedWork
    overdue: int
    late_seconds: float


@attrs.frozen(kw_only=True)
class OpenFailures:
    """The open failures of one cause: those without an operator's action that are not superseded. Amounts in Rupiah."""

    cause: str
    count: int
    amount: int
    oldest_at: dt.datetime


@attrs.frozen(kw_only=True)
class Present:
    """The open work. The maps have every key of their kind, with 0 for none; failures have only causes with some."""

    failures: list[OpenFailures]
    searches: dict[SearchMode, int]
    mitras: dict[MitraState, int]
    sessions: dict[SessionStatus, int]
    payments: dict[PaymentStatus, int]


async def present(reader: Reader, policy: AvailabilityPolicy, *, now: dt.datetime) -> Present:
    """Return the open work, in one statement. A mitra who is full or unavailable is online and active."""
    found = await reader.fetch(SQL["present"], now, policy.require_ping, policy.stale_after_seconds, policy.capacity)
    counts = {(row["kind"], row["name"]): row["count"] for row in found}
    failures = [
        OpenFailures(cause=row["name"], count=row["count"], amount=row["amount"], oldest_at=row["oldest_at"])
        for row in found
        if row["kind"] == "failures"
    ]
    return Present(
        failures=failures,
        searches={mode: counts.get(("searches", mode), 0) for mode in SEARCH_MODES},
        mitras={state: counts.get(("mitras", state), 0) for state in MITRA_STATES},
        sessions={status: counts.get(("sessions", status.value), 0) for status in OPEN_SESSIONS},
        payments={status: counts.get(("payments", status.value), 0) for status in OPEN_PAYMENTS},
    )


@attrs.frozen(kw_only=True)
class OpenRefunds:
    """The open refunds, the service time since the oldest was asked for, and the failures past their time."""

    open: int
    oldest_seconds: float
    overdue: int


async def refunds(reader: Reader, *, now: dt.datetime, due: dt.timedelta) -> OpenRefunds:
    """Return the open refunds, and how many failures are late: `due` is the time that operators have."""
    found = one(OpenRefunds, await reader.fetchrow(SQL["refunds"], now, now - due))
    assert found is not None
    return found


async def overdue(reader: Reader, *, now: dt.datetime) -> list[Lateness]:
    """Return how late each kind of timed work is, with 0 for a kind that is on time."""
    late = {found.name: found for found in many(Lateness, await reader.fetch(SQL["overdue"], now))}
    return [late.get(kind) or Lateness(name=kind, overdue=0, late_seconds=0.0) for kind in KINDS]


async def standbys(reader: Reader) -> dict[str, float]:
    """Return by how many seconds each standby of the primary is behind, by its `application_name`.

    Empty if there are none, or if the database user may not see them.
    """
    return {row["standby"]: row["lag_seconds"] for row in await reader.fetch(SQL["standbys"])}


async def unarchived_seconds(reader: Reader) -> float:
    """Return for how many real seconds no segment of the primary's log was archived, though a complete one waits.

    0 if none waits, or if the server does not archive its log (docs/backup.md#check).
    """
    return await reader.fetchval(SQL["unarchived"])


def oldest_at(failures: Sequence[OpenFailures]) -> dt.datetime | None:
    """Return when the oldest of these failures was made; None without any."""
    return min((one.oldest_at for one in failures), default=None)
