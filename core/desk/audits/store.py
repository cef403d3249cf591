"""The results of the audits: one row for each rule."""

from collections.abc import Sequence

import attrs

from core.desk.audits.rules import BrokenRule, Depth, RuleResult
from core.desk.ledger.audit_rules import RULES
from core.storage import sql_files
from core.storage.records import many
from core.storage.transaction import Reader, Tx

SQL = sql_files.load(__file__)
NAMES = frozenset(rule.name for rule in RULES)


async def keep(tx: Tx, results: Sequence[RuleResult], *, depth: Depth) -> None:
    """Store the results of rules in place of those before."""
    found = [attrs.asdict(result) for result in results]
    await tx.execute(SQL["keep"], found, depth, tx.now)


async def forget_others(tx: Tx, *, rules: Sequence[str]) -> None:
    """Delete the results of rules other than these, which were renamed or removed."""
    await tx.execute(SQL["forget_others"], rules)


async def violations(reader: Reader) -> dict[str, int]:
    """Return the number of violations of each rule with a result."""
    return {row["rule"]: row["violations"] for row in await reader.fetch(SQL["violations"])}


async def broken(reader: Reader) -> list[BrokenRule]:
    """Return the rules that rows break, those broken for longest first. Rules that no longer exist are left out."""
    return [one for one in many(BrokenRule, await reader.fetch(SQL["broken"])) if one.rule in NAMES]
