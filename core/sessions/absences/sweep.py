"""Sweeps: declare silent parties of active sessions absent, and end absences (docs/fairness.md#absent-party)."""

from collections.abc import Awaitable

from core.base.id_ranges import first_id
from core.runtime.container import Runtime
from core.sessions.absences import declare, store
from core.storage.transaction import Tx


async def sweep(runtime: Runtime) -> None:
    """Sweep: end the absences of parties who have returned and of sessions that are over, then declare new ones.

    With `peer_absent_seconds` 0 it ends those that are open, and writes nothing if there are none.
    """
    if await store.any_open(runtime.db):
        async with runtime.transaction() as tx:
            await store.end_with_sessions(tx, limit=declare.AT_ONCE)
        while await _end_returned(runtime) >= declare.AT_ONCE:
            continue
    after = runtime.config.seconds("peer_absent_seconds")
    while after:
        async with runtime.transaction() as tx:
            if await declare.declare(runtime, tx, after=after) < declare.AT_ONCE:
                return


async def _end_returned(runtime: Runtime) -> int:
    async with runtime.transaction() as tx:
        return await declare.end_returned(runtime, tx)


async def purge(runtime: Runtime) -> None:
    """Sweep: delete the signs of life of sessions that are over, and old absences."""

    def old(tx: Tx) -> Awaitable[int]:
        return store.purge(tx, end_id=first_id(runtime.clock.real_time(tx.now - store.KEEP)))

    for remove in (store.purge_presence, old):
        while True:
            async with runtime.transaction() as tx:
                gone = await remove(tx)
            if gone < store.AT_ONCE:
                break
