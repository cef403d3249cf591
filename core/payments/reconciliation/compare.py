"""Compare the gateway's invoices and refunds with ours (docs/operating.md#comparison-with-the-gateway).

First all invoices of the gateway's list are compared, then the requests whose invoice was not listed. Whatever differs
is read again on both sides before it counts, because payments go on during the comparison.
"""

import datetime as dt
from collections.abc import AsyncIterator, Sequence

import attrs

from core.base.progress import Report, part, unreported
from core.payments.gateway_calls import PAID_STATUSES, CallCase, InvoiceCall, UnreadableCall, read_invoice_call, time_of
from core.payments.reconciliation import compare_refunds
from core.payments.reconciliation.compare_refunds import NONE, ComparedRefunds, RefundFinding
from core.payments.reconciliation.rules import InvoiceDifference, KnownRequest, invoice_difference, is_invoice_under_way
from core.payments.reconciliation.store import known_requests, listed_since, recorded, requests_since
from core.payments.states import PaymentStatus
from core.providers.gateway import Gateway, Invoice
from core.runtime.container import Runtime

LISTED, COMPARED = 0.8, 0.95  # shares of the time after the two first steps
RECORDABLE = frozenset(
    {InvoiceDifference.PAID_NOT_FITTING, InvoiceDifference.AMOUNT_DIFFERS, InvoiceDifference.UNKNOWN_REQUEST}
)


@attrs.frozen(kw_only=True)
class InvoiceFinding:
    """One difference. Amounts are in Rupiah. `invoice` is None if the gateway does not know it."""

    difference: InvoiceDifference
    payment_request_id: str | None
    status: PaymentStatus | None
    amount: int | None
    gateway_invoice_id: str | None
    invoice_status: str | None
    invoice_amount: int | None
    paid_amount: int | None
    invoice: Invoice | None = attrs.field(repr=False)


@attrs.frozen(kw_only=True)
class Reconciliation:
    """How many invoices and requests were compared between two moments of real time, and what differs.

    `under_way` invoices changed too late to be compared, `foreign` ones belong to other systems, and `recorded` ones
    differ, but the log of webhook calls shows them to operators. Refunds are counted apart in `refunds`, the rest
    together.
    """

    since: dt.datetime
    until: dt.datetime
    invoices: int
    requests: int
    refunds: int
    under_way: int
    foreign: int
    recorded: int
    findings: Sequence[InvoiceFinding]
    refund_findings: Sequence[RefundFinding]

    @property
    def differs(self) -> bool:
        """Return whether a difference was found."""
        return bool(self.findings or self.refund_findings)


async def reconcile(
    runtime: Runtime, *, since: dt.datetime, until: dt.datetime | None = None, report: Report = unreported
) -> Reconciliation:
    """Compare the invoices and requests that were made or paid since a moment of real time, and refunds if they are on.

    `until`: the real time of the newest data, for a restored database; None: now. Raises GatewayUnavailable, and
    ValueError if the gateway is disabled.
    """
    if runtime.gateway is None:
        raise ValueError("the gateway is disabled")
    work = _InvoiceComparison(runtime, runtime.gateway, until or runtime.clock.real_now())
    expected = await listed_since(runtime.db, runtime.clock.service_time(since))
    listed = 0
    async for page in runtime.gateway.changed_since(since):
        listed += len(page)
        report(LISTED * min(1.0, listed / max(1, expected)), f"{listed} invoices")
        await work.compare(page)
    report(LISTED, "payment requests")
    await work.look_for_unlisted(since)
    refunds = NONE
    if runtime.settings.refunds_enabled:
        refunds = await compare_refunds.compare(runtime, runtime.gateway, since=since, until=work.until)
    return await work.result(since, refunds, part(report, COMPARED, 1.0))


