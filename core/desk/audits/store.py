"""The results of the audits, one row for each rule, and the violations that operators have accepted."""

from collections.abc import Mapping, Sequence

import attrs

from core.base import ids
from core.desk.audits.rules import Acceptance, BrokenRule, Depth, RuleResult, Violation
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


async def accept(tx: Tx, violations: Sequence[Violation], *, reason: str, operator_id: str) -> int:
    """Store that an operator has accepted these violations; return how many were not accepted before."""
    found = [{**attrs.asdict(violation), "row": ids.new_id()} for violation in violations]
    return await tx.execute(SQL["accept"], found, reason, operator_id, tx.now)


async def accepted(reader: Reader) -> Mapping[Violation, Acceptance]:
    """Return the accepted violations, with who accepted them, when and why."""
    return {
        Violation(rule=row["rule"], id=row["object_id"], detail=row["detail"]): Acceptance(
            reason=row["reason"], operator=row["operator"], accepted_at=row["accepted_at"]
        )
        for row in await reader.fetch(SQL["accepted"])
    }
