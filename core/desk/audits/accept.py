"""Accept violations whose cause is known, with a reason (docs/operating.md#audits)."""

from collections.abc import Sequence

from core.accounts.operators import store as operators
from core.base import field_messages
from core.base.errors import ValidationFailed
from core.base.languages import Text
from core.desk.audits import store as audits
from core.desk.audits.rules import MOST_REASON
from core.desk.ledger.audit import violations_of
from core.desk.ledger.audit_rules import RULES
from core.runtime.container import Runtime

A_RULE = Text(
    en="must be the name of a rule, as `sesi audit --rules` prints it",
    id="harus nama aturan seperti yang ditampilkan `sesi audit --rules`",
)


async def accept(
    runtime: Runtime, *, rule_name: str, object_ids: Sequence[str] | None, reason: str, operator_id: str
) -> int:
    """Accept the rows with these ids that break a rule, or all of them if None; return how many were new.

    From then on no audit counts them, unless they break the rule in another way. Raises ValidationFailed for an unknown
    rule, an id that does not break it or a reason without words, and Unavailable.
    """
    rule = next((rule for rule in RULES if rule.name == rule_name), None)
    if rule is None:
        raise ValidationFailed.of("rule", A_RULE)
    if not 0 < len(reason.strip()) <= MOST_REASON:
        raise ValidationFailed.of("reason", field_messages.length(1, MOST_REASON))
    found = await violations_of(runtime, rule)
    broken = {one.id for one in found}
    for unknown in [one for one in object_ids or () if one not in broken]:
        raise ValidationFailed.of("id", Text(en=f"{unknown} breaks no rule", id=f"{unknown} tidak melanggar aturan"))
    chosen = [one for one in found if object_ids is None or one.id in object_ids]
    async with runtime.transaction() as tx:
        count = await audits.accept(tx, chosen, reason=reason.strip(), operator_id=operator_id)
        after = {"violations": count, "reason": reason.strip()}
        await operators.audit(tx, operator_id, "violations.accepted", "audit_rule", rule.name, after=after)
    return count
