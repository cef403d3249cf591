"""Timed work: the flow that does what is due, and how operators see work that is late (docs/invariants.md#i7).

The view `timed_work` of the database has one row for each piece of work that waits: (kind, id, due_at). `TIMED` says
the rest about each kind, once. From both follow the next deadlines of the jobs process, late work on the overview and
in the metrics, and rules of the audit. Flows that look for due rows read the view too. A statement that claims rows
repeats the condition, so that PostgreSQL checks it again on a row that changed before it was locked;
tests/flows/test_timed_work.py compares each claim with the view.

`stale` and `presence_check` depend on the clock and on settings, so they have no rows: database functions say who is
silent (piccolo_migrations/0002_functions.sql).
"""

import datetime as dt
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Literal

import attrs

from core.base.languages import Text
from core.config import store as config_store
from core.pairing import advance as pairing_advance
from core.pairing import check_presence, presence
from core.payments import poll as invoice_poll
from core.payments.pricing import schedule
from core.payments.refunds import refund
from core.providers.refunds import gateway_of
from core.runtime.container import Runtime
from core.sessions import timers as session_timers
from core.sessions.clock import fair_clock
from core.sessions.extensions import answer as extension_answer
from core.storage import sql_files
from core.storage.transaction import Reader

SQL = sql_files.load(__file__)
# One row for each kind that is due, and one row without a kind if none is.
NEXT = f"""SELECT present.*, due.kind, due.first_at
FROM ({SQL["present"]}, {config_store.VERSION} AS config_version) AS present
LEFT JOIN ({SQL["due"]}) AS due ON due.number > 0"""
SWEEP = dt.timedelta(seconds=60)  # service time in which a sweep finds what is due (docs/product.md#fixed-constants)


@attrs.frozen(kw_only=True)
class TimedWork:
    """A kind of timed work; `kind` names it in the view, in the metrics of jobs and in their logs.

    `run` does what is due; None: the sweep of this name in jobs/schedule.py does. `is_of_sessions` kinds wait while the
    clock of sessions stands (docs/fairness.md#fair-clock); their flows check that again. A kind that does not apply to
    this service is not run. `label` is its name on the overview and in the metrics of late work. `rule` is the rule of
    the audit against work that was never done, and `proves` what the rule checks. Both count what is late by more than
    `late_after`, in service time.
    """

    kind: str
    run: Callable[[Runtime], Awaitable[Any]] | None = None
    is_of_sessions: bool = False
    applies: Callable[[Runtime], bool] = lambda _: True
    label: Text | None = None
    rule: str | None = None
    proves: str = "I7"
    late_after: dt.timedelta = dt.timedelta()


TIMED = (
    TimedWork(
        kind="expiry",
        run=session_timers.expire,
        is_of_sessions=True,
        label=Text(en="session expiry", id="akhir sesi"),
        rule="a session ends with its paid time",
    ),
    TimedWork(
        kind="warning",
        run=session_timers.warn,
        is_of_sessions=True,
        label=Text(en="session warning", id="peringatan sesi"),
    ),
    TimedWork(
        kind="grace",
        run=session_timers.complete,
        is_of_sessions=True,
        label=Text(en="session grace", id="masa pamit sesi"),
    ),
    TimedWork(
        kind="round",
        run=pairing_advance.end_rounds,
        is_of_sessions=True,
        label=Text(en="pairing round", id="putaran pencarian"),
    ),
    TimedWork(
        kind="wave",
        run=pairing_advance.end_waves,
        is_of_sessions=True,
        label=Text(en="pairing wave", id="gelombang pencarian"),
        rule="a wave ends by its time",
        proves="docs/product.md#waves",
    ),
    TimedWork(kind="repeat", run=pairing_advance.repeat_asked),
    TimedWork(
        kind="extension",
        run=extension_answer.time_out,
        is_of_sessions=True,
        label=Text(en="extension answer", id="jawaban perpanjangan"),
        rule="an extension is answered by its deadline",
    ),
    TimedWork(
        kind="credit",
        run=fair_clock.credit,
        label=Text(en="time credit", id="pengembalian waktu"),
        rule="an outage is credited when it is over",
        proves="docs/fairness.md#fair-clock",
    ),
    TimedWork(kind="stale", run=presence.sweep_stale),
    TimedWork(kind="presence_check", run=check_presence.ask_silent),
    TimedWork(kind="invoice_poll", run=invoice_poll.poll_due, applies=lambda runtime: runtime.gateway is not None),
    TimedWork(
        kind="refund",
        run=refund.ask_due,
        applies=lambda runtime: gateway_of(runtime.settings, runtime.gateway) is not None,
        rule="the gateway is asked about an open refund",
        proves="I7 docs/product.md#refunds",
    ),
    TimedWork(
        kind="price",
        run=schedule.start_due,
        label=Text(en="price start", id="awal harga"),
        rule="a scheduled price starts by its time",
        proves="docs/product.md#prices-at-a-time",
    ),
    TimedWork(
        kind="expire_payments",
        # With the gateway, a request expires only after the gateway has answered.
        applies=lambda runtime: runtime.gateway is None,
        label=Text(en="payment expiry", id="batas waktu pembayaran"),
        rule="an unpaid request expires",
        late_after=SWEEP,
    ),
    TimedWork(
        kind="announce_again",
        label=Text(en="pairing start", id="awal pencarian"),
        rule="a confirmed payment request has a session or an extension",
        proves="I3",
        late_after=SWEEP,
    ),
    TimedWork(
        kind="absences",
        rule="an absence ends with its session",
        proves="docs/fairness.md#absent-party",
        late_after=SWEEP,
    ),
    TimedWork(
        kind="erase_rest",
        rule="an erasure is completed",
        proves="docs/privacy.md#erasure",
        # It waits for the end of a session that is closing, and for its own minute. Texts take seconds.
        late_after=SWEEP + dt.timedelta(hours=1),
    ),
    TimedWork(
        kind="sign_receipts",
        rule="the receipt of a completed session is signed",
        proves="docs/fairness.md#receipt",
        late_after=SWEEP,
    ),
)
DEADLINES = {one.kind: one.run for one in TIMED if one.run is not None}
SHOWN = tuple(one for one in TIMED if one.label is not None)
LABELS = tuple(str(one.label) for one in SHOWN)
# The names of late work. The interface documents list them.
if TYPE_CHECKING:
    LateName = str
