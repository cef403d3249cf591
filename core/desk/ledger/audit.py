"""The ledger audit: rules that find violations of the invariants in the database (docs/invariants.md)."""

import contextlib
import datetime as dt
from collections.abc import AsyncIterator, Iterable
from typing import Any

import asyncpg
import attrs

from core.base.batch_loader import BatchLoader
from core.base.errors import Unavailable
from core.base.languages import Text
from core.base.pages import rounded_lag
from core.base.progress import Report, unreported
from core.desk.audits import store as audits
from core.desk.audits.rules import FIRST_IDS, STATEMENT_S, Acceptance, RuleResult, Violation
from core.desk.ledger.audit_rules import RULES, Rule
from core.runtime.container import Runtime
from core.storage.database import Database
from core.storage.errors import as_unavailable
from core.storage.locks import AdvisoryLock

# Refused while a migration runs. Rules group and join whole tables, so they get more memory and time.
BEGIN = """SELECT
  pg_try_advisory_xact_lock_shared($1),
  set_config('statement_timeout', $2, true),
  set_config('work_mem', '64MB', true)"""
SPARE_S = 5.0  # so that the server cancels a statement first, and says so
# The first rows that break a rule and are not accepted, each with the number of all.
FIRST = f"""SELECT
  id,
  count(*) OVER ()::int AS violations
FROM ({{rule}}
) AS broken (id, detail)
WHERE NOT EXISTS (
  SELECT FROM accepted_violations AS a
  WHERE a.rule = ${{name}} AND a.object_id = broken.id AND a.detail = coalesce(broken.detail, '')
)
LIMIT {FIRST_IDS}"""


@attrs.frozen(kw_only=True)
class ExplainedViolation(Violation):
    """A row that breaks a rule and was accepted: why, by which operator (the e-mail address) and when."""

    reason: str
    operator: str
    accepted_at: dt.datetime


@attrs.frozen(kw_only=True)
class LedgerAudit:
    """The result of a ledger audit: how many sessions and payments were checked, and what breaks a rule.

    `accepted` are the rows that break a rule for a reason that an operator has accepted; they are not in `violations`.
    `replica_lag_seconds` is null if the primary was checked, else how far the replica was behind when the audit began.
    """

    sessions: int
    payments: int
    violations: list[Violation]
    accepted: list[ExplainedViolation] = attrs.field(factory=list)
    replica_lag_seconds: float | None = None


async def audit(
    runtime: Runtime, *, overdue: bool = True, age_s: float = 0.0, report: Report = unreported
) -> LedgerAudit:
    """Check every rule over the whole database.

    Each rule is one statement with its own snapshot. With one snapshot for all, PostgreSQL would keep every old version
    of the rows that are updated during the audit: chats would slow down, and their tables would stay large.

    A migration waits until the audit has ended. Raises Unavailable while a migration runs. On a replica there are no
    locks of migrations: it cancels the audit when it must replay one, and then the audit begins again on the primary.

    `overdue`: also check the rules about overdue work. Pass False for a service whose timers are stopped on purpose.
    `age_s`: how many real seconds ago a restored database was last written; work that was not due then is not overdue.
    """
    found = runtime.reports.current_replica()
    if found is not None:
        replica, lag = found
        try:
            return await _audit(runtime, replica, overdue=overdue, lag_s=lag, age_s=age_s, report=report)
        except Unavailable as error:
            runtime.reports.go_on_without(error)
    return await _audit(runtime, runtime.db, overdue=overdue, lag_s=None, age_s=age_s, report=report)


async def _audit(
    runtime: Runtime, db: Database, *, overdue: bool, lag_s: float | None, age_s: float, report: Report
) -> LedgerAudit:
    async with _reading(db) as connection:
        return await check(runtime, connection, overdue=overdue, lag_s=lag_s, age_s=age_s, report=report)


@contextlib.asynccontextmanager
async def _reading(db: Database) -> AsyncIterator[Any]:
    """Open a transaction in which no migration runs. Raises Unavailable, also while one does."""
    with as_unavailable():
        async with (
            db.pool.acquire(timeout=4) as connection,
            connection.transaction(isolation="read_committed", readonly=True),
        ):
            if not await connection.fetchval(BEGIN, AdvisoryLock.MIGRATION, f"{STATEMENT_S:.0f}s"):
                raise Unavailable(
                    Text(
                        en="The database is being migrated. Try again when the migration has finished.",
                        id="Basis data sedang dimigrasikan. Silakan coba lagi setelah selesai.",
                    ),
                    retry_after_seconds=60,
                )
            yield connection


class RulesTooSlow(Exception):
    """Rules took longer than STATEMENT_S. All others were checked."""


