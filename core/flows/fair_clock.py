"""Give sessions the time back that an outage took (docs/fairness.md#fair-clock).

The process that comes back first records the outage, in the transaction that begins its lease. From then on the clock of
sessions stands (core/steps/session_clock.py) until this flow has committed the credits. It goes on wherever a process
that died has stopped: a session has one credit for an outage.
"""

import datetime as dt

from core.outages import store as outages
from core.outages.rules import Outage
from core.runtime import Runtime
from core.sessions import time_credits as session_credits
from core.sessions.rules import CreditReason
from core.steps import time_credits

BATCH = 200  # sessions in a transaction
# Real seconds after the first credits. By then every transaction has ended that began before the outage and waited, and
# that may have paired or extended a session.
AGAIN_S = 10.0


async def credit(runtime: Runtime) -> int:
    """Credit the sessions with the due outages, in the order in which those began; return how many credits it gave.

    If `fair_clock` has been turned off, there are no credits for outages that still wait for them.
    """
    if not runtime.config.flag("fair_clock"):
        async with runtime.transaction() as tx:
            await outages.drop_credits(tx)
        return 0
    again_after = dt.timedelta(seconds=AGAIN_S * runtime.clock.scale)
    given = 0
    for outage in await outages.due_credits(runtime.db, now=runtime.now()):
        given += await _credit(runtime, outage)
        async with runtime.transaction() as tx:
            await outages.credited(tx, outage.id, again_after=again_after)
    return given


async def _credit(runtime: Runtime, outage: Outage) -> int:
    most = runtime.config.seconds("fair_clock_max_seconds")
    found = await session_credits.losing(runtime.db, outage.id, began_at=outage.began_at, ended_at=outage.ended_at)
    given = 0
    for start in range(0, len(found), BATCH):
        async with runtime.transaction() as tx:
            given += len(
                await time_credits.give(
                    tx,
                    found[start : start + BATCH],
                    reason=CreditReason(outage.kind),
                    began_at=outage.began_at,
                    ended_at=outage.ended_at,
                    most=most,
                    outage_id=outage.id,
                )
            )
    return given
