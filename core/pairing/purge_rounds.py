"""Delete the rounds of searches whose retention has ended (docs/operating.md#retention)."""

from core.base.id_ranges import first_id
from core.pairing import rounds
from core.runtime.container import Runtime


async def purge(runtime: Runtime) -> None:
    """Sweep: delete the rounds of old searches."""
    while True:
        async with runtime.transaction() as tx:
            gone = await rounds.purge(tx, end_id=first_id(runtime.clock.real_time(tx.now - rounds.KEEP)))
        if gone < rounds.AT_ONCE:
            return
