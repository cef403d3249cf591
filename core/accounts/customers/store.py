"""Read, lock and write customers."""

import datetime as dt
from collections.abc import Sequence

import attrs

from core.accounts.customers.rules import Identity, IdentityKind
from core.accounts.customers.tables import Customer as Customers
from core.base.field_types import CustomerId
from core.base.id_ranges import EPOCH
from core.storage import locks, sql_files
from core.storage.fragments import ACCOUNT, NAME
from core.storage.locks import AdvisoryLock
from core.storage.records import as_dict
from core.storage.statements import columns_of, insert, names_of, p, statement
from core.storage.transaction import Reader, Tx


@attrs.frozen(kw_only=True)
class Customer:
    """A row of customers."""

    id: CustomerId
    phone: str | None
    display_name: str | None
    is_anonymous: bool
    email: str | None
    identity_a_sub: str | None
    identity_b_sub: str | None
    push_token: str | None
    account_belongs_to: CustomerId | None
    usp_seen: bool
    created_at: dt.datetime


ALL = columns_of(Customers, Customer)
GET = statement(Customers.select(*ALL).where(Customers.id == p.id), Customer)
LOCK = statement(Customers.select(Customers.id).where(Customers.id == p.id).lock_rows("NO KEY UPDATE"))
LOCK_ANONYMOUS = statement(
    Customers.select(Customers.id)
    .where(Customers.id == p.id, Customers.is_anonymous.eq(True), Customers.account_belongs_to.is_null())
    .lock_rows("NO KEY UPDATE")
)
CREATE_ANONYMOUS = statement(insert(Customers, "id created_at", is_anonymous=True).returning(*ALL), Customer)
SET_EMAIL = statement(Customers.update(email=p.email).where(Customers.id == p.id).returning(*ALL), Customer)
SET_USP_SEEN = statement(Customers.update(usp_seen=True).where(Customers.id == p.id, Customers.usp_seen.eq(False)))
SET_PUSH_TOKEN = statement(Customers.update(push_token=p.push_token).where(Customers.id == p.id))
SET_DISPLAY_NAME = statement(
    Customers.update(display_name=p.name).where(Customers.id == p.id, Customers.erased_at.is_null()).returning(*ALL),
    Customer,
)
# The statements about an identity, by its kind: the kind is the name of the column.
BY_IDENTITY = {
    kind: statement(
        Customers.select(*ALL).where(getattr(Customers, kind.value) == p.value).lock_rows("NO KEY UPDATE"),
        Customer,
    )
    for kind in IdentityKind
}
WITH_IDENTITY = {
    kind: statement(Customers.select(Customers.id).where(getattr(Customers, kind.value) == p.value))
    for kind in IdentityKind
}
CREATE_KNOWN = {
    kind: statement(
        insert(Customers, "id email created_at", is_anonymous=False, **{kind.value: p.value}).returning(*ALL),
        Customer,
    )
    for kind in IdentityKind
}
UPGRADE = {
    kind: f"""
      UPDATE customers
      SET is_anonymous = false, {kind.value} = $2, email = coalesce($3, email)
      WHERE id = $1 AND is_anonymous
      RETURNING {names_of(Customer)}
    """
    for kind in IdentityKind
}

# The e-mail of an identity goes with it: which one it came from is not stored, and a sign-in with the other brings its
# own.
LINK = {
    kind: f"""
      UPDATE customers
      SET
        {kind.value} = $2,
        email = coalesce($3, CASE WHEN {kind is IdentityKind.PHONE} OR coalesce({kind.value}, $2) = $2 THEN email END)
      WHERE id = $1 AND NOT is_anonymous AND erased_at IS NULL
      RETURNING {names_of(Customer)}
    """
    for kind in IdentityKind
}
# Of several unlinks at once, the last method stays.
UNLINK = {
    kind: f"""
      UPDATE customers
      SET {kind.value} = NULL, email = NULL
      WHERE id = $1 AND coalesce(phone, {other.value}) IS NOT NULL
    """
    for kind, other in (
        (IdentityKind.IDENTITY_A, IdentityKind.IDENTITY_B),
        (IdentityKind.IDENTITY_B, IdentityKind.IDENTITY_A),
    )
}

