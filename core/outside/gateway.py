"""The payment gateway's invoices (specification, Core rules 9; contract 7, the world outside).

A gateway may make two invoices for one external id. So a call whose outcome is unknown is never just repeated: the gateway
is asked first what it has.
"""

import asyncio
import datetime as dt
import math
import random
import urllib.parse
from typing import Any

import aiohttp
import attrs
from yarl import URL

from core.base import logs, metrics
from core.base.clock import real_sleep
from core.base.errors import GatewayUnavailable
from core.base.plain_json import storable
from core.base.settings import Settings
from core.outside.answers import read_json
from core.outside.circuit import Circuit

TIMEOUT_S = 5.0  # contract 7
ATTEMPTS = 3
WHOLE_S = 14.0  # for an invoice, retries and look-ups included; the customer waits
# Invoices that one process makes at once, and how long others wait for their turn (real). A gateway that answers in 0.2 s
# makes 160 a second so; one that hangs holds no more customers than these.
INVOICES_AT_ONCE = 32
TURN_S = 2.0
CURRENCY = "IDR"
PAID, EXPIRED = frozenset({"PAID", "SETTLED"}), "EXPIRED"
LONGEST_URL = 2000
log = logs.get("gateway")


@attrs.frozen(kw_only=True)
class Wanted:
    """An invoice to be made."""

    external_id: str
    amount: int
    description: str
    duration_s: int
    app_tag: str
    payment_methods: tuple[str, ...] = ()  # the gateway's channels in the order to show; empty: all that it has


@attrs.frozen(kw_only=True)
class Invoice:
    """An invoice as the gateway has it; `body` is its whole answer."""

    id: str
    url: str | None
    status: str
    body: dict[str, Any] = attrs.field(repr=False)


@attrs.frozen(kw_only=True)
class _Answer:
    status: int
    body: Any


async def _pause(attempt: int) -> None:
    await real_sleep(0.2 * 2**attempt + random.random() * 0.2)  # noqa: S311 - jitter


def _invoice(body: Any) -> Invoice | None:
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


def _in_path(invoice_id: str) -> str:
    """Quote an id for a path: ids come from the gateway's calls too, and must not lead to its other routes.

    A dot is quoted as well, because "." and ".." are steps in a path.
    """
    return urllib.parse.quote(invoice_id, safe="").replace(".", "%2E")


def _asked(wanted: Wanted) -> dict[str, Any]:
    """Return the body of the call that makes an invoice."""
    body = {
        "external_id": wanted.external_id,
        "amount": wanted.amount,
        "currency": CURRENCY,
        "description": wanted.description,
        "invoice_duration": wanted.duration_s,
        "metadata": {"app": wanted.app_tag},
    }
    return {**body, "payment_methods": list(wanted.payment_methods)} if wanted.payment_methods else body


def _refuses_methods(answer: _Answer) -> bool:
    code = answer.body.get("error_code") if isinstance(answer.body, dict) else None
    return answer.status == 400 and isinstance(code, str) and "PAYMENT_METHOD" in code


def _is_good(invoice: Invoice, wanted: Wanted) -> bool:
    """Whether a customer can pay what is wanted by it, or has, as far as the gateway says."""
    amount = invoice.body.get("amount")
    others = isinstance(amount, int | float) and amount != wanted.amount  # written in another way it says nothing
    ours = invoice.body.get("external_id", wanted.external_id) == wanted.external_id
    return ours and (invoice.status in PAID or (invoice.url is not None and invoice.status != EXPIRED and not others))


