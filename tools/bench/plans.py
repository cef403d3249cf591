"""`sesi grow --plans`: shows the plan of each statement of the product, and finds statements that read too much.

tools.bench.plan_calls finds the statements: it calls every store function and every read. EXCEPTIONS names the
statements that may read a big table, or much of it, with the reason, and ALL_MONTHS those that may read many months of
a partitioned table; all others fail.
"""

import contextlib

import asyncpg
import attrs
from rich.table import Table

from core.app.reactions import open_runtime
from core.base.errors import DomainError
from core.base.progress import Report, unreported
from core.sessions.transitions import NotInState
from core.settings.settings import Settings
from core.storage.pool import SERVER_SETTINGS, set_up
from core.storage.reports import Reports
from core.storage.transaction import Tx
from tools.bench import plan_forms
from tools.bench.plan_calls import TYPICAL, Caller, NoArgument, PlannedCall
from tools.bench.plan_watch import BIG, PlanWatch, SeenStatement, WatchedDatabase, kept_out

SLOW_MS = 250.0
SMALL = 500  # rows from which a table counts as big in a small database
ONLY_WHERE_NEEDED = "SET LOCAL enable_seqscan = off; SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off"
MUCH = 20_000  # rows that one run may read
# Partitions of a table that one statement may read: those of 31 days, with a day or a search before them.
FEW_MONTHS = 3
# (function, form) -> why it may read much or take long.
EXCEPTIONS = {
    (
        "core.desk.activity.summary",
        "30 days",
    ): "adds up 30 days; docs/scale.md says when to store daily sums",
}
LATE = "calls about a request come at any time after it, such as late money"
# (function, form) -> why it reads many months.
ALL_MONTHS = {
    ("core.desk.timeline.timeline.timeline", ""): LATE,
    ("core.desk.webhook_calls._page", "of one request"): LATE,
    ("core.deliveries.trail.forget", ""): "all of a user's rows are deleted, which are in every month",
    (
        "core.payments.webhooks.store.remove_unproven",
        "",
    ): "looks for old calls; a partial index has only those without a token",
    ("core.desk.webhook_calls._page", "an invoice"): "the id of an invoice has no time",
    ("core.payments.webhooks.store.polled", ""): "the id of an invoice has no time",
    ("core.payments.reconciliation.store.recorded", ""): "the id of an invoice has no time",
    ("core.desk.activity._log", "a mitra"): "older months are read until the page is full",
    ("core.desk.webhook_calls._page", "late_payment_recorded"): "older months are read until the page is full",
    ("core.desk.webhook_calls._page", "error"): "older months are read until the page is full",
}


class NotWatched(Exception):
    """The statements can't be watched; the message says why."""


@attrs.frozen(kw_only=True)
class Judged:
    """A statement and its fault, or None; `reason` says why the fault is allowed, or is None."""

    seen: SeenStatement
    fault: str | None
    reason: str | None


def judge(seen: SeenStatement) -> Judged:
    """Return a statement with its fault, if it reads too much or takes too long."""
    fault, reasons = None, EXCEPTIONS
    if seen.scans:
        fault = f"reads all of {', '.join(seen.scans)}"
    elif most := [f"{n} months of {table}" for table, n in seen.months.items() if n > FEW_MONTHS]:
        fault = f"reads {', '.join(most)}"
        reasons = ALL_MONTHS
    elif seen.read > MUCH:
        fault = f"reads {seen.read:,} rows"
    elif seen.ms is not None and seen.ms > SLOW_MS:
        fault = f"takes {seen.ms:.0f} ms"
    form = seen.case.partition(" (")[2].rstrip(")")
    return Judged(seen=seen, fault=fault, reason=reasons.get((seen.home, form)) if fault else None)


def table(found: list[Judged]) -> Table:
    """Return a table of statements, slowest first."""
    made = Table("statement", "plan", "cost", "rows", "read", "months", "ms", "")
    for one in sorted(found, key=lambda judged: -(judged.seen.ms or 0)):
        seen = one.seen
        mark = "" if one.fault is None else one.reason or f"[red]{one.fault}[/]"
        form = seen.case.partition(" (")[2].rstrip(")")
        made.add_row(
            seen.home.removeprefix("core.") + (f" ({form})" if form else ""), seen.nodes + (" (for all parameters)" if seen.generic else ""),
            f"{seen.cost:,.0f}", f"{seen.rows:,}", f"{seen.read:,}", str(max(seen.months.values(), default="")), "-" if seen.ms is None else f"{seen.ms:.1f}", mark,
        )  # fmt: skip
    return made


async def look(
    settings: Settings, *, small: bool = False, function: str = "", report: Report = unreported
) -> list[Judged]:
    """Make every call, or only those of one `function`, on this database, roll it back, and judge its statements.

    On a `small` database a scan is often the fastest plan. There, scans are disabled unless no index helps, and then
    they are reported. Raises NotWatched.
    """
    runtime = await open_runtime(settings, pool_size=2)
    connection = await asyncpg.connect(
        settings.database_url, timeout=5, server_settings={**SERVER_SETTINGS, "statement_timeout": "60000"}
    )
    await set_up(connection)
    product, reports = runtime.db, runtime.reports
    try:
        async with kept_out(connection):
            found = await connection.fetchrow(TYPICAL)
            if found is None:
                raise NotWatched("the database is empty: fill it with `sesi grow`")
            if small:
                await connection.execute(ONLY_WHERE_NEEDED)
            watch = await PlanWatch.open(connection, big=SMALL if small else BIG)
            runtime.db = WatchedDatabase(settings.database_url, watch)
            runtime.reports = Reports(runtime.db)
            caller = Caller(runtime, runtime.db, Tx(watch, runtime.now), dict(found))
            calls = [
                call
                for call in caller.calls(plan_forms.forms(caller))
                if function in ("", call.name.partition(" (")[0])
            ]
            wrong = []
            for number, call in enumerate(calls):
                report(number / len(calls), call.name)
                wrong += [told] if (told := await _make(caller, call, watch)) is not None else []
            if wrong:
                raise NotWatched("tools.bench.plan_calls does not know how to call:\n" + "\n".join(wrong))
            return [judge(seen) for seen in watch.seen.values()]
    finally:
        runtime.db, runtime.reports = product, reports
        await connection.close()
        await runtime.close()


async def _make(caller: Caller, call: PlannedCall, watch: PlanWatch) -> str | None:
    """Make a call and roll it back; return what is wrong with the call, or None.

    The product's own refusals are ignored, and so are transitions that start in another state.
    """
    watch.case = call.name
    before = len(watch.seen)
    try:
        async with kept_out(watch.connection):
            with contextlib.suppress(DomainError, NotInState, asyncpg.IntegrityConstraintViolationError):
                await caller.make(call)
    except (
        NoArgument,
        asyncpg.PostgresError,
        asyncpg.InterfaceError,
        TypeError,
        ValueError,
        AttributeError,
        LookupError,
        AssertionError,
    ) as error:
        return f"{call.name}: {type(error).__name__}: {error}"
    return f"{call.name}: it runs no statement" if len(watch.seen) == before else None
