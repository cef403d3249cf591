"""The results of the audits: one row for each rule."""

from collections.abc import Sequence

import attrs

from core.audits.rules import Depth
from core.storage import sql_files
from core.storage.transaction import Reader, Tx

SQL = sql_files.load(__file__)


@attrs.frozen(kw_only=True)
class RuleResult:
    """What an audit found about one rule: how many rows break it, and the ids of some of them."""

    rule: str
    violations: int
    first_ids: list[str]


async def keep(tx: Tx, result: RuleResult, *, depth: Depth) -> None:
    """Store the result of a rule in place of the one before."""
    await tx.execute(SQL["keep"], result.rule, result.violations, result.first_ids, depth, tx.now)


async def forget_others(tx: Tx, *, rules: Sequence[str]) -> None:
    """Delete the results of rules other than these, which were renamed or removed."""
    await tx.execute(SQL["forget_others"], rules)


async def violations(reader: Reader) -> dict[str, int]:
    """Return the number of violations of each rule with a result."""
    return {row["rule"]: row["violations"] for row in await reader.fetch(SQL["violations"])}
