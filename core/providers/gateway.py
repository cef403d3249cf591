"""Create, find, list, read and void invoices at the payment gateway (docs/protocol.md#payment-gateway).

A gateway may create two invoices for one external id. So if the result of a call is unknown, the gateway is first asked
which invoices it has.
"""

import asyncio
import datetime as dt
import math
import operator
import random
from collections.abc import AsyncIterator, Mapping
from typing import Any

import attrs

from core.base.clock import as_text, real_sleep
from core.base.errors import GatewayUnavailable
from core.base.plain_json import storable
from core.providers.circuit import Circuit
from core.providers.gateway_api import CURRENCY, GatewayAnswer, GatewayApi, in_path, pages
from core.providers.http_client import HttpClient, Operation
from core.providers.refunds import Refunds
from core.settings.settings import Settings
from core.telemetry import logs, metrics

PAID, EXPIRED = frozenset({"PAID", "SETTLED"}), "EXPIRED"
LONGEST_URL = 2000
ATTEMPTS = 3
PER_PAGE = 50  # a page is read up to 1 MiB, and an invoice has some kilobytes
WHOLE_S = 14.0  # for creating an invoice, with retries and look-ups; the customer waits
# How many invoices one process creates at the same time, and how long others wait for a slot (real seconds). With a
# gateway that answers in 0.2 s that is 160 invoices a second; a gateway that hangs holds up no more customers than
# this.
INVOICES_AT_ONCE = 32
TURN_S = 2.0
log = logs.get("gateway")


@attrs.frozen(kw_only=True)
class WantedInvoice:
    """The invoice to create. `amount` is in rupiah."""

    external_id: str
    amount: int
    description: str
    duration_s: int
    app_tag: str
    payment_methods: tuple[str, ...] = ()  # the gateway's channels, in the order to show; empty: all of them


@attrs.frozen(kw_only=True)
class Invoice:
    """An invoice as the gateway returns it. `body` is the whole JSON object."""

    id: str
    url: str | None
    status: str
    body: dict[str, Any] = attrs.field(repr=False)


def duration_s(*, now: dt.datetime, expires_at: dt.datetime, scale: float) -> int:
    """Return for how many real seconds an invoice can be paid. The gateway's clock is not scaled."""
    return max(1, int((expires_at - now).total_seconds() / scale))


def request_body(wanted: WantedInvoice) -> dict[str, Any]:
    """Return the request body that creates an invoice."""
    body = {
        "external_id": wanted.external_id,
        "amount": wanted.amount,
        "currency": CURRENCY,
        "description": wanted.description,
        "invoice_duration": wanted.duration_s,
        "metadata": {"app": wanted.app_tag},
    }
    return {**body, "payment_methods": list(wanted.payment_methods)} if wanted.payment_methods else body


def read_invoice(body: Any) -> Invoice | None:
    """Return the invoice of a response body, None if the body has no usable id."""
    invoice_id = storable(body.get("id")) if isinstance(body, dict) else None
    if invoice_id is None:
        return None
    url = storable(body.get("invoice_url"), LONGEST_URL)
    return Invoice(
        id=invoice_id,
        url=url if url is not None and url.startswith(("https://", "http://")) else None,
        status=str(body.get("status", "")).upper(),
        body=body,
    )


def is_usable(invoice: Invoice, wanted: WantedInvoice) -> bool:
    """Return whether the invoice is for this request, and can be paid or has been paid."""
    amount = invoice.body.get("amount")
    others = isinstance(amount, int | float) and amount != wanted.amount  # an amount in another form is ignored
    ours = invoice.body.get("external_id", wanted.external_id) == wanted.external_id
    return ours and (invoice.status in PAID or (invoice.url is not None and invoice.status != EXPIRED and not others))


async def _pause(attempt: int) -> None:
    await real_sleep(0.2 * 2**attempt + random.random() * 0.2)  # noqa: S311 - jitter


def _refuses_methods(answer: GatewayAnswer) -> bool:
    code = answer.body.get("error_code") if isinstance(answer.body, dict) else None
    return answer.status == 400 and isinstance(code, str) and "PAYMENT_METHOD" in code


