"""Audit the ledger: the rules about open work every minute, all rules every night (docs/operating.md#audits).

A rule of the nightly audit that is broken is also checked every hour, so that the alarm ends after the repair.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from core.base.clock import monotonic, real_sleep
from core.base.errors import Unavailable
from core.desk.audits import run as ledger_audits
from core.desk.audits.rules import RENEW_EVERY_S, STORE_EVERY_S, Depth, RuleResult
from core.desk.audits.run import ClaimLost, rules_to_check
from core.desk.ledger.audit import RulesTooSlow, results
from core.desk.ledger.audit_rules import RULES
from core.runtime.container import Runtime
from core.telemetry import logs

# Real seconds. An audit that begins right after a start or an outage would report work that is being made up for.
BEGIN_AFTER_S = 10.0
LOOK_EVERY_S = 5.0
RELEASE_S = 1.0

log = logs.get("audit")


class LedgerAudits:
    """Runs the audits that are due, as long as no other process does."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._is_ended = False
        self._prepared: set[Depth] = set()

    async def run(self) -> None:
        """Look for due audits until cancelled."""
        async with asyncio.TaskGroup() as group:
            for depth in Depth:
                group.create_task(self._run(depth))

    async def _run(self, depth: Depth) -> None:
        pause = BEGIN_AFTER_S
        while True:
            await real_sleep(pause)
            pause = LOOK_EVERY_S
            if not self._is_ended and not await self._try(depth):
                pause = BEGIN_AFTER_S

    async def end(self) -> None:
        """Release the claims because the process stops. Without the database they expire."""
        self._is_ended = True
        with contextlib.suppress(Unavailable, TimeoutError):
            async with asyncio.timeout(RELEASE_S):
                await ledger_audits.release(self._runtime, *Depth)

    async def _try(self, depth: Depth) -> bool:
        """Run an audit if it is due. If it fails, it is due again later. Return False if the database was away."""
        try:
            if depth not in self._prepared:
                await ledger_audits.prepare(self._runtime, depth)
                self._prepared.add(depth)
            if await ledger_audits.claim(self._runtime, depth):
                try:
                    await audit(self._runtime, depth)
                except Exception:
                    await ledger_audits.postpone(self._runtime, depth)
                    raise
        except Unavailable:
            log.warning("an audit did not finish; it will be repeated", depth=depth, error="Unavailable")
            return False
        except (ClaimLost, RulesTooSlow) as error:
            name = type(error).__name__
            log.warning("an audit did not finish; it will be repeated", depth=depth, error=name, rules=str(error))
        except Exception:
            log.exception("an audit failed", depth=depth)
        return True


async def audit(runtime: Runtime, depth: Depth, *, renew_every_s: float = RENEW_EVERY_S) -> None:
    """Run an audit that this process has claimed, and store its results.

    Raises ClaimLost, Unavailable, RulesTooSlow.
    """
    gathered = _Gathered(runtime, depth)
    async with _claim_renewed(runtime, depth, every_s=renew_every_s):
        try:
            async for result in results(runtime, await rules_to_check(runtime, depth)):
                if result.violations:
                    log.error("rows break a rule", rule=result.rule, violations=result.violations, ids=result.first_ids)
                await gathered.add(result)
        except RulesTooSlow:
            await gathered.store()
            raise
        await gathered.store()
        await ledger_audits.finish(runtime, depth, every_rule=[rule.name for rule in RULES])


@contextlib.asynccontextmanager
async def _claim_renewed(runtime: Runtime, depth: Depth, *, every_s: float) -> AsyncIterator[None]:
    """Renew the claim in the background: one rule may take longer than a claim."""

    async def renew() -> None:
        while True:
            await real_sleep(every_s)
            with contextlib.suppress(Unavailable):
                await ledger_audits.renew(runtime, depth)

    renewing = asyncio.create_task(renew())
    try:
        yield
    finally:
        renewing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await renewing


class _Gathered:
    """Results that are stored together, because each commit costs a write to disk."""

    def __init__(self, runtime: Runtime, depth: Depth) -> None:
        self._runtime = runtime
        self._depth = depth
        self._results: list[RuleResult] = []
        self._stored_at = monotonic()

    async def add(self, result: RuleResult) -> None:
        """Add a result, and store all of them if the last time is STORE_EVERY_S ago. Raises ClaimLost, Unavailable."""
        self._results.append(result)
        if monotonic() >= self._stored_at + STORE_EVERY_S:
            await self.store()

    async def store(self) -> None:
        """Store the results. Raises ClaimLost, Unavailable."""
        results, self._results = self._results, []
        if results:
            await ledger_audits.keep(self._runtime, self._depth, results)
        self._stored_at = monotonic()
