"""Give sessions the time back that an outage took (docs/fairness.md#fair-clock).

The process that comes back first records the outage, in the transaction that begins its lease. From then on the clock
of sessions stands (core/sessions/clock/session_clock.py) until this flow has committed the credits. It goes on wherever
a process that died has stopped: a session has one credit for an outage.
"""

import datetime as dt

from core.base.errors import Unavailable
from core.cluster.outages import store as outages
from core.cluster.outages.rules import Outage
from core.runtime.container import Runtime
from core.sessions.clock import store as session_credits
from core.sessions.clock import time_credits
from core.sessions.rules import CreditReason
from core.telemetry import logs

BATCH = 200  # sessions in a transaction
# Real seconds after the first credits. By then every transaction has ended that began before the outage and waited, and
# that may have paired or extended a session.
AGAIN_S = 10.0
log = logs.get("fair_clock")


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
        batch = found[start : start + BATCH]
        try:
            given += await _give(runtime, outage, batch, most)
        except Unavailable:
            raise
        except Exception:  # one bad session must not stop the clock of all others
            log.exception("crediting a batch failed", outage_id=outage.id)
            for session_id in batch:
                given += await _give_one(runtime, outage, session_id, most)
    return given


async def _give(runtime: Runtime, outage: Outage, session_ids: list[str], most: dt.timedelta) -> int:
    async with runtime.transaction() as tx:
        given = await time_credits.give(
            tx,
            session_ids,
            reason=CreditReason(outage.kind),
            began_at=outage.began_at,
            ended_at=outage.ended_at,
            most=most,
            outage_id=outage.id,
        )
    return len(given)


async def _give_one(runtime: Runtime, outage: Outage, session_id: str, most: dt.timedelta) -> int:
    """Credit one session. If that fails, the second look at the outage tries again."""
    try:
        return await _give(runtime, outage, [session_id], most)
    except Unavailable:
        raise
    except Exception:
        log.exception("crediting a session failed", outage_id=outage.id, session_id=session_id)
        return 0
