"""Reads of payment requests, and writes that leave their status as it is."""

import datetime as dt
from collections.abc import Sequence

import attrs

from core.base.field_types import CustomerId, MitraId, Mode, PaymentRequestId, SessionId
from core.payments.rules import POLL_AFTER
from core.payments.states import PaymentStatus
from core.storage.database import Tx
from core.storage.reads import Reader
from core.storage.records import many, one

AT_ONCE = 500  # rows in one statement
COLUMNS = """id, customer_id, amount, duration_minutes, is_first_session_discount, is_extension, extends_session_id, mode,
  status, targeted_mitra_id, topics, created_at, confirmed_at, consumed_at, expires_at, gateway_invoice_id, gateway_invoice_url"""


@attrs.frozen(kw_only=True)
class PaymentRequest:
    """A row of payment_requests. `amount` is in Rupiah."""

    id: PaymentRequestId
    customer_id: CustomerId
    amount: int
    duration_minutes: int
    is_first_session_discount: bool
    is_extension: bool
    extends_session_id: SessionId | None
    mode: Mode
    status: PaymentStatus = attrs.field(converter=PaymentStatus)
    targeted_mitra_id: MitraId | None
    topics: list[str] | None
    created_at: dt.datetime
    confirmed_at: dt.datetime | None
    consumed_at: dt.datetime | None
    expires_at: dt.datetime
    gateway_invoice_id: str | None
    gateway_invoice_url: str | None


async def get(reader: Reader, payment_request_id: str) -> PaymentRequest | None:
    """Return a request; None for an unknown id."""
    return one(
        PaymentRequest,
        await reader.fetchrow(f"SELECT {COLUMNS} FROM payment_requests WHERE id = $1", payment_request_id),
    )


async def lock(tx: Tx, payment_request_id: str) -> PaymentRequest | None:
    """Lock a request and return it; None for an unknown id."""
    return one(
        PaymentRequest,
        await tx.fetchrow(f"SELECT {COLUMNS} FROM payment_requests WHERE id = $1 FOR UPDATE", payment_request_id),
    )


async def set_invoice(tx: Tx, payment_request_id: str, *, invoice_id: str, url: str | None) -> None:
    """Store the invoice that the gateway has just made, unless the request has another one, by which it was paid."""
    await tx.execute(
        """UPDATE payment_requests SET gateway_invoice_id = $2, gateway_invoice_url = $3, invoice_made_at = $4, poll_at = $5
           WHERE id = $1 AND (gateway_invoice_id IS NULL OR gateway_invoice_id = $2)""",
        payment_request_id, invoice_id, url, tx.now, tx.now + POLL_AFTER[0],
    )  # fmt: skip


async def claim_polls(tx: Tx, *, limit: int) -> list[PaymentRequest]:
    """Claim pending requests whose poll of the gateway is due, and set the time of their next poll.

    Each poll is claimed once. Several missed polls of a request count as one.
    """
    return many(
        PaymentRequest,
        await tx.fetch(
            f"""UPDATE payment_requests p SET poll_at = (
                  SELECT min(p.invoice_made_at + after) FROM unnest($2::interval[]) AS after WHERE p.invoice_made_at + after > $1)
                WHERE status = 'pending' AND id = ANY (ARRAY(
                  SELECT id FROM payment_requests WHERE status = 'pending' AND poll_at <= $1
                  ORDER BY poll_at LIMIT $3 FOR NO KEY UPDATE SKIP LOCKED))
                RETURNING {COLUMNS}""",
            tx.now, list(POLL_AFTER), limit,
        ),
    )  # fmt: skip


async def give_polls_back(tx: Tx, payment_request_ids: Sequence[str]) -> None:
    """Make claimed polls due again, because they were not carried out."""
    await tx.execute(
        "UPDATE payment_requests SET poll_at = $2 WHERE id = ANY($1) AND status = 'pending'",
        payment_request_ids,
        tx.now,
    )


async def due(
    reader: Reader, *, now: dt.datetime, limit: int, after: PaymentRequest | None = None
) -> list[PaymentRequest]:
    """Return pending requests past their deadline, the oldest first; with `after`, only those that follow it."""
    return many(
        PaymentRequest,
        await reader.fetch(
            f"""SELECT {COLUMNS} FROM payment_requests WHERE status = 'pending' AND expires_at <= $1
                  AND ($3::timestamptz IS NULL OR (expires_at, id) > ($3, $4::uuid))
                ORDER BY expires_at, id LIMIT $2""",
            now, limit, after and after.expires_at, after and after.id,
        ),
    )  # fmt: skip


