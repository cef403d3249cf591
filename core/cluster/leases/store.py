"""Leases of work that one process of the cluster does at a time.

A lease is a row with a holder and an end, by the database's clock. Each change is one guarded statement, which works
through a connection pooler, too. A holder that dies loses its lease at the end; another process then takes it.
"""

import datetime as dt
from collections.abc import Sequence

from core.storage import sql_files
from core.storage.transaction import Reader

SQL = sql_files.load(__file__)


async def ensure(reader: Reader, lease: str) -> bool:
    """Insert the row of a lease unless there is one; return whether it was inserted."""
    return bool(await reader.fetch(SQL["ensure"], lease))


async def hold(reader: Reader, lease: str, *, node: str, length_s: float) -> bool:
    """Take a lease that is free, or renew the node's own one; return whether the node has it now."""
    return bool(await reader.fetch(SQL["hold"], lease, node, dt.timedelta(seconds=length_s)))


async def claim_due(reader: Reader, lease: str, *, node: str, length_s: float, done_before: dt.datetime) -> bool:
    """Take a free lease whose work was last finished before a moment of real time, or never; return whether it was."""
    return bool(await reader.fetch(SQL["claim_due"], lease, node, dt.timedelta(seconds=length_s), done_before))


async def renew(reader: Reader, lease: str, *, node: str, length_s: float) -> bool:
    """Renew the node's lease; return False if it has ended."""
    return bool(await reader.fetch(SQL["renew"], lease, node, dt.timedelta(seconds=length_s)))


async def finish(reader: Reader, lease: str, *, node: str) -> bool:
    """Record that the work is finished and end the node's lease; return False if it had ended before."""
    return bool(await reader.fetch(SQL["finish"], lease, node))


async def release(reader: Reader, leases: Sequence[str], *, node: str) -> None:
    """End the node's leases, if it has them."""
    await reader.fetch(SQL["release"], leases, node)


async def finished(reader: Reader, leases: Sequence[str]) -> dict[str, dt.datetime]:
    """Return when the work of each lease was last finished, in real time; without those that never were."""
    return {row["name"]: row["done_real_at"] for row in await reader.fetch(SQL["finished"], leases)}
