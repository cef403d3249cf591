"""Claim an audit of the ledger, store its results and finish it; say which rules are broken (docs/operating.md#audits).

One process of the cluster runs an audit at a time. It claims the audit for CLAIM_S, and renews the claim while rules
run. If it dies, its claim ends and another process begins the audit again; results that it has stored stay. After a
failure it keeps the claim for RETRY_S, so that no process repeats the audit at once.
"""

from collections.abc import Sequence

import attrs

from core.cluster.leases import store as leases
from core.desk.audits import rules
from core.desk.audits import store as audits
from core.desk.audits.rules import BROKEN_EVERY, CLAIM_S, RETRY_S, BrokenRule, Depth, RuleResult, lease_of
from core.desk.ledger.audit_rules import RULES, Rule, rules_of
from core.runtime.container import Runtime


class ClaimLost(Exception):
    """Another process may run the audit: this one must stop, and store nothing."""


async def prepare(runtime: Runtime, depth: Depth) -> None:
    """Make the row with the claim of an audit, once for each process. Raises Unavailable."""
    await leases.ensure(runtime.db, lease_of(depth))


async def claim(runtime: Runtime, depth: Depth) -> bool:
    """Claim an audit if it is due and no other process has claimed it; return whether it was. Raises Unavailable."""
    due = rules.due_since(depth, runtime.clock.real_now())
    return await leases.claim_due(runtime.db, lease_of(depth), node=runtime.node, length_s=CLAIM_S, done_before=due)


async def renew(runtime: Runtime, depth: Depth) -> None:
    """Renew the claim, unless this process has lost it. Raises Unavailable."""
    await leases.renew(runtime.db, lease_of(depth), node=runtime.node, length_s=CLAIM_S)


async def keep(runtime: Runtime, depth: Depth, results: Sequence[RuleResult]) -> None:
    """Store the results of rules and renew the claim. Raises ClaimLost, Unavailable."""
    async with runtime.transaction() as tx:
        if not await leases.renew(tx, lease_of(depth), node=runtime.node, length_s=CLAIM_S):
            raise ClaimLost
        await audits.keep(tx, results, depth=depth)


async def finish(runtime: Runtime, depth: Depth, *, every_rule: Sequence[str]) -> None:
    """Record that an audit has finished. A full one deletes the results of other rules than `every_rule`.

    Raises ClaimLost, Unavailable.
    """
    async with runtime.transaction() as tx:
        if not await leases.finish(tx, lease_of(depth), node=runtime.node):
            raise ClaimLost
        if depth is Depth.FULL:
            await audits.forget_others(tx, rules=every_rule)


async def postpone(runtime: Runtime, depth: Depth) -> None:
    """Keep the claim of an audit that has failed until it may be repeated. Raises Unavailable."""
    await leases.renew(runtime.db, lease_of(depth), node=runtime.node, length_s=RETRY_S[depth])


async def release(runtime: Runtime, *depths: Depth) -> None:
    """End this process's claims of audits that it did not finish: they are due for another one. Raises Unavailable."""
    await leases.release(runtime.db, [lease_of(depth) for depth in depths], node=runtime.node)


@attrs.frozen(kw_only=True)
class BrokenRules:
    """Every rule with violations, those broken for longest first."""

    items: list[BrokenRule]


async def broken_rules(runtime: Runtime) -> BrokenRules:
    """Return the rules that rows break, as the last audits found them."""
    return BrokenRules(items=await audits.broken(runtime.db))


async def rules_to_check(runtime: Runtime, depth: Depth) -> tuple[Rule, ...]:
    """Return the rules of an audit, and those of the full audit that are broken and were not checked for BROKEN_EVERY.

    Raises Unavailable.
    """
    found = rules_of(depth)
    checked_before = runtime.now() - BROKEN_EVERY
    again = {one.rule for one in await audits.broken(runtime.db) if one.checked_at < checked_before}
    return (*found, *(rule for rule in RULES if rule.name in again and rule not in found))
