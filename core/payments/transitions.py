"""Changes of a payment request's status; core/payments/money.py makes them, with the rows that each implies.

Each transition is one statement that names the expected state, so two transactions can't both make it. Functions that
return a bool return False if the request was in another state.
"""

from collections.abc import Sequence

from core.payments.states import EDGES, PaymentStatus
from core.payments.store import AT_ONCE, RETURNING, PaymentRequest
from core.payments.tables import PaymentRequest as Requests
from core.storage import sql_files
from core.storage.records import many
from core.storage.statements import insert, p, statement, transition
from core.storage.transaction import Tx

P = PaymentStatus
SQL = sql_files.load(__file__)
CREATE = statement(
    insert(
        Requests,
        "id customer_id amount duration_minutes is_first_session_discount is_extension extends_session_id mode "
        "targeted_mitra_id topics created_at expires_at gateway_invoice_url",
        status=P.PENDING,
    )
)
CREATE_FAILED = statement(
    insert(
        Requests,
        "id customer_id amount duration_minutes is_first_session_discount is_extension extends_session_id mode "
        "targeted_mitra_id topics created_at expires_at confirmed_at gateway_invoice_id",
        status=P.FAILED_PAIRING,
    )
)
CONFIRM_AGAIN = statement(
    transition(Requests, EDGES, [P.FAILED_PAIRING], P.CONFIRMED, targeted_mitra_id=p.targeted_mitra_id)
)
ACCEPT = statement(transition(Requests, EDGES, [P.FAILED_PAIRING], P.CONFIRMED, confirmed_at=p.now))
CONSUME = statement(transition(Requests, EDGES, [P.CONFIRMED], P.CONSUMED, consumed_at=p.now))
ABANDON = statement(transition(Requests, EDGES, [P.PENDING], P.ABANDONED))
EXPIRE = statement(transition(Requests, EDGES, [P.PENDING], P.EXPIRED))


async def create(tx: Tx, request: PaymentRequest) -> None:
    """Insert a pending request."""
    await CREATE.execute(tx, **{name: getattr(request, name) for name in CREATE.names})


async def create_failed(tx: Tx, request: PaymentRequest) -> None:
    """Insert a failed request, for money that belongs to no request."""
    await CREATE_FAILED.execute(tx, **{name: getattr(request, name) for name in CREATE_FAILED.names})


async def confirm(tx: Tx, payment_request_id: str, *, invoice_id: str | None) -> bool:
    """Move a request from `pending` or `expired` to `confirmed`. Store `invoice_id` if the request has none yet."""
    return bool(await tx.execute(SQL["confirm"], payment_request_id, tx.now, invoice_id))


async def confirm_again(tx: Tx, payment_request_id: str, *, targeted_mitra_id: str | None) -> bool:
    """Move a request from `failed_pairing` to `confirmed`, with a new targeted mitra; None: it asks all mitras."""
    return bool(await CONFIRM_AGAIN.execute(tx, id=payment_request_id, targeted_mitra_id=targeted_mitra_id))


async def accept(tx: Tx, payment_request_id: str) -> bool:
    """Move a request from `failed_pairing` to `confirmed`: the money counts from now on."""
    return bool(await ACCEPT.execute(tx, id=payment_request_id, now=tx.now))


async def change_short(tx: Tx, payment_request_id: str, *, amount: int) -> bool:
    """Store how much of a failed short payment is there now. Once it is what was asked for, it is short no more."""
    return bool(await tx.execute(SQL["change_short"], payment_request_id, amount))


async def consume(tx: Tx, payment_request_id: str) -> bool:
    """Move a request from `confirmed` to `consumed`."""
    return bool(await CONSUME.execute(tx, id=payment_request_id, now=tx.now))


async def fail(
    tx: Tx,
    payment_request_id: str,
    *,
    before: PaymentStatus,
    invoice_id: str | None = None,
    short_amount: int | None = None,
) -> bool:
    """Move a request from `before` to `failed_pairing`.

    If the money came only now, record when, and `invoice_id` if given. `short_amount` is what was paid, if that is less
    than the amount.
    """
    return bool(await tx.execute(SQL["fail"], payment_request_id, before, tx.now, invoice_id, short_amount))


async def abandon(tx: Tx, payment_request_id: str) -> bool:
    """Move a request from `pending` to `abandoned`."""
    return bool(await ABANDON.execute(tx, id=payment_request_id))


async def abandon_pending(tx: Tx, customer_ids: list[str]) -> list[PaymentRequest]:
    """Abandon the customer's pending request that is not for an extension; return what was abandoned (at most one)."""
    return many(PaymentRequest, await tx.fetch(f"{SQL['abandon_pending']} {RETURNING}", customer_ids))


async def abandon_extensions(tx: Tx, session_ids: Sequence[str]) -> list[PaymentRequest]:
    """Abandon the pending extension requests of these sessions; return them."""
    return many(PaymentRequest, await tx.fetch(f"{SQL['abandon_extensions']} {RETURNING}", session_ids))


async def abandon_all(tx: Tx, customer_ids: Sequence[str]) -> list[PaymentRequest]:
    """Abandon all pending requests of an account's customers; return them."""
    return many(PaymentRequest, await tx.fetch(f"{SQL['abandon_all']} {RETURNING}", customer_ids))


async def expire(tx: Tx, payment_request_id: str) -> bool:
    """Move a request from `pending` to `expired`, because the gateway has reported so."""
    return bool(await EXPIRE.execute(tx, id=payment_request_id))


async def expire_due(tx: Tx) -> list[PaymentRequest]:
    """Expire pending requests past their deadline, at most AT_ONCE; return them."""
    return many(PaymentRequest, await tx.fetch(f"{SQL['expire_due']} {RETURNING}", tx.now, AT_ONCE))