async def untarget(tx: Tx, payment_request_id: str) -> None:
    """Remove the targeted mitra of a confirmed request, which becomes a blast."""
    await tx.execute(
        "UPDATE payment_requests SET targeted_mitra_id = NULL WHERE id = $1 AND status = 'confirmed'",
        payment_request_id,
    )


async def extension_under_way(reader: Reader, session_id: str, *, but: str | None = None) -> str | None:
    """Return the id of the payment request of a session's running extension, other than `but`, or None.

    An extension is running while it waits for the payment or for the mitra's answer.
    """
    found = await reader.fetchval(
        """SELECT id FROM payment_requests WHERE extends_session_id = $1 AND is_extension AND status IN ('pending', 'confirmed')
             AND id IS DISTINCT FROM $2
           UNION ALL SELECT payment_request_id FROM session_extensions WHERE session_id = $1 AND status = 'pending'
             AND payment_request_id IS DISTINCT FROM $2 LIMIT 1""",
        session_id, but,
    )  # fmt: skip
    return None if found is None else str(found)


async def keep_invoice(tx: Tx, payment_request_id: str, invoice_id: str) -> None:
    """Store the invoice by which a request was paid, if it has none yet."""
    await tx.execute(
        "UPDATE payment_requests SET gateway_invoice_id = $2 WHERE id = $1 AND gateway_invoice_id IS NULL",
        payment_request_id,
        invoice_id,
    )


async def invoice_belongs_to_another(reader: Reader, invoice_id: str, *, but: str) -> bool:
    """Return whether an invoice belongs to another request than `but`. One payment must pay for one request only."""
    found = await reader.fetchval(
        "SELECT 1 FROM payment_requests WHERE gateway_invoice_id = $1 AND id <> $2", invoice_id, but
    )
    return bool(found)


async def confirmed_without_chat(reader: Reader, *, before: dt.datetime) -> list[PaymentRequest]:
    """Return at most 500 requests that were confirmed by `before` and have no session or extension: pairing never
    began."""
    return many(
        PaymentRequest,
        await reader.fetch(
            f"""SELECT {COLUMNS} FROM payment_requests p WHERE p.status = 'confirmed' AND p.confirmed_at <= $1
                  AND NOT EXISTS (SELECT 1 FROM chat_sessions s WHERE s.payment_request_id = p.id
                    AND s.status NOT IN ('failed', 'cancelled'))
                  AND NOT EXISTS (SELECT 1 FROM session_extensions e WHERE e.payment_request_id = p.id)
                ORDER BY p.confirmed_at LIMIT 500""",
            before,
        ),
    )


async def open_free_request(
    reader: Reader, customer_ids: list[str], *, extends_session_id: str | None = None
) -> str | None:
    """Return the id of the account's failed request at a price of 0 on which no operator has acted; None if there is
    none.

    It is a request for a chat; with `extends_session_id`, one for more minutes of that session.
    """
    found = await reader.fetchval(
        """SELECT p.id FROM payment_requests p JOIN pairing_failures f ON f.payment_request_id = p.id AND f.superseded_at IS NULL
           WHERE p.customer_id = ANY($1) AND p.amount = 0 AND p.status = 'failed_pairing' AND f.operator_action IS NULL
             AND p.extends_session_id IS NOT DISTINCT FROM $2 LIMIT 1""",
        customer_ids, extends_session_id,
    )  # fmt: skip
    return None if found is None else str(found)


@attrs.frozen(kw_only=True)
class Blocked:
    """What keeps a customer from starting a session: a live session, or a confirmed request (then `session_id` is
    None)."""

    session_id: str | None
    payment_request_id: str | None

    @property
    def details(self) -> dict[str, str | None]:
        """The `details` of the refusal, by which an app can open what there is."""
        found = {"session_id": self.session_id}
        return found if self.payment_request_id is None else {**found, "payment_request_id": self.payment_request_id}


async def blocking(reader: Reader, customer_ids: list[str], *, but: str | None) -> Blocked | None:
    """Return the customer's live session, or else their confirmed request that is not for an extension; None without
    either.

    The request `but` and its session don't count.
    """
    row = await reader.fetchrow(
        """SELECT s.id AS session_id, s.payment_request_id FROM chat_sessions s WHERE s.customer_id = ANY($1)
             AND s.status IN ('searching', 'active', 'expired') AND s.payment_request_id IS DISTINCT FROM $2
           UNION ALL SELECT NULL, p.id FROM payment_requests p WHERE p.customer_id = ANY($1) AND p.status = 'confirmed'
             AND NOT p.is_extension AND p.id IS DISTINCT FROM $2
           ORDER BY session_id NULLS LAST LIMIT 1""",
        customer_ids, but,
    )  # fmt: skip
    return one(Blocked, row)
