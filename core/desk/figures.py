"""The figures of this moment: open work and late work, the control center's overview, and the metrics of the cluster.

The overview shows the open work, and one jobs process exports it. The metrics are read from the primary: on a replica,
work that is done would still look overdue.
"""

import datetime as dt
from collections.abc import Sequence
from typing import Literal, get_args

import attrs

from core.accounts.mitras.rules import AvailabilityPolicy, availability_policy
from core.base import id_ranges
from core.cluster.leases import store as leases
from core.config import rules
from core.desk.audits import store as audits
from core.desk.audits.rules import Depth, lease_of
from core.desk.ledger.audit_rules import RULES
from core.desk.timed_work import Lateness, overdue
from core.pairing.promises import store as promises
from core.pairing.promises.rules import is_withdrawn
from core.payments.failures.causes import CauseTag
from core.payments.states import PaymentStatus
from core.runtime.container import Runtime
from core.sessions.states import UNENDED, SessionStatus
from core.storage import sql_files
from core.storage.records import many, one
from core.storage.transaction import Reader
from core.telemetry import cluster_series as series
from core.telemetry.cluster_series import Figures

SQL = sql_files.load(__file__)
MitraState = Literal["offline", "available", "full", "unavailable"]
MITRA_STATES: tuple[MitraState, ...] = get_args(MitraState)
SearchMode = Literal["blast", "targeted"]
SEARCH_MODES: tuple[SearchMode, ...] = get_args(SearchMode)
OPEN_SESSIONS = tuple(status for status in SessionStatus if status in UNENDED)
# A configuration row or a setting without which customers or mitras can't be served.
Gap = Literal["support_handles", "gateway_enabled", "otp_sender", "push_sender"]
HOUR = dt.timedelta(hours=1)
OPEN_PAYMENTS = (PaymentStatus.PENDING, PaymentStatus.CONFIRMED)


@attrs.frozen(kw_only=True)
class OpenFailures:
    """The open failures of one cause: those without an operator's action that are not superseded. Amounts in Rupiah.

    `oldest_at` is when the oldest one that is not put aside was made; None without one.
    """

    cause: str
    count: int
    amount: int
    oldest_at: dt.datetime | None


@attrs.frozen(kw_only=True)
class OpenWork:
    """The open work. The maps have every key of their kind, with 0 for none; failures have only causes with some.

    `mitras_in_chats` are those of `mitras` who are in a chat.
    """

    failures: list[OpenFailures]
    searches: dict[SearchMode, int]
    mitras: dict[MitraState, int]
    mitras_in_chats: dict[MitraState, int]
    sessions: dict[SessionStatus, int]
    payments: dict[PaymentStatus, int]


