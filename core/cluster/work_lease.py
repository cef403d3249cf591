"""Take, renew and release the lease of work that one process of the cluster does at a time, without an end."""

import contextlib

from core.base.errors import Unavailable
from core.cluster.leases import store as leases
from core.runtime.container import Runtime


async def hold(runtime: Runtime, lease: str, *, length_s: float) -> bool:
    """Take a free lease or renew this process's own one; return whether this process has it now.

    `length_s` are real seconds. Raises Unavailable.
    """
    if await leases.hold(runtime.db, lease, node=runtime.node, length_s=length_s):
        return True
    if not await leases.ensure(runtime.db, lease):
        return False
    return await leases.hold(runtime.db, lease, node=runtime.node, length_s=length_s)


async def release(runtime: Runtime, *names: str) -> None:
    """End this process's leases. Without a database they end at their time: what they were held for is done."""
    with contextlib.suppress(Unavailable):
        await leases.release(runtime.db, names, node=runtime.node)
