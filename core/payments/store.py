"""Writes and locking reads of payment requests. Each transition is one statement guarded by the state before it."""

import datetime as dt

import attrs

from core.payments.rules import POLL_AFTER
from core.payments.states import PaymentStatus
from core.storage.database import Tx
from core.storage.reads import Reader
from core.storage.records import many, one

AT_ONCE = 500  # rows a statement
COLUMNS = """id, customer_id, amount, duration_minutes, is_first_session_discount, is_extension, extends_session_id, mode,
  status, targeted_mitra_id, topics, created_at, confirmed_at, consumed_at, expires_at, gateway_invoice_id, gateway_invoice_url"""


@attrs.frozen(kw_only=True)
class PaymentRequest:
    """A row of payment_requests."""

    id: str
    customer_id: str
    amount: int
    duration_minutes: int
    is_first_session_discount: bool
    is_extension: bool
    extends_session_id: str | None
    mode: str
    status: PaymentStatus = attrs.field(converter=PaymentStatus)
    targeted_mitra_id: str | None
    topics: list[str] | None
    created_at: dt.datetime
    confirmed_at: dt.datetime | None
    consumed_at: dt.datetime | None
    expires_at: dt.datetime
    gateway_invoice_id: str | None
    gateway_invoice_url: str | None


async def get(reader: Reader, payment_request_id: str) -> PaymentRequest | None:
    """Read a request."""
    return one(
        PaymentRequest,
        await reader.fetchrow(f"SELECT {COLUMNS} FROM payment_requests WHERE id = $1", payment_request_id),
    )


async def lock(tx: Tx, payment_request_id: str) -> PaymentRequest | None:
    """Read and lock a request."""
    return one(
        PaymentRequest,
        await tx.fetchrow(f"SELECT {COLUMNS} FROM payment_requests WHERE id = $1 FOR UPDATE", payment_request_id),
    )


async def create(tx: Tx, request: PaymentRequest) -> None:
    """Insert a request."""
    await tx.execute(
        """INSERT INTO payment_requests (id, customer_id, amount, duration_minutes, is_first_session_discount,
             is_extension, extends_session_id, mode, status, targeted_mitra_id, topics, created_at, expires_at,
             gateway_invoice_url)
           VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)""",
        request.id, request.customer_id, request.amount, request.duration_minutes, request.is_first_session_discount,
        request.is_extension, request.extends_session_id, request.mode, request.status.value,
        request.targeted_mitra_id, request.topics, request.created_at, request.expires_at,
        request.gateway_invoice_url,
    )  # fmt: skip


async def confirm(tx: Tx, payment_request_id: str, *, invoice_id: str | None) -> bool:
    """pending or expired -> confirmed. Keeps the first invoice id where none was issued."""
    return bool(
        await tx.execute(
            """UPDATE payment_requests SET status = 'confirmed', confirmed_at = $2,
                 gateway_invoice_id = coalesce(gateway_invoice_id, $3)
               WHERE id = $1 AND status IN ('pending', 'expired')""",
            payment_request_id,
            tx.now,
            invoice_id,
        )
    )


async def consume(tx: Tx, payment_request_id: str) -> bool:
    """confirmed -> consumed."""
    return bool(
        await tx.execute(
            "UPDATE payment_requests SET status = 'consumed', consumed_at = $2 WHERE id = $1 AND status = 'confirmed'",
            payment_request_id,
            tx.now,
        )
    )


async def fail(tx: Tx, payment_request_id: str, *, before: PaymentStatus, invoice_id: str | None = None) -> bool:
    """`before` -> failed_pairing; money that comes in with it gets its time."""
    return bool(
        await tx.execute(
            """UPDATE payment_requests SET status = 'failed_pairing', confirmed_at = coalesce(confirmed_at, $3),
                 gateway_invoice_id = coalesce(gateway_invoice_id, $4)
               WHERE id = $1 AND status = $2""",
            payment_request_id,
            before.value,
            tx.now,
            invoice_id,
        )
    )


async def abandon(tx: Tx, payment_request_id: str) -> bool:
    """pending -> abandoned."""
    return bool(
        await tx.execute(
            "UPDATE payment_requests SET status = 'abandoned' WHERE id = $1 AND status = 'pending'",
            payment_request_id,
        )
    )


async def abandon_pending(tx: Tx, customer_ids: list[str]) -> list[PaymentRequest]:
    """The customer's pending ordinary request -> abandoned; return it."""
    rows = await tx.fetch(
        f"""UPDATE payment_requests SET status = 'abandoned' WHERE customer_id = ANY($1) AND status = 'pending' AND NOT is_extension
           RETURNING {COLUMNS}""",
        customer_ids,
    )
    return many(PaymentRequest, rows)


async def set_invoice(tx: Tx, payment_request_id: str, *, invoice_id: str, url: str | None) -> None:
    """Keep the invoice that the gateway has just made, unless the request was paid by another one before."""
    await tx.execute(
        """UPDATE payment_requests SET gateway_invoice_id = $2, gateway_invoice_url = $3, invoice_made_at = $4, poll_at = $5
           WHERE id = $1 AND (gateway_invoice_id IS NULL OR gateway_invoice_id = $2)""",
        payment_request_id, invoice_id, url, tx.now, tx.now + POLL_AFTER[0],
    )  # fmt: skip


