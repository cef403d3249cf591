"""Changes of a payment request's status; core/steps/money.py makes them, with the rows that each implies.

Each transition is one statement that names the expected state, so two transactions can't both make it. Functions that
return a bool return False if the request was in another state.
"""

from collections.abc import Sequence

from core.payments.states import PaymentStatus
from core.payments.store import AT_ONCE, COLUMNS, PaymentRequest
from core.storage.database import Tx
from core.storage.records import many


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
    """Move a request from `pending` or `expired` to `confirmed`. Store `invoice_id` if the request has none yet."""
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


async def confirm_again(tx: Tx, payment_request_id: str) -> bool:
    """Move a request from `failed_pairing` to `confirmed`, without its targeted mitra: it falls back to a blast."""
    return bool(
        await tx.execute(
            "UPDATE payment_requests SET status = 'confirmed', targeted_mitra_id = NULL WHERE id = $1 AND status = 'failed_pairing'",
            payment_request_id,
        )
    )


async def consume(tx: Tx, payment_request_id: str) -> bool:
    """Move a request from `confirmed` to `consumed`."""
    return bool(
        await tx.execute(
            "UPDATE payment_requests SET status = 'consumed', consumed_at = $2 WHERE id = $1 AND status = 'confirmed'",
            payment_request_id,
            tx.now,
        )
    )


async def fail(tx: Tx, payment_request_id: str, *, before: PaymentStatus, invoice_id: str | None = None) -> bool:
    """Move a request from `before` to `failed_pairing`.

    If the money came only now, record when, and `invoice_id` if given.
    """
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
    """Move a request from `pending` to `abandoned`."""
    return bool(
        await tx.execute(
            "UPDATE payment_requests SET status = 'abandoned' WHERE id = $1 AND status = 'pending'",
            payment_request_id,
        )
    )


async def abandon_pending(tx: Tx, customer_ids: list[str]) -> list[PaymentRequest]:
    """Abandon the customer's pending request that is not for an extension; return what was abandoned (at most one)."""
    rows = await tx.fetch(
        f"""UPDATE payment_requests SET status = 'abandoned' WHERE customer_id = ANY($1) AND status = 'pending' AND NOT is_extension
           RETURNING {COLUMNS}""",
        customer_ids,
    )
    return many(PaymentRequest, rows)


async def abandon_extensions(tx: Tx, session_ids: Sequence[str]) -> list[PaymentRequest]:
    """Abandon the pending extension requests of these sessions; return them."""
    rows = await tx.fetch(
        f"""UPDATE payment_requests SET status = 'abandoned' WHERE is_extension AND status = 'pending'
             AND extends_session_id = ANY($1) RETURNING {COLUMNS}""",
        session_ids,
    )
    return many(PaymentRequest, rows)


async def expire(tx: Tx, payment_request_id: str) -> bool:
    """Move a request from `pending` to `expired`, because the gateway has reported so."""
    return bool(
        await tx.execute(
            "UPDATE payment_requests SET status = 'expired' WHERE id = $1 AND status = 'pending'",
            payment_request_id,
        )
    )


async def expire_due(tx: Tx) -> list[PaymentRequest]:
    """Expire pending requests past their deadline, at most AT_ONCE; return them."""
    rows = await tx.fetch(
        f"""UPDATE payment_requests SET status = 'expired' WHERE status = 'pending' AND id = ANY (ARRAY(
             SELECT id FROM payment_requests WHERE status = 'pending' AND expires_at <= $1
             ORDER BY expires_at LIMIT {AT_ONCE} FOR UPDATE SKIP LOCKED))
           RETURNING {COLUMNS}""",
        tx.now,
    )
    return many(PaymentRequest, rows)