async def results(runtime: Runtime, rules: Iterable[Rule]) -> AsyncIterator[RuleResult]:
    """Check rules, and yield what is found about each. A rule that does not apply has no violations.

    Each rule has its own transaction, so a migration waits for one rule only. Reads the replica, or the primary if the
    replica is lost or not current. Raises Unavailable, also while a migration runs, and at the end RulesTooSlow.
    """
    slow = []
    for rule in rules:
        server = runtime.reports.current_replica()  # it may have fallen behind during the last rule
        try:
            found = await _result(runtime, rule, server)
        except Unavailable as error:
            if isinstance(error.__cause__, asyncpg.QueryCanceledError):
                slow.append(rule.name)
                continue
            if server is None:
                raise
            runtime.reports.go_on_without(error)
            found = await _result(runtime, rule, None)
        yield found
    if slow:
        raise RulesTooSlow(", ".join(slow))


def first_of(rule: Rule, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the statement that finds the first rows that break a rule, and its arguments; `args` are the rule's."""
    return FIRST.format(rule=rule.sql, name=len(args) + 1), *args, rule.name


async def _result(runtime: Runtime, rule: Rule, server: tuple[Database, float] | None) -> RuleResult:
    db, lag_s = server or (runtime.db, None)
    args = _arguments(runtime, rule, behind_s=lag_s or 0.0)
    if args is None:
        return RuleResult(rule=rule.name, violations=0, first_ids=[])
    async with _reading(db) as connection:
        rows = await connection.fetch(*first_of(rule, args), timeout=STATEMENT_S + SPARE_S)
    return RuleResult(
        rule=rule.name, violations=rows[0]["violations"] if rows else 0, first_ids=[row["id"] for row in rows]
    )


def _arguments(runtime: Runtime, rule: Rule, *, behind_s: float) -> tuple[Any, ...] | None:
    """Return the arguments of a rule for data of `behind_s` real seconds ago; None if it does not apply."""
    now = runtime.now() - dt.timedelta(seconds=behind_s * runtime.clock.scale)
    return () if rule.arguments is None else rule.arguments(runtime, now)


async def audit_for_operator(runtime: Runtime) -> LedgerAudit:
    """Run the audit, one at a time. All callers who ask during an audit share the next one."""

    async def read(_: list[str]) -> dict[str, LedgerAudit | None]:
        return {"books": await audit(runtime)}

    shared: BatchLoader[LedgerAudit | None] = runtime.loaders.setdefault("books", BatchLoader(read, nothing=None))
    found = await shared.of("books")
    assert found is not None
    return found


async def check(
    runtime: Runtime,
    connection: Any,
    *,
    overdue: bool,
    lag_s: float | None = None,
    age_s: float = 0.0,
    report: Report = unreported,
) -> LedgerAudit:
    """Check every rule in the caller's transaction, on the primary or on a replica that is `lag_s` seconds behind.

    `age_s` is that of `audit`.
    """
    sessions = await connection.fetchval("SELECT count(*)::int FROM chat_sessions", timeout=STATEMENT_S)
    payments = await connection.fetchval("SELECT count(*)::int FROM payment_requests", timeout=STATEMENT_S)
    acceptances = await audits.accepted(connection)
    violations = []
    for number, rule in enumerate(RULES):
        report(number / len(RULES), rule.name)
        args = _arguments(runtime, rule, behind_s=(lag_s or 0.0) + age_s)
        if args is not None and (rule.arguments is None or overdue):
            violations += await _violations(connection, rule, args)
    return LedgerAudit(
        sessions=sessions,
        payments=payments,
        violations=[one for one in violations if one not in acceptances],
        accepted=[_explained(one, acceptances[one]) for one in violations if one in acceptances],
        replica_lag_seconds=rounded_lag(lag_s),
    )


async def violations_of(runtime: Runtime, rule: Rule) -> list[Violation]:
    """Return every row of the primary that breaks a rule, the accepted ones too. Raises Unavailable."""
    args = _arguments(runtime, rule, behind_s=0.0)
    if args is None:
        return []
    async with _reading(runtime.db) as connection:
        return await _violations(connection, rule, args)


async def _violations(connection: Any, rule: Rule, args: tuple[Any, ...]) -> list[Violation]:
    rows = await connection.fetch(rule.sql, *args, timeout=STATEMENT_S)
    return [Violation(rule=rule.name, id=found, detail=detail or "") for found, detail in rows]


def _explained(violation: Violation, acceptance: Acceptance) -> ExplainedViolation:
    return ExplainedViolation(**attrs.asdict(violation), **attrs.asdict(acceptance))
