"""Payment requests and their invoices: create and issue (docs/product.md#payment-requests).

With the gateway enabled, creating a request takes two transactions with the call to the gateway between them. The first
stores the request and the idempotency key's claim on it; the second stores the invoice and the answer. If the process
dies in between, a retry with the same key continues with the same request.
"""

import math

from core.base import ids
from core.base.addresses import host_and_port, who_has
from core.base.errors import GatewayUnavailable
from core.base.field_types import CustomerId, MitraId, Mode, PaymentRequestId, SessionId
from core.bus.inbox import InboxKind
from core.bus.rate_limit import RateLimited
from core.events.signals import InvoiceVoided
from core.idempotency.run import IdempotentRequest, forget, store_answer
from core.payments import invoice_counts, money, rules, views
from core.payments import store as payments
from core.payments.states import PaymentStatus
from core.payments.store import PaymentRequest
from core.payments.views import PaymentRequestView
from core.providers.gateway import WantedInvoice, duration_s
from core.runtime.container import Runtime
from core.storage.transaction import Tx
from core.telemetry import metrics

CREATED = 201
GIVEN_UP = frozenset({PaymentStatus.ABANDONED, PaymentStatus.EXPIRED})


def development_page(runtime: Runtime, payment_id: str) -> str | None:
    """Return the address of the development payment page.

    None in production, and while the gateway is enabled.
    """
    settings = runtime.settings
    if not settings.development_payment_page:
        return None
    host = "127.0.0.1" if settings.public_host in ("0.0.0.0", "::") else settings.public_host
    return f"http://{host_and_port(host, settings.public_port)}/dev/pay/{payment_id}"


async def create(
    runtime: Runtime,
    tx: Tx,
    *,
    customer_id: CustomerId,
    account: list[str],
    address: str,
    amount: int,
    minutes: int,
    mode: Mode,
    discounted: bool = False,
    extends_session_id: SessionId | None = None,
    targeted_mitra_id: MitraId | None = None,
    topics: list[str] | None = None,
) -> PaymentRequest:
    """Insert a pending payment request with a fixed price.

    A request at a price of 0 is confirmed at once and needs no invoice. `amount` is in rupiah. `address` is the
    caller's. `account` are the caller's ids; the caller must hold that account. Raises RateLimited, and
    GatewayUnavailable while the circuit breaker is open.
    """
    payment_id = PaymentRequestId(ids.new_id())
    if runtime.gateway is not None and amount > 0:
        runtime.gateway.check_invoices()
        await _count(runtime, tx, payment_id, customer_id=customer_id, account=account, address=who_has(address))
    request = PaymentRequest(
        id=payment_id,
        customer_id=customer_id,
        amount=amount,
        duration_minutes=minutes,
        is_first_session_discount=discounted,
        is_extension=extends_session_id is not None,
        extends_session_id=extends_session_id,
        mode=mode,
        status=PaymentStatus.PENDING,
        targeted_mitra_id=targeted_mitra_id,
        topics=topics,
        created_at=tx.now,
        confirmed_at=None,
        consumed_at=None,
        expires_at=tx.now + runtime.config.minutes("payment_session_timeout_minutes"),
        gateway_invoice_id=None,
        gateway_invoice_url=development_page(runtime, payment_id) if amount > 0 else None,
    )
    return await money.create(tx, request, tuple(account))


async def _count(
    runtime: Runtime, tx: Tx, payment_id: str, *, customer_id: str, account: list[str], address: str
) -> None:
    """Count an invoice against its limits, which are high for an account that paid before. Raises RateLimited.

    The limits are exact: the account and then the address stay locked until the commit.
    """
    has_paid = await invoice_counts.ever_paid(tx, account)
    names = ("invoices_account_paid", "invoices_address_paid") if has_paid else ("invoices_account", "invoices_address")
    per_account = runtime.config.number("invoices_max_per_account_per_hour")
    per_address = runtime.config.number("invoices_max_per_address_per_hour")
    if has_paid:
        per_account, per_address = invoice_counts.PER_PAID_ACCOUNT, invoice_counts.PER_ADDRESS_OF_PAID
    await invoice_counts.hold_address(tx, address)
    account_full = await invoice_counts.account_full_until(tx, account, most=per_account)
    address_full = await invoice_counts.address_full_until(tx, address, has_paid=has_paid, most=per_address)
    full = dict(zip(names, (account_full, address_full), strict=True))
    for limit, until in full.items():
        if until is not None:
            metrics.LIMITED.labels(limit).inc()
            raise RateLimited(retry_after_seconds=max(1, math.ceil((until - tx.now).total_seconds())))
    await invoice_counts.add(
        tx, payment_request_id=payment_id, customer_id=customer_id, address=address, has_paid=has_paid
    )