else:
    LateName = Literal[LABELS]


@attrs.frozen(kw_only=True)
class Lateness:
    """A kind of timed work: how many items are overdue, and by how many seconds of service time the oldest is."""

    name: LateName
    overdue: int
    late_seconds: float


@attrs.frozen(kw_only=True)
class Upcoming:
    """When work is due next, in service time, by kind; and whether a search runs."""

    moments: dict[str, dt.datetime]
    is_searching: bool


async def overdue(reader: Reader, *, now: dt.datetime) -> list[Lateness]:
    """Return how late each kind of work with a label is, with 0 for a kind that is on time."""
    until = {one.kind: now - one.late_after for one in SHOWN}
    found = {row["kind"]: row for row in await reader.fetch(SQL["due"], list(until), list(until.values()))}
    return [
        Lateness(
            name=str(one.label),
            overdue=found[one.kind]["number"],
            late_seconds=(until[one.kind] - (found[one.kind]["first_at"] or until[one.kind])).total_seconds(),
        )
        for one in SHOWN
    ]


async def upcoming(runtime: Runtime, *, within_s: float) -> Upcoming:
    """Return the work that is due within some real seconds. Kinds with nothing due are left out.

    Also reloads changed configuration, so that an idle jobs process needs one query for everything.
    """
    now, scale = runtime.now(), runtime.clock.scale
    until = [now + dt.timedelta(seconds=within_s * scale)] * len(DEADLINES)
    rows = await runtime.db.fetch(
        NEXT, list(DEADLINES), until, now, scale if runtime.config.flag("fair_clock") else None
    )
    row = rows[0]
    await runtime.changes.follow_config(row["config_version"])
    stands = row["stands_since"] is not None
    waiting = {one.kind for one in TIMED if not one.applies(runtime) or (stands and one.is_of_sessions)}
    found = {row["kind"]: row["first_at"] for row in rows if row["kind"] is not None and row["kind"] not in waiting}
    if not row["has_realtime"]:  # the chat is still out, and the outage may get an earlier neighbour
        found.pop("credit", None)
    if row["silence"] is not None:
        found |= await _of_silent_mitras(runtime, row["silence"])
    return Upcoming(moments=found, is_searching=row["is_searching"] and not stands)


async def _of_silent_mitras(runtime: Runtime, since: dt.datetime) -> dict[str, dt.datetime]:
    """Return when the mitra who has been silent since then goes offline, and when the next presence check is due."""
    found = {}
    if runtime.config.flag("require_mitra_ping"):
        found["stale"] = since + runtime.config.seconds("mitra_stale_after_seconds")
    if runtime.config.flag("reachability_probe"):
        policy = check_presence.check_policy(runtime.config, cadence_s=runtime.settings.mitra_heartbeat_cadence_seconds)
        # A mitra whose check is unanswered may have the longest silence, so this is another statement.
        due = await check_presence.next_due(runtime.db, policy, now=runtime.now())
        found |= {} if due is None else {"presence_check": due}
    return found