SQL = sql_files.load(__file__)
Place = tuple[dt.datetime, str]  # when a customer was made, and the id
FIRST: Place = (EPOCH, "00000000-0000-0000-0000-000000000000")
NAME_OF = f"""
  SELECT {NAME}
  FROM customers c
  {ACCOUNT}
  WHERE c.id = $1
"""
# Anonymous rows that may join one account in a day: people sign in a few times a day, testers some dozens of times.
JOINS_A_DAY = 50
# When the account ($1) may be joined again; no row if it may be joined now.
MAY_JOIN_AT = f"""
  SELECT joined_real_at + interval '1 day'
  FROM (
    SELECT joined_real_at
    FROM customers
    WHERE account_belongs_to = $1
    ORDER BY joined_real_at DESC NULLS LAST
    LIMIT 1
    OFFSET {JOINS_A_DAY - 1}
  ) AS earliest
  WHERE joined_real_at > clock_timestamp() - interval '1 day'
"""
NEWEST = 20  # joined rows of an account that are among the caller's ids without a payment
# The caller's ids without the account's own: for each account in $1 the anonymous rows that joined it last, and every
# one with a payment that is pending or was paid. Anonymous rows are free to make, so taking all would have no bound.
# The search for payments reads every joined row, which JOINS_A_DAY bounds.
JOINED_IDS = f"""
  SELECT o.owner::text, ids.id::text
  FROM unnest($1::uuid[]) AS o(owner)
  CROSS JOIN LATERAL (
    (
      SELECT id
      FROM customers
      WHERE account_belongs_to = o.owner
      ORDER BY joined_real_at DESC NULLS LAST
      LIMIT {NEWEST}
    )
    UNION
    (
      SELECT c.id
      FROM customers c
      WHERE c.account_belongs_to = o.owner AND EXISTS (
        SELECT 1
        FROM payment_requests p
        WHERE p.customer_id = c.id AND p.status NOT IN ('abandoned', 'expired')
      )
    )
  ) AS ids
  ORDER BY ids.id
"""


async def get(reader: Reader, customer_id: str) -> Customer | None:
    """Read a customer."""
    return await GET.first(reader, id=customer_id)


async def is_newcomer(reader: Reader, customer_id: str) -> bool:
    """Return whether a customer is anonymous and has never paid: such accounts cost an attacker nothing."""
    return await reader.fetchval(SQL["is_newcomer"], customer_id)


async def name_of(reader: Reader, customer_id: str) -> str | None:
    """Return the name that mitras see: the account's if the customer has joined one. None without a name."""
    return await reader.fetchval(NAME_OF, customer_id)


async def create_anonymous(tx: Tx, customer_id: str) -> Customer:
    """Insert an anonymous customer."""
    return await CREATE_ANONYMOUS.one(tx, id=customer_id, created_at=tx.now)


async def hold_identity(tx: Tx, identity: Identity) -> None:
    """Lock an identity until the commit, so that sign-ins with it run one at a time."""
    await locks.hold(tx, AdvisoryLock.IDENTITY, f"{identity.kind.value} {identity.value}")


async def hold_methods(tx: Tx, customer_id: str) -> None:
    """Lock a customer's ways to sign in until the commit, so that they are linked one at a time.

    This comes before `hold_identity`.
    """
    await locks.hold(tx, AdvisoryLock.IDENTITY, f"customer {customer_id}")


async def by_identity(tx: Tx, identity: Identity) -> Customer | None:
    """Read and lock the customer who has an identity."""
    return await BY_IDENTITY[identity.kind].first(tx, value=identity.value)


async def with_identity(tx: Tx, identity: Identity) -> str | None:
    """Return the id of the customer who has an identity, or None, without a lock."""
    found = await WITH_IDENTITY[identity.kind].value(tx, value=identity.value)
    return None if found is None else str(found)


async def with_phone(tx: Tx, phone: str) -> str | None:
    """Return the id of the customer who has a phone number, or None."""
    return await with_identity(tx, Identity(kind=IdentityKind.PHONE, value=phone))


async def lock_anonymous(tx: Tx, customer_id: str) -> bool:
    """Lock an anonymous customer who has not joined an account yet; return False if the row is not one."""
    return await LOCK_ANONYMOUS.value(tx, id=customer_id) is not None


async def create_known(tx: Tx, customer_id: str, identity: Identity) -> Customer:
    """Insert a customer with an identity and no name."""
    return await CREATE_KNOWN[identity.kind].one(
        tx, id=customer_id, value=identity.value, email=identity.email, created_at=tx.now
    )


async def upgrade(tx: Tx, customer_id: str, identity: Identity) -> Customer:
    """Give an anonymous customer an identity."""
    row = await tx.fetchrow(UPGRADE[identity.kind], customer_id, identity.value, identity.email)
    return Customer(**as_dict(row))