class Gateway:
    """Creates, finds, reads and voids invoices."""

    def __init__(self, http: HttpClient, *, base_url: str, secret_key: str) -> None:
        self._api = GatewayApi(http, base_url=base_url, secret_key=secret_key)
        self.refunds = Refunds(self._api)
        self._circuit = Circuit()
        # Separate, because failing reads must not keep customers from getting invoices.
        self._polls = Circuit()
        self._turns = asyncio.Semaphore(INVOICES_AT_ONCE)

    def check_invoices(self) -> None:
        """Raise GatewayUnavailable while the circuit breaker is open."""
        if wait_s := self._circuit.wait_s():
            metrics.LIMITED.labels("gateway_circuit").inc()
            raise GatewayUnavailable(retry_after_seconds=wait_s)

    async def create(self, wanted: WantedInvoice, *, again: bool = False) -> Invoice:
        """Create the invoice of a payment request, or return the one that an earlier attempt created.

        `again` says that an earlier attempt may have created one, so the gateway is asked first. Raises
        GatewayUnavailable if the gateway refuses, the circuit breaker is open, no slot is free within TURN_S, or the
        gateway does not answer in time; in the last case an invoice may exist.
        """
        try:
            async with asyncio.timeout(TURN_S):
                await self._turns.acquire()
        except TimeoutError as error:
            metrics.LIMITED.labels("gateway_invoices_at_once").inc()
            raise GatewayUnavailable(retry_after_seconds=math.ceil(TURN_S)) from error
        try:
            return await self._create_guarded(wanted, again=again)
        finally:
            self._turns.release()

    async def _create_guarded(self, wanted: WantedInvoice, *, again: bool) -> Invoice:
        """Create the invoice unless the circuit breaker is open, and tell it whether the gateway answered."""
        if not self._circuit.admit():
            self.check_invoices()
        try:
            async with asyncio.timeout(WHOLE_S):
                invoice = await self._create(wanted, again=again)
        except (TimeoutError, GatewayUnavailable) as error:
            self._circuit.failed()
            log.warning("the gateway did not answer", external_id=wanted.external_id)
            raise GatewayUnavailable from error
        self._circuit.succeeded()
        if invoice is None:
            raise GatewayUnavailable
        return invoice

    async def _create(self, wanted: WantedInvoice, *, again: bool) -> Invoice | None:
        """Create the invoice. Return None if the gateway refuses. Raises GatewayUnavailable if it does not answer."""
        body = request_body(wanted)
        for attempt in range(ATTEMPTS):
            if attempt:
                await _pause(attempt)
            if attempt or again:
                found = await self._find(wanted.external_id)
                if found is None:
                    continue  # unknown whether the last attempt created one, so don't create another
                usable = await self._usable(found, wanted)
                if usable is not None:
                    return usable
            answer = await self._post(body)
            invoice = read_invoice(answer.body) if answer is not None and answer.status < 300 else None
            if invoice is not None and is_usable(invoice, wanted):
                return invoice
            if answer is not None and answer.status >= 300:
                log.warning("the gateway refused an invoice", external_id=wanted.external_id, status=answer.status)
                return None
        raise GatewayUnavailable

    async def _usable(self, found: list[Invoice], wanted: WantedInvoice) -> Invoice | None:
        """Return the first usable invoice. Without any, expire all of them, because they must not be paid."""
        for invoice in found:
            if is_usable(invoice, wanted):
                return invoice
        for odd in found:
            if odd.status != EXPIRED:
                await self._expire(odd.id)
        return None

    async def _post(self, body: dict[str, Any]) -> GatewayAnswer | None:
        """Create an invoice.

        If its payment methods are refused, repeat without them: paying matters more than their order.
        """
        answer = await self._api.call(Operation.CREATE_INVOICE, "POST", "/v2/invoices", json=body)
        if answer is None or "payment_methods" not in body or not _refuses_methods(answer):
            return answer
        log.error("the gateway refuses payment methods; check GATEWAY_PAYMENT_METHODS", methods=body["payment_methods"])
        del body["payment_methods"]
        return await self._api.call(Operation.CREATE_INVOICE, "POST", "/v2/invoices", json=body)

    async def find(self, external_id: str) -> Invoice | None:
        """Return an invoice for an external id, a paid one if there is one, else the oldest. None without any.

        Raises GatewayUnavailable.
        """
        found = await self._find(external_id)
        if found is None:
            raise GatewayUnavailable
        return found[0] if found else None

    async def _find(self, external_id: str) -> list[Invoice] | None:
        """Return the invoices for an external id, paid ones first, then the oldest. None if the gateway is silent."""
        page = await self.page({"external_id": external_id})
        if page is None:
            return None
        ours = [item for item in page if isinstance(item, dict) and item.get("external_id") == external_id]
        found = [invoice for invoice in map(read_invoice, ours) if invoice is not None]
        return sorted(found, key=lambda one: (one.status not in PAID, str(one.body.get("created", ""))))

    async def page(self, query: Mapping[str, str]) -> list[Any] | None:
        """Return a page of the list of invoices as the gateway sends it. None if it does not answer, or refuses."""
        answer = await self._api.call(Operation.FIND_INVOICES, "GET", "/v2/invoices", params=query)
        return answer.body if answer is not None and answer.status < 300 and isinstance(answer.body, list) else None

    async def changed_since(self, since: dt.datetime) -> AsyncIterator[list[Invoice]]:
        """Yield the invoices that were made or paid since a moment of real time; some come twice.

        Raises GatewayUnavailable.
        """
        for field in ("created_after", "paid_after"):
            async for page in pages(
                self.page,
                {field: as_text(since), "limit": str(PER_PAGE)},
                parse=read_invoice,
                id_of=operator.attrgetter("id"),
                after="last_invoice",
                repeated="the gateway lists the same invoices again",
            ):
                yield page

    async def get(self, invoice_id: str) -> Invoice | None:
        """Read an invoice. Return None if the gateway does not know it. Raises GatewayUnavailable."""
        answer = await self._api.call(Operation.READ_INVOICE, "GET", f"/v2/invoices/{in_path(invoice_id)}")
        if (
            answer is not None
            and answer.status == 404
            and isinstance(answer.body, dict)
            and "error_code" in answer.body
        ):
            return None
        invoice = read_invoice(answer.body) if answer is not None and answer.status < 300 else None
        if invoice is None:
            raise GatewayUnavailable
        return invoice

    def poll_wait_s(self) -> int:
        """Return the whole seconds until the gateway may be polled again after failures; 0 if it may be polled now."""
        return max(self._circuit.wait_s(), self._polls.wait_s())

    def may_poll(self) -> bool:
        """Return whether one invoice may be polled now. If so, the caller must call `poll` once."""
        return not self._circuit.wait_s() and self._polls.admit()

    async def poll(self, invoice_id: str) -> Invoice | None:
        """Read an invoice like `get`, and tell the circuit breaker of polls whether the gateway answered."""
        try:
            invoice = await self.get(invoice_id)
        except GatewayUnavailable:
            self._polls.failed()
            raise
        self._polls.succeeded()
        return invoice

    async def void(self, invoice_id: str) -> bool:
        """Cancel an invoice.

        Return False if the gateway refuses, usually because it has been paid. Raises GatewayUnavailable.
        """
        for attempt in range(ATTEMPTS):
            if attempt:
                await _pause(attempt)
            answer = await self._expire(invoice_id)
            if answer is not None:
                return answer.status < 300
        raise GatewayUnavailable

    async def _expire(self, invoice_id: str) -> GatewayAnswer | None:
        return await self._api.call(Operation.VOID_INVOICE, "POST", f"/invoices/{in_path(invoice_id)}/expire!")


def make_gateway(settings: Settings, http: HttpClient) -> Gateway | None:
    """Return the gateway, None if it is disabled."""
    if not settings.gateway_enabled:
        return None
    return Gateway(http, base_url=settings.gateway_base_url, secret_key=settings.gateway_secret_key)
