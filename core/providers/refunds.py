"""Make a refund at the payment gateway, find out what became of it, and list them all (docs/protocol.md#refunds).

The gateway is always asked first which refunds it has, and the idempotency key of a refund never changes. So the
gateway makes at most one refund for a reference, however often it is asked.
"""

import asyncio
import operator
from collections.abc import AsyncIterator, Mapping
from typing import Any, Protocol

import attrs

from core.base.errors import GatewayUnavailable
from core.base.plain_json import plain_text, storable
from core.providers.circuit import Circuit
from core.providers.gateway_api import CURRENCY, GatewayAnswer, GatewayApi, in_path, pages
from core.providers.http_client import Operation
from core.settings.settings import Settings
from core.telemetry import logs

WHOLE_S = 14.0  # for all calls about one refund
MOST_LISTED = "100"  # refunds of one invoice
REASON = "CANCELLATION"  # the gateway's word for a service that was not given
# Refusals that say nothing about this refund: our key is wrong, or the gateway is at it.
UNDECIDED = frozenset({401, 404, 408, 409, 425})
UNDECIDED_CODES = frozenset({"REQUEST_FORBIDDEN_ERROR", "INVALID_API_KEY", "REFUND_IN_PROGRESS", "DUPLICATE_ERROR"})
UNKNOWN_PAYMENT = "DATA_NOT_FOUND"  # a 404 that decides
log = logs.get("gateway")


@attrs.frozen(kw_only=True)
class WantedRefund:
    """The refund to make. `reference` is also the idempotency key; `refund_id` is the gateway's id, if it is known."""

    reference: str
    invoice_id: str
    refund_id: str | None
    amount: int
    app_tag: str

    def body(self) -> dict[str, Any]:
        """Return the request body that makes the refund."""
        return {
            "reference_id": self.reference,
            "invoice_id": self.invoice_id,
            "amount": self.amount,
            "currency": CURRENCY,
            "reason": REASON,
            "metadata": {"app": self.app_tag},
        }


@attrs.frozen(kw_only=True)
class Declined:
    """The gateway refuses to make the refund, and has none with this reference."""

    code: str


class RefundGateway(Protocol):
    """Makes refunds."""

    def wait_s(self) -> int:
        """Return the whole seconds until the gateway may be asked after failures; 0 if it may be asked now."""
        ...

    def may_ask(self) -> bool:
        """Return whether the gateway may be asked about one refund now. If so, the caller must call `ask` once."""
        ...

    async def ask(self, wanted: WantedRefund) -> dict[str, Any] | Declined:
        """Return the gateway's refund, which is made if there is none. Raises GatewayUnavailable if it is not known."""
        ...