async def link(tx: Tx, customer_id: str, identity: Identity) -> Customer | None:
    """Give a verified customer an identity, or another one of its kind; None if they were erased since."""
    row = await tx.fetchrow(LINK[identity.kind], customer_id, identity.value, identity.email)
    return None if row is None else Customer(**as_dict(row))


async def unlink(tx: Tx, customer_id: str, kind: IdentityKind) -> bool:
    """Remove a customer's identity and their e-mail. Return False if it is the only way to sign in.

    The caller must hold the customer's lock.
    """
    return bool(await tx.execute(UNLINK[kind], customer_id))


async def may_join_at(tx: Tx, account_id: str) -> dt.datetime | None:
    """Return the real time at which another row may join an account that has had JOINS_A_DAY; None if one may now.

    The caller has locked the account (by_identity), so the count is exact.
    """
    return await tx.fetchval(MAY_JOIN_AT, account_id)


async def join(tx: Tx, anonymous_id: str, *, account_id: str) -> None:
    """Point an anonymous row to the account that it joins; its data stays with the row."""
    await tx.execute(SQL["join"], anonymous_id, account_id)


async def set_email(tx: Tx, customer_id: str, email: str) -> Customer:
    """Store a customer's newest verified e-mail address."""
    return await SET_EMAIL.one(tx, id=customer_id, email=email)


async def set_usp_seen(tx: Tx, customer_id: str) -> None:
    """Record that a customer has seen the introduction."""
    await SET_USP_SEEN.execute(tx, id=customer_id)


async def set_display_name(tx: Tx, customer_id: str, name: str) -> Customer | None:
    """Set the name that mitras see."""
    return await SET_DISPLAY_NAME.first(tx, id=customer_id, name=name)


async def ids_of(reader: Reader, customer_id: str) -> tuple[str, ...]:
    """Return the caller's ids: the customer's own first, then those of the rows that joined them (JOINED_IDS)."""
    return (await ids_of_all(reader, [customer_id])).get(customer_id, (customer_id,))


async def ids_of_all(reader: Reader, customer_ids: list[str]) -> dict[str, tuple[str, ...]]:
    """Return customer -> the caller's ids (own id, then JOINED_IDS) for the customers who have more than their own."""
    rows = await reader.fetch(JOINED_IDS, customer_ids)
    found: dict[str, tuple[str, ...]] = {}
    for row in rows:
        found[row["owner"]] = (*found.get(row["owner"], (row["owner"],)), row["id"])
    return found


async def set_push_token(tx: Tx, customer_id: str, push_token: str | None) -> None:
    """Set the push token of a customer's newest device; None if no device has one."""
    await SET_PUSH_TOKEN.execute(tx, id=customer_id, push_token=push_token)


async def lock(tx: Tx, customer_id: str) -> None:
    """Lock a customer's row.

    FOR NO KEY UPDATE: inserting a session takes a key-share lock on this row through its foreign key. With FOR UPDATE,
    a flow that has locked a payment could wait for us here while we wait for that payment.
    """
    await LOCK.execute(tx, id=customer_id)


async def lock_account(tx: Tx, customer_id: str) -> tuple[str, ...]:
    """Lock the account of a customer, so that its payments run one at a time (docs/architecture.md#lock-order).

    Return the account's ids, the given one included.
    """
    root, held = customer_id, None
    while root != held:
        held = root
        await lock(tx, held)
        # The row may have joined an account while we waited for the lock.
        root = await tx.fetchval(SQL["root"], held)
    ids = await ids_of(tx, root)
    return ids if customer_id in ids else (*ids, customer_id)


async def anonymous(reader: Reader, *, before: dt.datetime, after: Place = FIRST, limit: int) -> list[Place]:
    """Return anonymous customers from before a time who have joined no account, the oldest first. Most have paid."""
    rows = await reader.fetch(SQL["anonymous"], *after, before, limit)
    return [(row["created_at"], row["id"]) for row in rows]


async def lock_unused(tx: Tx, customer_ids: Sequence[str], *, auth_session_ids: Sequence[str]) -> list[str]:
    """Lock customers who have no rows but the given auth sessions; skip locked ones. Return their ids.

    A transaction may have stored a payment just before the lock, so check again.
    """
    return [row["id"] for row in await tx.fetch(SQL["lock_unused"], customer_ids, auth_session_ids)]


async def remove(tx: Tx, customer_ids: Sequence[str]) -> int:
    """Delete customers; return how many."""
    return await tx.execute(SQL["remove"], customer_ids)