class _InvoiceComparison:
    def __init__(self, runtime: Runtime, gateway: Gateway, until: dt.datetime) -> None:
        self._runtime = runtime
        self._gateway = gateway
        self.until = until
        self._listed: set[str] = set()
        self._suspects: list[tuple[str | None, str | None]] = []  # (payment request, invoice)
        self._requests = self._under_way = self._foreign = 0

    async def compare(self, page: Sequence[Invoice]) -> None:
        """Compare a page of the gateway's list."""
        new = [invoice for invoice in page if invoice.id not in self._listed]
        self._listed |= {invoice.id for invoice in new}
        read = [(invoice, self._read(invoice)) for invoice in new]
        known = await self._known([call.external_id for _, call in read if isinstance(call, InvoiceCall)])
        for invoice, call in read:
            if not isinstance(call, InvoiceCall):
                self._foreign += call.case is not CallCase.INVALID_PAYLOAD
                if call.case is CallCase.INVALID_PAYLOAD and invoice.status in PAID_STATUSES:
                    self._suspects.append((None, invoice.id))
            elif self._is_under_way(invoice, call):
                self._under_way += 1
            elif self._difference(call, known.get(call.external_id)) is not None:
                self._suspects.append((call.external_id, invoice.id))

    async def look_for_unlisted(self, since: dt.datetime) -> None:
        """Find requests that should have an invoice, and whose invoice was not listed."""
        async for ids in self._since(since):
            for request_id, known in (await self._known(ids)).items():
                self._requests += 1
                invoice_id = known.issued.invoice_id
                if invoice_id not in self._listed and not known.by_hand and (invoice_id or known.issued.was_confirmed):
                    self._suspects.append((request_id, invoice_id))

    async def result(self, since: dt.datetime, refunds: ComparedRefunds, report: Report) -> Reconciliation:
        """Read all suspects again, and return what differs."""
        looks = []
        for number, suspect in enumerate(self._suspects):
            report(number / len(self._suspects), f"{len(self._suspects) - number} differences to read again")
            looks.append(await self._look(*suspect))
        found = [one for one in looks if one is not None]
        odd = [one.gateway_invoice_id or "" for one in found if one.difference in RECORDABLE]
        shown = await recorded(self._runtime.db, odd) if odd else set[str]()
        left = [one for one in found if one.difference not in RECORDABLE or one.gateway_invoice_id not in shown]
        return Reconciliation(
            since=since,
            until=self.until,
            invoices=len(self._listed) - self._foreign,
            requests=self._requests,
            refunds=refunds.refunds,
            under_way=self._under_way + refunds.under_way,
            foreign=self._foreign,
            recorded=len(found) - len(left) + refunds.recorded,
            findings=left,
            refund_findings=refunds.findings,
        )

    async def _look(self, request_id: str | None, invoice_id: str | None) -> InvoiceFinding | None:
        """Read an invoice and its request, and compare them again."""
        if invoice_id is not None:
            invoice = await self._gateway.get(invoice_id)
        else:
            assert request_id is not None
            invoice = await self._gateway.find(request_id)
        known = (await self._known([request_id])).get(request_id) if request_id is not None else None
        call = self._read(invoice) if invoice is not None else None
        if isinstance(call, InvoiceCall):
            assert invoice is not None
            found = None if self._is_under_way(invoice, call) else self._difference(call, known)
        else:
            found = InvoiceDifference.UNKNOWN_INVOICE if call is None else InvoiceDifference.PAID_NOT_FITTING
        if found is None:
            return None
        issued = known.issued if known is not None else None
        return InvoiceFinding(
            difference=found,
            payment_request_id=request_id,
            status=issued.status if issued else None,
            amount=issued.amount if issued else None,
            gateway_invoice_id=invoice_id or (invoice.id if invoice else None),
            invoice_status=invoice.status if invoice else None,
            invoice_amount=call.amount if isinstance(call, InvoiceCall) else None,
            paid_amount=call.paid_amount if isinstance(call, InvoiceCall) else None,
            invoice=invoice,
        )

    def _read(self, invoice: Invoice) -> InvoiceCall | UnreadableCall:
        return read_invoice_call(invoice.body, app_tag=self._runtime.settings.gateway_app_tag)

    def _difference(self, call: InvoiceCall, known: KnownRequest | None) -> InvoiceDifference | None:
        return invoice_difference(call, known, now=self._runtime.now())

    def _is_under_way(self, invoice: Invoice, call: InvoiceCall) -> bool:
        created, updated = (time_of(invoice.body.get(name)) for name in ("created", "updated"))
        return is_invoice_under_way(call, created=created, updated=updated, until=self.until)

    async def _known(self, request_ids: Sequence[str]) -> dict[str, KnownRequest]:
        return await known_requests(self._runtime.db, request_ids)

    async def _since(self, since: dt.datetime) -> AsyncIterator[list[str]]:
        """Yield the ids of the requests that were made or confirmed since then, in portions."""
        begin, last = self._runtime.clock.service_time(since), None
        while True:
            found = await requests_since(self._runtime.db, begin, after=last)
            if not found:
                return
            last = found[-1]
            yield [request_id for _, request_id in found]
