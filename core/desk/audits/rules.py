"""When the ledger is audited and how deeply, and the result of a rule (docs/operating.md#audits)."""

import datetime as dt
import enum

import attrs


class Depth(enum.StrEnum):
    """How much an audit reads: the rules about open work, or every rule."""

    CHEAP = "cheap"
    FULL = "full"


@attrs.frozen(kw_only=True)
class Violation:
    """A row that breaks a rule."""

    rule: str
    id: str
    detail: str


@attrs.frozen(kw_only=True)
class Acceptance:
    """Why an operator has accepted a violation, and when. `operator` is the e-mail address."""

    reason: str
    operator: str
    accepted_at: dt.datetime


@attrs.frozen(kw_only=True)
class RuleResult:
    """What an audit found about one rule: how many rows break it, and the ids of some of them."""

    rule: str
    violations: int
    first_ids: list[str]


@attrs.frozen(kw_only=True)
class BrokenRule(RuleResult):
    """A rule that rows break, since the audit that first found it, and when it was last checked."""

    since_at: dt.datetime
    checked_at: dt.datetime


CHEAP_EVERY = dt.timedelta(minutes=1)  # real time
NIGHT_HOUR = 20  # the hour of the full audit, UTC: 3 in the morning in Jakarta
BROKEN_EVERY = dt.timedelta(hours=1)  # service time; a broken rule of the full audit is checked again, for a repair
STATEMENT_S = 600.0  # real; a rule over tens of millions of messages takes minutes
STORE_EVERY_S = 5.0  # real; results that an audit has gathered for longer are stored
CLAIM_S = 60.0  # of an audit; it is renewed while rules run, so it ends soon after the death of its process
RENEW_EVERY_S = 15.0  # real
# Real seconds until a failed audit is repeated. A full one reads whole tables again, perhaps without success.
RETRY_S = {Depth.CHEAP: 60.0, Depth.FULL: 3600.0}
MOST_REASON = 1000  # characters of the reason for which violations are accepted
FIRST_IDS = 5  # of the rows that break a rule, to store with their number


def due_since(depth: Depth, now: dt.datetime) -> dt.datetime:
    """Return the moment since which an audit must have finished, or else one is due. All times are real time."""
    if depth is Depth.CHEAP:
        return now - CHEAP_EVERY
    tonight = now.astimezone(dt.UTC).replace(hour=NIGHT_HOUR, minute=0, second=0, microsecond=0)
    return tonight if tonight <= now else tonight - dt.timedelta(days=1)


def lease_of(depth: Depth) -> str:
    """Return the name of the lease of the process that runs an audit."""
    return f"audit {depth.value}"