class Gateway:
    """Makes, finds and voids invoices."""

    def __init__(self, *, base_url: str, secret_key: str) -> None:
        self._base_url = base_url.rstrip("/")
        self._headers = {"Authorization": aiohttp.encode_basic_auth(secret_key, "")}
        self._circuit = Circuit()
        # Apart: invoices that can't be read must not keep customers from getting theirs.
        self._polls = Circuit()
        self._turns = asyncio.Semaphore(INVOICES_AT_ONCE)

    async def _call(self, method: str, path: str, **more: Any) -> _Answer | None:
        """Make one call; None when there was no answer that says anything."""
        try:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT_S), headers=self._headers) as session,
                session.request(
                    method, URL(self._base_url + path, encoded=True), allow_redirects=False, **more
                ) as answer,
            ):
                body = await read_json(answer)
                return (
                    None if answer.status >= 500 or answer.status == 429 else _Answer(status=answer.status, body=body)
                )
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
            return None

    def check_invoices(self) -> None:
        """Raise GatewayUnavailable while the gateway is left alone because it does not answer."""
        if wait_s := self._circuit.wait_s():
            metrics.LIMITED.labels("gateway_circuit").inc()
            raise GatewayUnavailable(retry_after_seconds=wait_s)

    async def create(self, wanted: Wanted, *, again: bool = False) -> Invoice:
        """Make the invoice of a payment request, or return the one that an earlier try has made.

        `again`: there may have been an earlier try. Raises GatewayUnavailable when the gateway refuses, has not answered for a
        while, has too many calls under way, or does not answer in time: then it may have made an invoice.
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

    async def _create_guarded(self, wanted: Wanted, *, again: bool) -> Invoice:
        """Make the invoice unless the circuit is open, and tell the circuit whether there was an answer."""
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

    async def _create(self, wanted: Wanted, *, again: bool) -> Invoice | None:
        """Make the invoice; None when the gateway refuses. Raises GatewayUnavailable when it does not answer."""
        body = _asked(wanted)
        for attempt in range(ATTEMPTS):
            if attempt:
                await _pause(attempt)
            if attempt or again:
                found = await self._find(wanted.external_id)
                if found is None:
                    continue  # nobody knows what the last try has made: not making another one
                good = [invoice for invoice in found if _is_good(invoice, wanted)]
                if good:
                    return good[0]
                for odd in found:  # nobody should pay one that can't be used
                    if odd.status != EXPIRED:
                        await self._expire(odd.id)
            answer = await self._post(body)
            invoice = _invoice(answer.body) if answer is not None and answer.status < 300 else None
            if invoice is not None and _is_good(invoice, wanted):
                return invoice
            if answer is not None and answer.status >= 300:
                log.warning("the gateway refused an invoice", external_id=wanted.external_id, status=answer.status)
                return None
        raise GatewayUnavailable

    async def _post(self, body: dict[str, Any]) -> _Answer | None:
        """Make an invoice; when its payment methods are refused, without naming any: paying matters more than the order."""
        answer = await self._call("POST", "/v2/invoices", json=body)
        if answer is None or "payment_methods" not in body or not _refuses_methods(answer):
            return answer
        log.error("the gateway refuses payment methods; check GATEWAY_PAYMENT_METHODS", methods=body["payment_methods"])
        del body["payment_methods"]
        return await self._call("POST", "/v2/invoices", json=body)

    async def find(self, external_id: str) -> Invoice | None:
        """Return the oldest invoice for an external id; None when there is none. Raises GatewayUnavailable."""
        found = await self._find(external_id)
        if found is None:
            raise GatewayUnavailable
        return found[0] if found else None

    async def _find(self, external_id: str) -> list[Invoice] | None:
        """Return the invoices of an external id, a paid one first, then the oldest; None when nobody answers."""
        answer = await self._call("GET", "/v2/invoices", params={"external_id": external_id})
        if answer is None or answer.status >= 300 or not isinstance(answer.body, list):
            return None
        ours = [item for item in answer.body if isinstance(item, dict) and item.get("external_id") == external_id]
        ours.sort(key=lambda item: (item.get("status") not in PAID, str(item.get("created", ""))))
        return [invoice for invoice in map(_invoice, ours) if invoice is not None]

    async def get(self, invoice_id: str) -> Invoice | None:
        """Read an invoice; None when the gateway says that it has none. Raises GatewayUnavailable."""
        answer = await self._call("GET", f"/v2/invoices/{_in_path(invoice_id)}")
        if (
            answer is not None
            and answer.status == 404
            and isinstance(answer.body, dict)
            and "error_code" in answer.body
        ):
            return None
        invoice = _invoice(answer.body) if answer is not None and answer.status < 300 else None
        if invoice is None:
            raise GatewayUnavailable
        return invoice

    def poll_wait_s(self) -> int:
        """Return for how many whole seconds the gateway is not asked about invoices, because it did not answer; 0: it is."""
        return max(self._circuit.wait_s(), self._polls.wait_s())

    def may_poll(self) -> bool:
        """Whether the gateway may be asked about one invoice now. A yes is followed by one `poll`."""
        return not self._circuit.wait_s() and self._polls.admit()

    async def poll(self, invoice_id: str) -> Invoice | None:
        """Read an invoice, and note whether there was an answer. None and errors as in `get`."""
        try:
            invoice = await self.get(invoice_id)
        except GatewayUnavailable:
            self._polls.failed()
            raise
        self._polls.succeeded()
        return invoice

    async def void(self, invoice_id: str) -> bool:
        """Let nobody pay an invoice any more; False when the gateway refuses: it may be paid. Raises GatewayUnavailable."""
        for attempt in range(ATTEMPTS):
            if attempt:
                await _pause(attempt)
            answer = await self._expire(invoice_id)
            if answer is not None:
                return answer.status < 300
        raise GatewayUnavailable

    async def _expire(self, invoice_id: str) -> _Answer | None:
        return await self._call("POST", f"/invoices/{_in_path(invoice_id)}/expire!")


def make_gateway(settings: Settings) -> Gateway | None:
    """Return the gateway, None while it is disabled (specification, Core rules 9)."""
    if not settings.gateway_enabled:
        return None
    return Gateway(base_url=settings.gateway_base_url, secret_key=settings.gateway_secret_key)


def duration_s(*, now: dt.datetime, expires_at: dt.datetime, scale: float) -> int:
    """Return how many real seconds an invoice may be paid: the gateway's clock is not scaled."""
    return max(1, int((expires_at - now).total_seconds() / scale))
