"""Commands that compare the service with its payment gateway."""

import argparse
import datetime as dt
import json
from typing import Any

import attrs
from rich.markup import escape
from rich.table import Table

from core.app.reactions import react
from core.base.clock import as_text
from core.base.errors import GatewayUnavailable
from core.base.progress import Report
from core.payments import void
from core.payments.gateway_calls import PAID_STATUSES
from core.payments.gateway_calls import ProcessingResult as Result
from core.payments.reconciliation.compare import InvoiceFinding, Reconciliation, reconcile
from core.payments.reconciliation.rules import MEANINGS, MONEY
from core.runtime.container import Runtime
from tools.commands import environment, progress
from tools.commands.running import Failed, console, with_runtime

DISABLED = "GATEWAY_ENABLED: expected true: without a gateway there are no invoices to compare with"
SILENT = "the gateway did not answer, or refused to list its invoices or refunds: check the settings GATEWAY_* by `sesi doctor`"
Taken = dict[str, Result]  # by invoice


def reconcile_invoices(args: argparse.Namespace) -> int:
    """Compare the gateway's invoices and refunds with ours; return 1 if a difference is left."""
    if not environment.read().gateway_enabled:
        raise Failed(DISABLED)

    async def work(runtime: Runtime) -> int:
        with progress.shown("compare") as report:
            found = await read(runtime, since=args.since, report=report)
        taken = await _take(runtime, found) if args.apply else {}
        if args.json:
            print(json.dumps(as_json(found, taken), indent=2))
        else:
            show(found, taken)
        left = [one for one in found.findings if _result(one, taken) in (None, Result.CONFLICT)]
        return 1 if left or found.refund_findings else 0

    return with_runtime(work, react=react if args.apply else None)


async def read(
    runtime: Runtime, *, since: dt.datetime, until: dt.datetime | None = None, report: Report
) -> Reconciliation:
    """Compare both sides since a moment. Raises Failed if the gateway does not answer."""
    try:
        return await reconcile(runtime, since=since, until=until, report=report)
    except GatewayUnavailable as error:
        raise Failed(SILENT) from error


async def _take(runtime: Runtime, found: Reconciliation) -> Taken:
    """Apply the paid invoices among the findings."""
    paid = [one.invoice for one in found.findings if one.difference in MONEY and one.invoice is not None]
    return {
        invoice.id: (await void.take(runtime, invoice)).result for invoice in paid if invoice.status in PAID_STATUSES
    }


def _result(finding: InvoiceFinding, taken: Taken) -> Result | None:
    return taken.get(finding.gateway_invoice_id) if finding.gateway_invoice_id is not None else None


def as_json(found: Reconciliation, taken: Taken) -> dict[str, Any]:
    """Return a comparison as plain values. `taken`: invoice -> what its money led to."""
    differences = [
        {
            **attrs.asdict(one, filter=attrs.filters.exclude(attrs.fields(InvoiceFinding).invoice)),
            "taken": _result(one, taken),
        }
        for one in found.findings
    ]
    names = ("invoices", "requests", "refunds", "under_way", "foreign", "recorded")
    return {
        "since": as_text(found.since),
        "until": as_text(found.until),
        **{name: getattr(found, name) for name in names},
        "differences": differences,
        "refund_differences": [attrs.asdict(one) for one in found.refund_findings],
    }


def show(found: Reconciliation, taken: Taken | None = None) -> None:
    """Print a comparison: one row for each difference, and the counts."""
    if found.findings:
        titles = ("difference", "payment request", "here", "Rp", "invoice", "gateway", "Rp", "paid Rp")
        table = Table(*titles, *(["taken"] if taken else []))
        for one in found.findings:
            cells = (one.payment_request_id, one.status, one.amount, one.gateway_invoice_id, one.invoice_status)
            row = (MEANINGS[one.difference], *cells, one.invoice_amount, one.paid_amount)
            row += (_result(one, taken),) if taken else ()
            table.add_row(*map(_cell, row))
        console.print(table)
    if found.refund_findings:
        table = Table("difference", "failed pairing", "here", "Rp", "refund", "gateway", "Rp")
        for one in found.refund_findings:
            ours = (MEANINGS[one.difference], one.reference, one.status, one.amount)
            table.add_row(*map(_cell, (*ours, one.gateway_refund_id, one.gateway_status, one.gateway_amount)))
        console.print(table)
    said = [f"{found.invoices} invoices and {found.requests} paid or pending requests since {as_text(found.since)}"]
    said += [f"{found.refunds} refunds"] if found.refunds else []
    said += [f"{found.under_way} too new to compare"] if found.under_way else []
    said += [f"{found.foreign} of other systems"] if found.foreign else []
    said += [f"{found.recorded} conflicts that the log of webhook calls has"] if found.recorded else []
    console.print(f"{', '.join(said)}: {len(found.findings) + len(found.refund_findings)} differences")


def _cell(value: Any) -> str:
    return "" if value is None else escape(str(value))
