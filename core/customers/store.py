"""Writes and locking reads of customers."""

import datetime as dt

import attrs

from core.storage.database import Tx
from core.storage.reads import Reader
from core.storage.records import one

COLUMNS = """id, phone, display_name, is_anonymous, email, push_token, account_belongs_to, usp_seen, created_at"""


@attrs.frozen(kw_only=True)
class Customer:
    """A row of customers."""

    id: str
    phone: str | None
    display_name: str | None
    is_anonymous: bool
    email: str | None
    push_token: str | None
    account_belongs_to: str | None
    usp_seen: bool
    created_at: dt.datetime


async def get(reader: Reader, customer_id: str) -> Customer | None:
    """Read a customer."""
    return one(Customer, await reader.fetchrow(f"SELECT {COLUMNS} FROM customers WHERE id = $1", customer_id))


async def create_anonymous(tx: Tx, customer_id: str) -> Customer:
    """Insert an anonymous customer."""
    row = await tx.fetchrow(
        f"INSERT INTO customers (id, is_anonymous, created_at) VALUES ($1, true, $2) RETURNING {COLUMNS}",
        customer_id, tx.now,
    )  # fmt: skip
    return Customer(**{**dict(row), "id": str(row["id"])})


async def set_display_name(tx: Tx, customer_id: str, name: str) -> Customer | None:
    """Set the name that mitras see."""
    return one(
        Customer,
        await tx.fetchrow(
            f"UPDATE customers SET display_name = $2 WHERE id = $1 RETURNING {COLUMNS}", customer_id, name
        ),
    )


async def ids_of(reader: Reader, customer_id: str) -> tuple[str, ...]:
    """Return the caller's ids: the customer's own first, then those of anonymous rows merged into it (contract 3)."""
    rows = await reader.fetch("SELECT id FROM customers WHERE account_belongs_to = $1 ORDER BY id", customer_id)
    return (customer_id, *(str(row["id"]) for row in rows))


async def lock_account(tx: Tx, customer_id: str) -> tuple[str, ...]:
    """Lock the account that a customer's rows belong to, so that its payments happen one after the other.

    Returns all ids of that account.
    """
    root = await tx.fetchval("SELECT coalesce(account_belongs_to, id)::text FROM customers WHERE id = $1", customer_id)
    # NO KEY: a flow that holds a payment and inserts its session (a foreign key to this row) must not wait for us, who
    # may wait for that payment.
    await tx.fetchrow("SELECT 1 FROM customers WHERE id = $1 FOR NO KEY UPDATE", root)
    return await ids_of(tx, root)
