"""Read and erase what payment requests say of their customers (docs/privacy.md#erasure)."""

from collections.abc import Sequence

from core.payments.pricing import store as pricing
from core.payments.store import PaymentRequest
from core.storage import sql_files
from core.storage.records import many
from core.storage.statements import names_of
from core.storage.transaction import Reader, Tx

SQL = sql_files.load(__file__)
LOCK_PENDING = f"""SELECT {names_of(PaymentRequest)}
FROM payment_requests
WHERE customer_id = ANY($1::uuid[]) AND status = 'pending'
ORDER BY id
FOR UPDATE"""


async def lock_pending(tx: Tx, customer_ids: Sequence[str]) -> list[PaymentRequest]:
    """Lock and return the pending requests of customers, also those for an extension."""
    return many(PaymentRequest, await tx.fetch(LOCK_PENDING, customer_ids))


async def had_discount(reader: Reader, customer_ids: Sequence[str]) -> bool:
    """Return whether one of these customers has ever paid for a first-session discount."""
    return await reader.fetchval(SQL["had_discount"], customer_ids)


async def has_used_first_session(reader: Reader, customer_ids: Sequence[str]) -> bool:
    """Return whether these customers of one account have used up the first-session discount, by it or by a session."""
    past = await pricing.past_of(reader, list(customer_ids), but_pending=True)
    return past.ever_paired or await had_discount(reader, customer_ids)


async def external_ids(reader: Reader, customer_ids: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the ids by which the gateway names the requests of customers: (requests and failures, invoices)."""
    rows = await reader.fetch(SQL["external_ids"], customer_ids)
    return [row["id"] for row in rows], [row["invoice"] for row in rows if row["invoice"] is not None]
