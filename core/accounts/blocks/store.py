"""Read and write blocks between a customer and a mitra.

Each statement about both sides asks the database function `blocked_mitras`, which knows that a customer's account
counts.
"""

import datetime as dt
from collections.abc import Sequence

import attrs

from core.accounts.blocks.tables import Block as Blocks
from core.base import ids
from core.base.actor import UserType
from core.base.field_types import SessionId
from core.storage import sql_files
from core.storage.statements import p, statement
from core.storage.transaction import Reader, Tx

SQL = sql_files.load(__file__)
OF_PAIR = (Blocks.customer_id == p.customer_id, Blocks.mitra_id == p.mitra_id, Blocks.blocked_by == p.blocked_by)
MADE = statement(Blocks.select(Blocks.session_id, Blocks.created_at).where(*OF_PAIR))
REMOVE = statement(Blocks.delete().where(*OF_PAIR))
REMOVE_OF = statement(Blocks.delete().where(Blocks.customer_id == p.customer_id))


@attrs.frozen(kw_only=True)
class Pair:
    """A customer's account and a mitra, as one of them blocks the other."""

    customer_id: str
    mitra_id: str
    blocked_by: UserType


async def add(tx: Tx, pair: Pair, *, session_id: str) -> bool:
    """Store a block. Return False if there was one. The caller has locked the account and the mitra."""
    args = (ids.new_id(), pair.customer_id, pair.mitra_id, pair.blocked_by.value, session_id, tx.now)
    return bool(await tx.execute(SQL["add"], *args))


async def made(reader: Reader, pair: Pair) -> tuple[SessionId, dt.datetime]:
    """Return the session and the time of a block that exists."""
    row = await MADE.one(reader, **_values(pair))
    return row["session_id"], row["created_at"]


async def remove(tx: Tx, pair: Pair) -> None:
    """Delete a block. Without one, nothing changes."""
    await REMOVE.execute(tx, **_values(pair))


async def are_blocked(reader: Reader, *, customer_id: str, mitra_id: str) -> bool:
    """Return whether a customer, or their account, and a mitra have a block of either side."""
    return await reader.fetchval(SQL["are_blocked"], customer_id, mitra_id)


async def of_customers(reader: Reader, customer_ids: Sequence[str]) -> dict[str, list[str]]:
    """Return customer -> the mitras who have a block with them, for those who have any."""
    return dict(await reader.fetch(SQL["of_customers"], customer_ids))


async def move(tx: Tx, customer_id: str, *, account_id: str) -> None:
    """Move the blocks of a customer to the account that they join. The caller has locked both."""
    await tx.execute(SQL["move"], customer_id, account_id, tx.now)
    await REMOVE_OF.execute(tx, customer_id=customer_id)


def _values(pair: Pair) -> dict[str, str]:
    return {**attrs.asdict(pair), "blocked_by": pair.blocked_by.value}
