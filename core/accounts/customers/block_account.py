"""Block a customer's account, as operators do, and refuse what a blocked one may not do
(docs/product.md#blocked-accounts).

The block is a part of the account's row, so the lock of the account orders it with requests. It ends by its time
without any work. The callers of the functions that write have locked the account.
"""

import datetime as dt
from collections.abc import Sequence

import attrs

from core.accounts.customers.rules import AccountBlocked
from core.accounts.customers.tables import Customer as Customers
from core.base.clock import as_text
from core.storage import sql_files
from core.storage.records import as_dict
from core.storage.statements import p, statement
from core.storage.transaction import Reader, Tx

SQL = sql_files.load(__file__)
BLOCK = statement(
    Customers.update(blocked_at=p.now, blocked_until=p.until, block_reason=p.reason).where(Customers.id == p.id)
)
UNBLOCK = statement(
    Customers.update(blocked_at=None, blocked_until=None, block_reason=None).where(Customers.id == p.id)
)


@attrs.frozen(kw_only=True)
class AccountBlock:
    """A block of an account by an operator: since when, until when, and why. Without `until` an operator lifts it."""

    blocked_at: dt.datetime
    until: dt.datetime | None
    reason: str | None


async def block(tx: Tx, account_id: str, *, until: dt.datetime | None, reason: str) -> None:
    """Block an account from now on, in place of an earlier block."""
    await BLOCK.execute(tx, id=account_id, now=tx.now, until=until, reason=reason)


async def unblock(tx: Tx, account_id: str) -> None:
    """Lift the block of an account."""
    await UNBLOCK.execute(tx, id=account_id)


async def carry(tx: Tx, customer_id: str, *, account_id: str) -> None:
    """Give the block of a customer to the account that they join, unless its own block ends later."""
    await tx.execute(SQL["carry"], customer_id, account_id, tx.now)


async def of_all(reader: Reader, customer_ids: Sequence[str], *, now: dt.datetime) -> dict[str, AccountBlock]:
    """Return customer -> the block of their account, for those whose account is blocked now."""
    rows = [as_dict(row) for row in await reader.fetch(SQL["of_all"], customer_ids, now)]
    return {row.pop("id"): AccountBlock(**row) for row in rows}


async def check(tx: Tx, customer_id: str) -> None:
    """Check that the account of a customer is not blocked. Raises AccountBlocked."""
    found = (await of_all(tx, [customer_id], now=tx.now)).get(customer_id)
    if found is not None:
        raise AccountBlocked(details={"until": None if found.until is None else as_text(found.until)})
