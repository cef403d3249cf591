"""The invoices of the payment gateway: what is asked of it and what it returns (docs/protocol.md#payment-gateway)."""

import datetime as dt
from typing import Any

import attrs

from core.base.plain_json import storable

CURRENCY = "IDR"
PAID, EXPIRED = frozenset({"PAID", "SETTLED"}), "EXPIRED"
LONGEST_URL = 2000


@attrs.frozen(kw_only=True)
class Wanted:
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


def request_body(wanted: Wanted) -> dict[str, Any]:
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


def is_usable(invoice: Invoice, wanted: Wanted) -> bool:
    """Return whether the invoice is for this request, and can be paid or has been paid."""
    amount = invoice.body.get("amount")
    others = isinstance(amount, int | float) and amount != wanted.amount  # an amount in another form is ignored
    ours = invoice.body.get("external_id", wanted.external_id) == wanted.external_id
    return ours and (invoice.status in PAID or (invoice.url is not None and invoice.status != EXPIRED and not others))
