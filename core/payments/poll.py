"""Poll the gateway about pending requests, because its webhook call may be lost.

The jobs process polls some minutes after an invoice was made (`POLL_AFTER`). These moments are stored, so a restart
loses none. If the process dies during a poll, the next poll or the sweep at the request's deadline finds the payment.
When a customer reads a request it is polled in the background, within limits that all processes share.

The answer has the same effect as the gateway's call and takes the same locks, so it does not matter which comes first.
"""

import asyncio
import functools
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Protocol, TypeVar

from core.accounts.customers import store as customers
from core.base.clock import real_sleep
from core.base.errors import GatewayUnavailable, Unavailable
from core.bus.buckets import Charge, Limit
from core.bus.rate_limit import RateLimited
from core.payments import gateway_calls, gateway_events
from core.payments import store as payments
from core.payments.states import PaymentStatus
from core.payments.store import PaymentRequest
from core.payments.views import PaymentRequestView
from core.providers.gateway import Gateway, Invoice
from core.runtime.container import GATEWAY_SLOTS, Runtime
from core.storage.transaction import Tx
from core.telemetry import logs

# For polls after a read: an app may read every second, and the gateway has a rate limit.
OF_REQUEST = Limit(name="invoice_polls_request", per_minute=6, burst=1)
OF_SERVICE = Limit(name="invoice_polls", per_minute=1_200, burst=20)
log = logs.get("payments")


class DueQuestion(Protocol):
    """A row about which the gateway is to be asked."""

    @property
    def id(self) -> str: ...


Due = TypeVar("Due", bound=DueQuestion)


async def ask_due(
    runtime: Runtime,
    *,
    wait_s: float,
    claim: Callable[[Tx, int], Awaitable[Sequence[Due]]],
    ask: Callable[[Due], Coroutine[Any, Any, bool]],
    give_back: Callable[[Tx, list[str]], Awaitable[None]],
) -> int:
    """Ask the gateway about rows that are due; return how many. While it does not answer, they stay due.

    `wait_s`: seconds until the circuit breaker allows a call. `ask` returns False if it did not allow this one.
    """
    if wait_s:
        await real_sleep(wait_s)
        return 0
    async with runtime.transaction() as tx:
        # Take no more than can be asked at once: if the process dies, those it took are lost.
        taken = await claim(tx, GATEWAY_SLOTS)
    async with asyncio.TaskGroup() as group:
        asked = [group.create_task(ask(due)) for due in taken]
    left = [due.id for due, was_asked in zip(taken, asked, strict=True) if not was_asked.result()]
    if left:
        async with runtime.transaction() as tx:
            await give_back(tx, left)
    return len(taken) - len(left)


async def poll_due(runtime: Runtime) -> int:
    """Poll the requests that are due; return how many were polled."""
    gateway = runtime.gateway
    if gateway is None:
        return 0
    return await ask_due(
        runtime,
        wait_s=gateway.poll_wait_s(),
        claim=payments.claim_polls,
        ask=functools.partial(_poll, runtime, gateway),
        give_back=payments.give_polls_back,
    )


def after_reading(runtime: Runtime, view: PaymentRequestView) -> None:
    """Poll a pending request in the background after its customer has read it. Returns at once."""
    gateway = runtime.gateway
    if (
        gateway is None
        or view.status != PaymentStatus.PENDING
        or gateway.poll_wait_s()
        or runtime.gateway_slots.locked()
    ):
        return
    runtime.tasks.follow(_poll_read(runtime, gateway, view.payment_request_id))


async def _poll_read(runtime: Runtime, gateway: Gateway, payment_request_id: str) -> None:
    try:
        await runtime.charge((Charge(OF_REQUEST, payment_request_id), Charge(OF_SERVICE, "all")))
    except RateLimited:
        return
    payment = await payments.get(runtime.db, payment_request_id)
    if payment is not None:
        await _poll(runtime, gateway, payment)


async def _poll(runtime: Runtime, gateway: Gateway, payment: PaymentRequest) -> bool:
    """Poll one request and apply the answer. Return False if the circuit breaker did not allow the poll."""
    if payment.gateway_invoice_id is None:
        return True
    async with runtime.gateway_slots:
        if not gateway.may_poll():
            return False
        try:
            invoice = await gateway.poll(payment.gateway_invoice_id)
            if invoice is not None and (invoice.status in gateway_calls.PAID_STATUSES or invoice.status == "EXPIRED"):
                await _settle(runtime, payment, invoice)
        except (GatewayUnavailable, Unavailable):
            log.warning("polling the gateway failed", payment_request_id=payment.id)
        except Exception:  # one failure must not stop the other polls
            log.exception("processing the result of a poll failed", payment_request_id=payment.id)
    return True


async def _settle(runtime: Runtime, payment: PaymentRequest, invoice: Invoice) -> None:
    async with runtime.transaction() as tx:
        account = await customers.lock_account(tx, payment.customer_id)
        locked = await payments.lock(tx, payment.id)
        assert locked is not None
        await gateway_events.apply_polled(tx, locked, account, invoice, app_tag=runtime.settings.gateway_app_tag)