async def open_work(reader: Reader, policy: AvailabilityPolicy, *, now: dt.datetime) -> OpenWork:
    """Return the open work, in one statement. A mitra who is full or unavailable is online and active."""
    found = await reader.fetch(SQL["open_work"], now, policy.require_ping, policy.stale_after_seconds, policy.capacity)
    counts = {(row["kind"], row["name"]): row["count"] for row in found}
    in_chats = {row["name"]: row["in_chats"] for row in found if row["kind"] == "mitras"}
    failures = [
        OpenFailures(cause=row["name"], count=row["count"], amount=row["amount"], oldest_at=row["oldest_at"])
        for row in found
        if row["kind"] == "failures"
    ]
    return OpenWork(
        failures=failures,
        searches={mode: counts.get(("searches", mode), 0) for mode in SEARCH_MODES},
        mitras={state: counts.get(("mitras", state), 0) for state in MITRA_STATES},
        mitras_in_chats={state: in_chats.get(state, 0) for state in MITRA_STATES},
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
    """Return when the oldest of these failures that is not put aside was made; None without one."""
    return min((one.oldest_at for one in failures if one.oldest_at is not None), default=None)


@attrs.frozen(kw_only=True)
class Hour:
    """The chats, payments and failed pairings of one hour. Amounts are in Rupiah."""

    at: dt.datetime
    chats: int
    paid_amount: int
    failures: int


@attrs.frozen(kw_only=True)
class Overview:
    """The figures of the overview page. Amounts are in Rupiah. `absent`: chats in which a party is absent.

    `mitras_busy`, `mitras_free` and `mitras_unavailable` add up to `mitras_online`: those in a chat, and the others by
    whether they can be asked. `no_reply`: running chats whose customer has waited
    `no_reply_minutes` for a reply. `not_set_up`: what operators or administrators have to set before
    customers can be served. `operators_locked`: operators who can't sign in because of failed sign-ins.
    """

    mitras_online: int
    mitras_busy: int
    mitras_free: int
    mitras_unavailable: int
    searching: int
    active: int
    expired: int
    closing: int
    absent: int
    no_reply: int
    failures_open: int
    failures_open_amount: int
    failures_oldest_at: dt.datetime | None
    pending_payments: int
    confirmed_amount_24h: int
    webhook_errors_last_hour: int
    not_set_up: list[Gap]
    operators_locked: int
    sweeps: list[Lateness]
    hours: list[Hour]


def gaps(runtime: Runtime) -> list[Gap]:
    """Return what is not set up: contacts that are the seed's, no gateway, codes or pushes that are only logged."""
    settings = runtime.settings
    unset: dict[Gap, bool] = {
        "support_handles": rules.has_placeholder(runtime.config.values["support_handles"]),
        "gateway_enabled": not settings.gateway_enabled,
        "otp_sender": settings.otp_sender == "log",
        "push_sender": settings.push_sender == "log",
    }
    return [gap for gap, missing in unset.items() if missing]


async def overview(runtime: Runtime) -> Overview:
    """Return the figures of the overview page."""
    from core.desk import support  # the jobs process reads figures, but needs none of it

    now, policy = runtime.now(), availability_policy(runtime.config)
    work = await open_work(runtime.db, policy, now=now)
    row = await runtime.db.fetchrow(SQL["figures"], now, id_ranges.since(now - HOUR, scale=runtime.clock.scale))
    hours = many(Hour, await runtime.db.fetch(SQL["hours"], now))
    sweeps = await overdue(runtime.db, now=now)
    online: list[MitraState] = [state for state in MITRA_STATES if state != "offline"]
    alone = {state: work.mitras[state] - work.mitras_in_chats[state] for state in online}
    return Overview(
        **dict(row),
        mitras_online=sum(work.mitras[state] for state in online),
        mitras_busy=sum(work.mitras_in_chats[state] for state in online),
        mitras_free=alone["available"],
        mitras_unavailable=sum(alone.values()) - alone["available"],
        no_reply=await support.unanswered(runtime),
        searching=work.sessions[SessionStatus.SEARCHING],
        active=work.sessions[SessionStatus.ACTIVE],
        expired=work.sessions[SessionStatus.EXPIRED],
        closing=work.sessions[SessionStatus.CLOSING],
        failures_open=sum(one.count for one in work.failures),
        failures_open_amount=sum(one.amount for one in work.failures),
        failures_oldest_at=oldest_at(work.failures),
        pending_payments=work.payments[PaymentStatus.PENDING],
        not_set_up=gaps(runtime),
        sweeps=sweeps,
        hours=hours,
    )


async def cluster_figures(runtime: Runtime) -> Figures:
    """Return the figures of the cluster. Every label has a value, 0 for none. Raises Unavailable."""
    now, real_now, db = runtime.now(), runtime.clock.real_now(), runtime.db
    work = await open_work(db, availability_policy(runtime.config), now=now)
    due = dt.timedelta(hours=runtime.config.number("failure_due_hours"))
    owed = await refunds(db, now=now, due=due)
    late = await overdue(db, now=now)
    broken = await audits.violations(db)
    finished = await leases.finished(db, [lease_of(depth) for depth in Depth])
    estimate = await promises.newest_estimate(db)
    judged, missed = (estimate.judged, estimate.missed) if estimate else (0, 0)
    failures = {one.cause: one for one in work.failures}
    causes = [tag.value for tag in CauseTag]
    oldest = oldest_at(work.failures)
    return {
        series.FAILURES_OPEN: {(cause,): failures[cause].count if cause in failures else 0 for cause in causes},
        series.FAILURES_OPEN_AMOUNT: {(cause,): failures[cause].amount if cause in failures else 0 for cause in causes},
        series.FAILURES_OLDEST: {(): max(0.0, (now - oldest).total_seconds()) if oldest else 0.0},
        series.FAILURES_OVERDUE: {(): owed.overdue},
        series.REFUNDS_OPEN: {(): owed.open},
        series.REFUNDS_OLDEST: {(): max(0.0, owed.oldest_seconds)},
        series.SEARCHES: {(mode,): count for mode, count in work.searches.items()},
        series.MITRAS: {(state,): count for state, count in work.mitras.items()},
        series.SESSIONS: {(status.value,): count for status, count in work.sessions.items()},
        series.PAYMENT_REQUESTS: {(status.value,): count for status, count in work.payments.items()},
        series.OVERDUE: {(one.name,): one.overdue for one in late},
        series.OVERDUE_OLDEST: {(one.name,): one.late_seconds for one in late},
        series.AUDIT_VIOLATIONS: {(rule.name,): broken.get(rule.name, 0) for rule in RULES},
        series.AUDIT_FINISHED: {
            (depth.value,): finished[lease_of(depth)].timestamp() for depth in Depth if lease_of(depth) in finished
        },
        series.PROMISES_JUDGED: {(): judged},
        series.PROMISES_MISSED: {(): missed},
        series.PROMISES_WITHDRAWN: {(): float(is_withdrawn(judged, missed))},
        series.STANDBY_LAG: {(name,): lag for name, lag in (await standbys(db)).items()},
        series.LOG_UNARCHIVED: {(): await unarchived_seconds(db)},
        series.COLLECTED: {(): real_now.timestamp()},
    }