class Refunds:
    """Makes refunds at the gateway, behind a circuit breaker."""

    def __init__(self, api: GatewayApi) -> None:
        self._api = api
        self._circuit = Circuit()

    def wait_s(self) -> int:
        """Return the whole seconds until the gateway may be asked after failures; 0 if it may be asked now."""
        return self._circuit.wait_s()

    def may_ask(self) -> bool:
        """Return whether the gateway may be asked about one refund now. If so, the caller must call `ask` once."""
        return self._circuit.admit()

    async def ask(self, wanted: WantedRefund) -> dict[str, Any] | Declined:
        """Return the gateway's refund, which is made if there is none. Raises GatewayUnavailable if it is not known."""
        try:
            async with asyncio.timeout(WHOLE_S):
                found = await self._ask(wanted)
        except (TimeoutError, GatewayUnavailable) as error:
            self._circuit.failed()
            raise GatewayUnavailable from error
        self._circuit.succeeded()
        return found

    async def page(self, query: Mapping[str, str]) -> list[Any] | None:
        """Return a page of the list of refunds as the gateway sends it. None if it does not answer, or refuses."""
        answer = await self._api.call(Operation.FIND_REFUNDS, "GET", "/refunds", params=query)
        body = answer.body if answer is not None and answer.status < 300 else None
        listed = body.get("data") if isinstance(body, dict) else body
        return listed if isinstance(listed, list) else None

    def pages(self) -> AsyncIterator[list[dict[str, Any]]]:
        """Yield pages of the list until one is empty; each refund has an id. Raises GatewayUnavailable."""
        return pages(
            self.page,
            {"limit": MOST_LISTED},
            parse=_with_id,
            id_of=operator.itemgetter("id"),
            after="after_id",
            repeated="the gateway lists the same refunds again",
        )

    async def get(self, refund_id: str) -> dict[str, Any] | None:
        """Read a refund. Return None if the gateway does not know it. Raises GatewayUnavailable."""
        answer = await self._api.call(Operation.READ_REFUND, "GET", f"/refunds/{in_path(refund_id)}")
        body = answer.body if answer is not None else None
        if answer is None or not isinstance(body, dict):
            raise GatewayUnavailable
        if answer.status == 404 and "error_code" in body:
            return None
        if answer.status >= 300 or body.get("id") != refund_id:
            raise GatewayUnavailable
        return body

    async def _ask(self, wanted: WantedRefund) -> dict[str, Any] | Declined:
        known = await self._known(wanted)
        if known is not None:
            return known
        answer = await self._api.call(
            Operation.CREATE_REFUND,
            "POST",
            "/refunds",
            json=wanted.body(),
            headers={"idempotency-key": wanted.reference},
        )
        if answer is None:
            raise GatewayUnavailable
        if answer.status < 300:
            return _refund(answer.body, wanted)
        declined = _refusal(answer)
        if declined is None:
            log.warning("the gateway does not decide about a refund", reference=wanted.reference, status=answer.status)
            raise GatewayUnavailable
        # Another process may have made it, or an earlier call that got no answer.
        return await self._known(wanted) or declined

    async def _known(self, wanted: WantedRefund) -> dict[str, Any] | None:
        """Return the refund that the gateway has; None without one."""
        if wanted.refund_id is not None:
            path = f"/refunds/{in_path(wanted.refund_id)}"
            return _refund(_ok(await self._api.call(Operation.READ_REFUND, "GET", path)).body, wanted)
        query = {"invoice_id": wanted.invoice_id, "limit": MOST_LISTED}
        listed = await self.page(query)
        if listed is None:
            raise GatewayUnavailable
        ours = [one for one in listed if isinstance(one, dict) and one.get("reference_id") == wanted.reference]
        return _refund(ours[0], wanted) if ours else None


class DevelopmentRefunds:
    """Stands in for a disabled gateway in development: a refund is made, and paid back when asked again."""

    def wait_s(self) -> int:
        """Return 0."""
        return 0

    def may_ask(self) -> bool:
        """Return True."""
        return True

    async def ask(self, wanted: WantedRefund) -> dict[str, Any] | Declined:
        """Return the refund: pending at first, then paid back."""
        status = "PENDING" if wanted.refund_id is None else "SUCCEEDED"
        return {**wanted.body(), "id": f"dev-refund-{wanted.reference}", "status": status}


class HasRefunds(Protocol):
    """The gateway."""

    @property
    def refunds(self) -> RefundGateway: ...


def gateway_of(settings: Settings, gateway: HasRefunds | None) -> RefundGateway | None:
    """Return what makes refunds: the gateway, or its stand-in in development. None in production without a gateway."""
    if gateway is not None:
        return gateway.refunds
    return DevelopmentRefunds() if settings.development_routes else None


def _with_id(refund: Any) -> dict[str, Any] | None:
    return refund if isinstance(refund, dict) and storable(refund.get("id")) is not None else None


def _ok(answer: GatewayAnswer | None) -> GatewayAnswer:
    """Return a successful answer. Raises GatewayUnavailable for any other."""
    if answer is None or answer.status >= 300:
        raise GatewayUnavailable
    return answer


def _refund(body: Any, wanted: WantedRefund) -> dict[str, Any]:
    """Return a refund of an answer. Raises GatewayUnavailable if it is not the wanted one."""
    if not isinstance(body, dict) or body.get("reference_id") != wanted.reference:
        raise GatewayUnavailable
    return body


def _refusal(answer: GatewayAnswer) -> Declined | None:
    """Return the gateway's refusal; None if the answer does not decide about the refund."""
    code = plain_text(answer.body.get("error_code"), 100) if isinstance(answer.body, dict) else None
    if not code or code in UNDECIDED_CODES or (answer.status in UNDECIDED and code != UNKNOWN_PAYMENT):
        return None
    return Declined(code=code)