async def view_in(tx: Tx, request: PaymentRequest) -> PaymentRequestView:
    """Return the view of a payment request."""
    view = await views.one_of(tx, request.id, customer_ids=[request.customer_id])
    assert view is not None
    return view


async def unfinished_request(idempotent: IdempotentRequest) -> PaymentRequest | None:
    """Return the request that an earlier attempt with this key created before its process died.

    None without such a request, or if it was abandoned or expired since.
    """
    if idempotent.unfinished is None:
        return None
    request = await payments.get(idempotent.tx, idempotent.unfinished)
    return request if request is not None and request.status not in GIVEN_UP else None


async def answer_or_claim(
    runtime: Runtime, idempotent: IdempotentRequest, request: PaymentRequest
) -> PaymentRequestView | None:
    """Return the answer for a new request, or None if an invoice must be made first.

    No invoice is needed without a gateway, at a price of 0, or if the request was paid in the meantime.
    """
    if runtime.gateway is not None and request.status is PaymentStatus.PENDING:
        await idempotent.claim(request.id)
        return None
    if request.gateway_invoice_url is not None:
        _show(runtime, request, invoice_id=None, url=request.gateway_invoice_url)
    view = await view_in(idempotent.tx, request)
    await idempotent.keep(view, http_status=CREATED)
    return view


async def issue(runtime: Runtime, idempotent: IdempotentRequest, request: PaymentRequest) -> PaymentRequestView:
    """Make the invoice after the first transaction, and store it with the answer.

    If the gateway does not make it, the request is abandoned and the key can be used again. Raises GatewayUnavailable.
    """
    assert runtime.gateway is not None
    wanted = WantedInvoice(
        external_id=request.id,
        amount=request.amount,
        description=f"{request.duration_minutes} min {request.mode}",
        duration_s=duration_s(now=runtime.now(), expires_at=request.expires_at, scale=runtime.settings.sesi_time_scale),
        app_tag=runtime.settings.gateway_app_tag,
        payment_methods=rules.in_order(
            runtime.settings.gateway_payment_methods, qris_first=runtime.config.flag("payment_method_qris_first")
        ),
    )
    try:
        invoice = await runtime.gateway.create(wanted, again=idempotent.unfinished is not None)
    except GatewayUnavailable:
        async with runtime.transaction() as tx:
            locked = await payments.lock(tx, request.id)
            assert locked is not None
            if await forget(tx, idempotent):
                await money.abandon(tx, locked, by=None)
                await invoice_counts.remove(tx, request.id)
        raise
    async with runtime.transaction() as tx:
        found = await payments.lock(tx, request.id)
        assert found is not None
        other = found.gateway_invoice_id
        if other != invoice.id and (other is not None or found.status is not PaymentStatus.PENDING):
            # The request was paid by another invoice or ended in the meantime, so this invoice must not be paid.
            tx.emit(InvoiceVoided(gateway_invoice_id=invoice.id))
        await payments.set_invoice(tx, request.id, invoice_id=invoice.id, url=invoice.url)
        view = await view_in(tx, request)
        await store_answer(tx, idempotent.keyed, view, http_status=CREATED)
    _show(runtime, request, invoice_id=invoice.id, url=invoice.url)
    return view


def _show(runtime: Runtime, request: PaymentRequest, *, invoice_id: str | None, url: str | None) -> None:
    """Show the invoice of a request, or its development page, in the development inbox. `amount` is in Rupiah."""
    if runtime.inbox is not None:
        data = {
            "payment_request_id": request.id,
            "amount": request.amount,
            "duration_minutes": request.duration_minutes,
            "mode": request.mode,
            "is_extension": request.is_extension,
            "gateway_invoice_id": invoice_id,
            "url": url,
        }
        text = f"Rp {request.amount:,}".replace(",", ".")
        runtime.inbox.add(InboxKind.INVOICE, to=request.customer_id, text=text, **data)
