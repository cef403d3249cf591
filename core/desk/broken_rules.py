"""The rules of the ledger audit that rows break, as the audits of the jobs processes last found them."""

import datetime as dt

import attrs

from core.desk.audits.rules import BROKEN_EVERY, Depth, RuleResult
from core.desk.ledger.audit_rules import RULES, Rule, rules_of
from core.runtime.container import Runtime
from core.runtime.transactions import translate_db_errors
from core.storage import sql_files
from core.storage.records import many
from core.storage.transaction import Reader

SQL = sql_files.load(__file__)
NAMES = frozenset(rule.name for rule in RULES)


@attrs.frozen(kw_only=True)
class BrokenRule(RuleResult):
    """A rule that rows break, since the audit that first found it, and when it was last checked."""

    since_at: dt.datetime
    checked_at: dt.datetime


@attrs.frozen(kw_only=True)
class BrokenRules:
    """Every rule with violations, those broken for longest first."""

    items: list[BrokenRule]


async def broken_rules(runtime: Runtime) -> BrokenRules:
    """Return the rules that rows break, without results of rules that no longer exist."""
    with translate_db_errors():
        return BrokenRules(items=await broken(runtime.db))


async def rules_to_check(runtime: Runtime, depth: Depth) -> tuple[Rule, ...]:
    """Return the rules of an audit, and those of the full audit that are broken and were not checked for BROKEN_EVERY.

    Raises Unavailable.
    """
    found = rules_of(depth)
    checked_before = runtime.now() - BROKEN_EVERY
    with translate_db_errors():
        again = {one.rule for one in await broken(runtime.db) if one.checked_at < checked_before}
    return (*found, *(rule for rule in RULES if rule.name in again and rule not in found))


async def broken(reader: Reader) -> list[BrokenRule]:
    """Return the rules that rows break, those broken for longest first."""
    return [one for one in many(BrokenRule, await reader.fetch(SQL["broken"])) if one.rule in NAMES]
