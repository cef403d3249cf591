"""Compare the gateway's refunds with ours (docs/operating.md#comparison-with-the-gateway).

As with invoices, a difference counts only if it is still there when both sides are read again.
"""

import datetime as dt
from collections.abc import AsyncIterator, Sequence
from typing import Any

import attrs

from core.base import id_ranges
from core.payments.gateway_calls import (
    CallCase,
    InvoiceCall,
    RefundCall,
    UnreadableCall,
    read_invoice_call,
    read_refund_call,
    time_of,
    whole_idr,
)
from core.payments.reconciliation.rules import KnownRefund, RefundDifference, is_refund_under_way, refund_difference
from core.payments.reconciliation.store import failure_to_act_on, known_refund, recorded, refunds_since
from core.payments.refunds.states import RefundStatus
from core.providers.gateway import Gateway
from core.runtime.container import Runtime


@attrs.frozen(kw_only=True)
class RefundFinding:
    """One difference. `reference` is the id of our failure or refund. Amounts are in Rupiah.

    `gateway_status` is None if the gateway does not know the refund.
    """

    difference: RefundDifference
    reference: str
    status: RefundStatus | None
    amount: int | None
    gateway_refund_id: str
    gateway_status: str | None
    gateway_amount: int | None


@attrs.frozen(kw_only=True)
class ComparedRefunds:
    """How many refunds of the gateway there are, and what differs; `under_way` and `recorded` as for invoices."""

    refunds: int
    under_way: int
    recorded: int
    findings: Sequence[RefundFinding]


NONE = ComparedRefunds(refunds=0, under_way=0, recorded=0, findings=())


async def compare(runtime: Runtime, gateway: Gateway, *, since: dt.datetime, until: dt.datetime) -> ComparedRefunds:
    """Compare the refunds that were made since a moment of real time. Raises GatewayUnavailable."""
    work = _RefundComparison(runtime, gateway, until)
    async for page in _made_since(gateway, since):
        for refund in page:
            await work.compare(refund)
    await work.look_for_unlisted(since)
    return await work.result()


async def _made_since(gateway: Gateway, since: dt.datetime) -> AsyncIterator[list[dict[str, Any]]]:
    """Yield the refunds that were made since then, and those without a time.

    The list has no filter by time. It is read until it is older than `since`, or to its end if its order is another.
    """
    last, newest_first = None, True
    async for page in gateway.refunds.pages():
        times = [time_of(refund.get("created")) for refund in page]
        yield [refund for refund, at in zip(page, times, strict=True) if at is None or at >= since]
        for at in times:
            newest_first = newest_first and at is not None and (last is None or at <= last)
            last = at
        if newest_first and last is not None and last < since:
            return


class _RefundComparison:
    def __init__(self, runtime: Runtime, gateway: Gateway, until: dt.datetime) -> None:
        self._runtime = runtime
        self._gateway = gateway
        self._until = until
        self._listed: set[str] = set()
        self._suspects: list[tuple[str, str]] = []  # (our reference, the gateway's refund)
        self._refunds = self._under_way = 0

    async def compare(self, refund: dict[str, Any]) -> None:
        """Compare a refund of the gateway's list."""
        if refund["id"] in self._listed:
            return
        self._listed.add(refund["id"])
        read = await self._read(refund)
        if read is None:
            return
        report, known = read
        self._refunds += 1
        if self._is_under_way(refund):
            self._under_way += 1
        elif refund_difference(report, known) is not None:
            self._suspects.append((report.reference, refund["id"]))

    async def look_for_unlisted(self, since: dt.datetime) -> None:
        """Find refunds of ours that the gateway did not list."""
        ours = await refunds_since(self._runtime.db, id_ranges.first_id(since))
        self._suspects += [(reference, refund_id) for reference, refund_id in ours if refund_id not in self._listed]

    async def result(self) -> ComparedRefunds:
        """Read all suspects again, and return what differs."""
        looks = [await self._look(*suspect) for suspect in self._suspects]
        found = [look for look in looks if look is not None]
        shown = await recorded(self._runtime.db, [one.gateway_refund_id for one in found])
        left = [one for one in found if one.gateway_refund_id not in shown]
        return ComparedRefunds(
            refunds=self._refunds, under_way=self._under_way, recorded=len(found) - len(left), findings=left
        )

    async def _look(self, reference: str, refund_id: str) -> RefundFinding | None:
        """Read a refund on both sides, and compare them again."""
        refund = await self._gateway.refunds.get(refund_id)
        known = await self._known(reference)
        read = await self._read(refund) if refund is not None else None
        if refund is None:
            found = RefundDifference.UNKNOWN_REFUND
        elif read is None or self._is_under_way(refund):
            found = None
        else:
            found = refund_difference(read[0], known)
        if found is None:
            return None
        return RefundFinding(
            difference=found,
            reference=reference,
            status=known.status if known is not None else None,
            amount=known.amount if known is not None else None,
            gateway_refund_id=refund_id,
            gateway_status=str(refund.get("status")) if refund is not None else None,
            gateway_amount=whole_idr(refund.get("amount")) if refund is not None else None,
        )

    async def _read(self, refund: dict[str, Any]) -> tuple[RefundCall, KnownRefund | None] | None:
        """Return the parsed refund and ours, None if it is not about money of ours.

        One that was made by hand at the gateway is about the failure that waits for an operator, if there is one.
        """
        app_tag = self._runtime.settings.gateway_app_tag
        report = read_refund_call(refund, app_tag=app_tag)
        if report in (UnreadableCall(CallCase.FOREIGN_APP), UnreadableCall(CallCase.INVALID_PAYLOAD)):
            return None
        if isinstance(report, RefundCall) and (known := await self._known(report.reference)) is not None:
            return report, known
        request_id = await self._paid_request(refund)
        if request_id is None:
            is_ours = isinstance(refund.get("metadata"), dict) and refund["metadata"].get("app") == app_tag
            return (report, None) if isinstance(report, RefundCall) and is_ours else None
        failure_id = await failure_to_act_on(self._runtime.db, request_id)
        if failure_id is None:
            return (report, None) if isinstance(report, RefundCall) else None
        by_hand = read_refund_call({**refund, "reference_id": failure_id}, app_tag=app_tag)
        return (by_hand, await self._known(failure_id)) if isinstance(by_hand, RefundCall) else None

    async def _paid_request(self, refund: dict[str, Any]) -> str | None:
        """Return the payment request whose invoice was refunded, None if it is not ours."""
        invoice_id = refund.get("invoice_id")
        invoice = await self._gateway.get(invoice_id) if isinstance(invoice_id, str) and invoice_id else None
        call = (
            read_invoice_call(invoice.body, app_tag=self._runtime.settings.gateway_app_tag)
            if invoice is not None
            else None
        )
        return call.external_id if isinstance(call, InvoiceCall) else None

    def _is_under_way(self, refund: dict[str, Any]) -> bool:
        created, updated = (time_of(refund.get(name)) for name in ("created", "updated"))
        return is_refund_under_way(created, updated, until=self._until)

    async def _known(self, reference: str) -> KnownRefund | None:
        return await known_refund(self._runtime.db, reference)
