"""Read and erase what sessions say of their parties (docs/privacy.md#erasure). core/sessions/messages/blank.py blanks
texts."""

import datetime as dt
from collections.abc import Sequence

from core.storage import sql_files
from core.storage.transaction import Reader, Tx

SQL = sql_files.load(__file__)


async def of_customers(reader: Reader, customer_ids: Sequence[str]) -> list[str]:
    """Return the ids of all sessions of customers."""
    return [row["id"] for row in await reader.fetch(SQL["of_customers"], customer_ids)]


async def with_texts(reader: Reader, customer_ids: Sequence[str], *, limit: int) -> list[str]:
    """Return the ids of some completed sessions of customers of which texts are left."""
    return [row["id"] for row in await reader.fetch(SQL["with_texts"], customer_ids, limit)]


async def any_unsettled(reader: Reader, customer_ids: Sequence[str], *, since: dt.datetime) -> bool:
    """Return whether a session of customers has not ended, or ended after `since`."""
    return await reader.fetchval(SQL["any_unsettled"], customer_ids, since)


async def forget_mitra_devices(tx: Tx, mitra_ids: Sequence[str]) -> None:
    """Forget which devices of mitras have messages without showing them. Customers' are marked in their table."""
    await tx.execute(SQL["forget_mitra_devices"], mitra_ids)