async def take_polls(tx: Tx, *, limit: int) -> list[PaymentRequest]:
    """Take pending requests about which the gateway is to be asked now, and set when it is asked next.

    Each poll is taken once; of several that were missed, one is left.
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


async def give_polls_back(tx: Tx, payment_request_ids: list[str]) -> None:
    """Set polls that were taken, and not made, to now."""
    await tx.execute(
        "UPDATE payment_requests SET poll_at = $2 WHERE id = ANY($1) AND status = 'pending'",
        payment_request_ids,
        tx.now,
    )


async def due(
    reader: Reader, *, now: dt.datetime, limit: int, after: PaymentRequest | None = None
) -> list[PaymentRequest]:
    """Pending requests past their deadline, oldest first, those behind `after`."""
    return many(
        PaymentRequest,
        await reader.fetch(
            f"""SELECT {COLUMNS} FROM payment_requests WHERE status = 'pending' AND expires_at <= $1
                  AND ($3::timestamptz IS NULL OR (expires_at, id) > ($3, $4::uuid))
                ORDER BY expires_at, id LIMIT $2""",
            now, limit, after and after.expires_at, after and after.id,
        ),
    )  # fmt: skip


async def abandon_extensions(tx: Tx, session_ids: list[str]) -> list[PaymentRequest]:
    """Pending extension requests of sessions -> abandoned; return them."""
    rows = await tx.fetch(
        f"""UPDATE payment_requests SET status = 'abandoned' WHERE is_extension AND status = 'pending'
             AND extends_session_id = ANY($1) RETURNING {COLUMNS}""",
        session_ids,
    )
    return many(PaymentRequest, rows)


async def begin_again(tx: Tx, payment_request_id: str) -> bool:
    """failed_pairing -> confirmed: a targeted request falls back to a blast."""
    return bool(
        await tx.execute(
            "UPDATE payment_requests SET status = 'confirmed', targeted_mitra_id = NULL WHERE id = $1 AND status = 'failed_pairing'",
            payment_request_id,
        )
    )


async def untarget(tx: Tx, payment_request_id: str) -> None:
    """A confirmed targeted request is for everybody now."""
    await tx.execute(
        "UPDATE payment_requests SET targeted_mitra_id = NULL WHERE id = $1 AND status = 'confirmed'",
        payment_request_id,
    )


async def extension_under_way(reader: Reader, session_id: str, *, but: str | None = None) -> str | None:
    """Return the payment request of a session's extension that is being paid or asked, other than `but`; None without one."""
    found = await reader.fetchval(
        """SELECT id FROM payment_requests WHERE extends_session_id = $1 AND is_extension AND status IN ('pending', 'confirmed')
             AND id IS DISTINCT FROM $2
           UNION ALL SELECT payment_request_id FROM session_extensions WHERE session_id = $1 AND status = 'pending'
             AND payment_request_id IS DISTINCT FROM $2 LIMIT 1""",
        session_id, but,
    )  # fmt: skip
    return None if found is None else str(found)


async def expire(tx: Tx, payment_request_id: str) -> bool:
    """pending -> expired, on the gateway's word."""
    return bool(
        await tx.execute(
            "UPDATE payment_requests SET status = 'expired' WHERE id = $1 AND status = 'pending'",
            payment_request_id,
        )
    )


async def expire_due(tx: Tx) -> list[PaymentRequest]:
    """Pending requests past their deadline -> expired, at most AT_ONCE; return them."""
    rows = await tx.fetch(
        f"""UPDATE payment_requests SET status = 'expired' WHERE status = 'pending' AND id = ANY (ARRAY(
             SELECT id FROM payment_requests WHERE status = 'pending' AND expires_at <= $1
             ORDER BY expires_at LIMIT {AT_ONCE} FOR UPDATE SKIP LOCKED))
           RETURNING {COLUMNS}""",
        tx.now,
    )
    return many(PaymentRequest, rows)


async def keep_invoice(tx: Tx, payment_request_id: str, invoice_id: str) -> None:
    """Keep the invoice that was paid for a request for which none was issued: the first one stays."""
    await tx.execute(
        "UPDATE payment_requests SET gateway_invoice_id = $2 WHERE id = $1 AND gateway_invoice_id IS NULL",
        payment_request_id,
        invoice_id,
    )


async def invoice_is_anothers(reader: Reader, invoice_id: str, *, but: str) -> bool:
    """Whether an invoice belongs to another request than `but`: one payment pays once."""
    found = await reader.fetchval(
        "SELECT 1 FROM payment_requests WHERE gateway_invoice_id = $1 AND id <> $2", invoice_id, but
    )
    return bool(found)


async def confirmed_without_chat(reader: Reader, *, before: dt.datetime) -> list[PaymentRequest]:
    """Requests confirmed before a moment that have no session (or extension): their pairing never began."""
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
    """Return the account's free request that came to nothing and that no operator has dealt with; None without one.

    That is a request for a chat, or with `extends_session_id` one for more minutes of this session.
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
    """What keeps a customer from another session: a live one, or a confirmed request without one (`session_id` is None)."""

    session_id: str | None
    payment_request_id: str | None

    @property
    def details(self) -> dict[str, str | None]:
        """What the refusal carries, so that an app can show what is there."""
        found = {"session_id": self.session_id}
        return found if self.payment_request_id is None else {**found, "payment_request_id": self.payment_request_id}


async def blocking(reader: Reader, customer_ids: list[str], *, but: str | None) -> Blocked | None:
    """Return the customer's live session, else the confirmed ordinary request, other than `but`; None without either."""
    row = await reader.fetchrow(
        """SELECT s.id AS session_id, s.payment_request_id FROM chat_sessions s WHERE s.customer_id = ANY($1)
             AND s.status IN ('searching', 'active', 'expired') AND s.payment_request_id IS DISTINCT FROM $2
           UNION ALL SELECT NULL, p.id FROM payment_requests p WHERE p.customer_id = ANY($1) AND p.status = 'confirmed'
             AND NOT p.is_extension AND p.id IS DISTINCT FROM $2
           ORDER BY session_id NULLS LAST LIMIT 1""",
        customer_ids, but,
    )  # fmt: skip
    return one(Blocked, row)
