"""The rules of the audit: one statement each, in the SQL files of this folder, and one for each kind of timed work.

In a file, a rule begins with four comments: `rule` is its name, `proves` the invariants of docs/invariants.md (such as
I3) or the sections of the docs that it checks, `reads` is `open work` or `whole tables`, and `returns` says which rows
break it. Its statement returns them as (id, detail). A rule about open work finds its rows by the indexes of what is
not finished: it is cheap, and runs every minute. The others read each whole table once, over millions of rows, and run
every night (jobs/ledger_audits.py).

The rules of overdue.sql and of timed work (core/desk/timed_work.py) need arguments. A restart or a busy machine can
delay a timer, but by less than MARGIN_S of real time. Work that is later than that is not done at all. So these rules
find nothing while the service runs, and violations if no jobs process runs.
"""

import datetime as dt
import pathlib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs

from core.base.id_ranges import first_id, month_of, months_after
from core.desk.audits.rules import Depth
from core.desk.timed_work import SWEEP, TIMED, TimedWork
from core.privacy import erase_columns
from core.runtime.container import Runtime

MARGIN_S = 60.0  # real time: several times the slowest restart plus the longest wait of a jobs process
FILES = ("money", "chats", "people", "overdue")
# A rule about a kind of timed work.
NEVER_DONE = """SELECT
  id::text,
  format('due at %s', due_at)
FROM timed_work
WHERE kind = '{kind}' AND due_at < $1"""
HEAD = re.compile(r"^-- rule: (.+)\n-- proves: (.+)\n-- reads: (open work|whole tables)\n(?:--.*\n)+", re.MULTILINE)

# Returns the arguments of an overdue rule at a time, or None if the rule does not apply to this service.
Arguments = Callable[[Runtime, dt.datetime], tuple[Any, ...] | None]


@attrs.frozen(kw_only=True)
class Rule:
    """A rule that rows can break and no constraint enforces at every moment. Only overdue rules have `arguments`."""

    name: str
    proves: str
    is_cheap: bool  # reads open work only
    sql: str
    arguments: Arguments | None


def _before(runtime: Runtime, now: dt.datetime, late_after: dt.timedelta = dt.timedelta()) -> dt.datetime:
    """Return the time before which due work is overdue. `late_after` is the service time until it is found."""
    return now - dt.timedelta(seconds=MARGIN_S * runtime.settings.sesi_time_scale) - late_after


def _by_timer(runtime: Runtime, now: dt.datetime) -> tuple[Any, ...]:
    return (_before(runtime, now),)


def _if_pings_are_required(runtime: Runtime, now: dt.datetime) -> tuple[Any, ...] | None:
    if not runtime.config.flag("require_mitra_ping"):
        return None
    return (_before(runtime, now), runtime.config.seconds("mitra_stale_after_seconds").total_seconds(), now)


def _after_orphans(runtime: Runtime, now: dt.datetime) -> tuple[Any, ...]:
    """A call counts as an orphan one minute of service time after it was received, but at least one real minute.

    The next sweep finds it.
    """
    orphan = dt.timedelta(seconds=60 * max(1.0, runtime.settings.sesi_time_scale))
    return (_before(runtime, now, SWEEP) - orphan,)


def _in_real_seconds(runtime: Runtime, now: dt.datetime) -> tuple[Any, ...]:
    behind_s = (runtime.now() - now).total_seconds() / runtime.settings.sesi_time_scale
    return (runtime.settings.push_ack_seconds + MARGIN_S + behind_s,)


def _two_months_on(runtime: Runtime, now: dt.datetime) -> tuple[Any, ...]:
    return (first_id(months_after(month_of(runtime.clock.real_time(now)), 2)),)


ARGUMENTS: Mapping[str, Arguments] = {
    "a search ends with its round or its time limit": _by_timer,
    "a session is completed after its grace period": _by_timer,
    "a silent mitra is taken offline": _if_pings_are_required,
    "every webhook call has a result": _after_orphans,
    "an unacknowledged event becomes a push": _in_real_seconds,
    "the next month has partitions": _two_months_on,
}
# Statements that return further rows that break a rule.
ADDED = {"an erased user has no personal data and no device": erase_columns.LEFT}


def _load(file: str) -> Iterator[Rule]:
    """Yield the rules of one file, in order."""
    _, *parts = HEAD.split(pathlib.Path(__file__).with_name(f"{file}.sql").read_text(encoding="utf-8"))
    for name, proves, reads, sql in zip(parts[::4], parts[1::4], parts[2::4], parts[3::4], strict=True):
        arguments = ARGUMENTS[name] if file == "overdue" else None
        yield Rule(
            name=name,
            proves=proves,
            is_cheap=reads == "open work",
            sql="\nUNION ALL\n".join([sql.strip().removesuffix(";"), *([ADDED[name]] if name in ADDED else [])]),
            arguments=arguments,
        )


def _of(work: TimedWork, name: str) -> Rule:
    """Return the rule of a kind of timed work."""

    def arguments(runtime: Runtime, now: dt.datetime) -> tuple[Any, ...] | None:
        return (_before(runtime, now, work.late_after),) if work.applies(runtime) else None

    sql = NEVER_DONE.format(kind=work.kind)
    return Rule(name=name, proves=work.proves, is_cheap=True, sql=sql, arguments=arguments)


RULES = (
    *(rule for file in FILES for rule in _load(file)),
    *(_of(work, work.rule) for work in TIMED if work.rule is not None),
)


def rules_of(depth: Depth) -> tuple[Rule, ...]:
    """Return the rules that an audit checks."""
    return RULES if depth is Depth.FULL else tuple(rule for rule in RULES if rule.is_cheap)
