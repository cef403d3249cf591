"""Delete idempotency keys whose answers are too old to be repeated (docs/protocol.md#idempotency)."""

from core.idempotency import store as keys
from core.runtime.container import Runtime


async def purge(runtime: Runtime) -> None:
    """Sweep: delete idempotency keys whose answers are too old to be repeated."""
    while True:
        async with runtime.transaction() as tx:
            gone = await keys.purge(tx)
        if gone < keys.AT_ONCE:
            return
