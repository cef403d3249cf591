"""How an invoice of the gateway may differ from its payment request."""

import datetime as dt
from typing import Any

import pytest

from core.payments.gateway_calls import InvoiceCall, Issued
from core.payments.reconciliation.rules import (
    UNDER_WAY,
    InvoiceDifference,
    KnownRequest,
    invoice_difference,
    is_invoice_under_way,
)
from core.payments.states import PaymentStatus as P
from tests.each import for_each

NOW = dt.datetime(2026, 11, 25, 12, tzinfo=dt.UTC)
D = InvoiceDifference


def call(status: str = "PAID", **more: Any) -> InvoiceCall:
    """Return an invoice of 12,000 Rupiah."""
    fields = {"invoice_id": "inv", "amount": 12_000, "paid_amount": None, "currency": "IDR", "paid_at": None}
    return InvoiceCall(external_id="x", app_tag="sesi", status=status, **{**fields, **more})


def known(status: P = P.CONSUMED, *, by_hand: bool = False, **more: Any) -> KnownRequest:
    """Return a request of 12,000 Rupiah."""
    confirmed = status in (P.CONFIRMED, P.CONSUMED, P.FAILED_PAIRING)
    fields = {"status": status, "amount": 12_000, "invoice_id": "inv", "was_confirmed": confirmed}
    at = NOW if confirmed else None
    return KnownRequest(issued=Issued(expires_at=NOW, **{**fields, **more}), by_hand=by_hand, confirmed_at=at)


@for_each(
    ("invoice", "request_", "expected"),
    [
        (call(), known(P.CONSUMED), None),
        (call("SETTLED"), known(P.FAILED_PAIRING), None),
        (call(paid_amount=12_000), known(P.CONFIRMED), None),
        (call("PENDING"), known(P.PENDING), None),
        (call("EXPIRED"), known(P.EXPIRED), None),
        (call("EXPIRED"), known(P.ABANDONED), None),
        (call("EXPIRED"), known(P.CONSUMED, by_hand=True), None),
        (call("EXPIRED", invoice_id="surplus"), known(P.CONSUMED), None),
        (call("EXPIRED"), None, None),
        (call(), known(P.PENDING), D.PAID_NOT_CONFIRMED),
        (call(), known(P.EXPIRED), D.PAID_NOT_CONFIRMED),
        (call(), known(P.ABANDONED), D.PAID_NOT_CONFIRMED),
        (call(amount=6_000), known(P.PENDING), D.PAID_NOT_FITTING),
        (call(paid_amount=6_000), known(P.PENDING), D.PAID_NOT_FITTING),
        (call(currency="USD"), known(P.PENDING), D.PAID_NOT_FITTING),
        (call(invoice_id="surplus"), known(P.CONSUMED), D.PAID_NOT_FITTING),
        (call(paid_at=NOW + dt.timedelta(seconds=61)), known(P.CONSUMED, by_hand=True), D.PAID_NOT_CONFIRMED),
        (call(paid_at=NOW + dt.timedelta(seconds=61)), known(P.CONSUMED, by_hand=True, invoice_id=None), None),
        (call(paid_at=NOW + dt.timedelta(seconds=60)), known(P.CONSUMED, by_hand=True), None),
        (call(paid_at=NOW + dt.timedelta(days=1)), known(P.CONSUMED), None),
        (call(), None, D.UNKNOWN_REQUEST),
        (call("PENDING"), None, D.UNKNOWN_REQUEST),
        (call("PENDING"), known(P.CONSUMED), D.CONFIRMED_NOT_PAID),
        (call("EXPIRED"), known(P.CONFIRMED), D.CONFIRMED_NOT_PAID),
        (call(paid_amount=13_000), known(P.CONSUMED), D.AMOUNT_DIFFERS),
        (call(amount=6_000), known(P.CONSUMED), D.AMOUNT_DIFFERS),
        (call(currency="USD"), known(P.CONSUMED), D.AMOUNT_DIFFERS),
        (call("PENDING", amount=6_000), known(P.PENDING), D.AMOUNT_DIFFERS),
        (call("PENDING"), known(P.EXPIRED), D.STILL_PAYABLE),
        (call("PENDING"), known(P.ABANDONED), D.STILL_PAYABLE),
        (call("PENDING"), known(P.CONSUMED, by_hand=True), D.STILL_PAYABLE),
        (call("PENDING", invoice_id="surplus"), known(P.PENDING), D.STILL_PAYABLE),
        (call("EXPIRED"), known(P.PENDING), D.NOT_PAYABLE),
    ],
)
def test_difference_of_an_invoice_and_its_request(
    invoice: InvoiceCall, request_: KnownRequest | None, expected: InvoiceDifference | None
) -> None:
    assert invoice_difference(invoice, request_, now=NOW) is expected


@pytest.mark.parametrize(
    ("invoice", "created", "updated", "expected"),
    [
        (call(paid_at=NOW - UNDER_WAY), None, None, False),
        (call(paid_at=NOW - UNDER_WAY / 2), None, None, True),
        (call(), None, NOW - UNDER_WAY / 2, True),
        (call(), None, None, False),  # without a time it is compared: a false alarm is better than missed money
        (call("EXPIRED"), None, NOW, True),
        (call("PENDING"), NOW - UNDER_WAY * 2, NOW, False),
        (call("PENDING"), NOW - UNDER_WAY / 2, None, True),
    ],
)
def test_invoice_that_changed_just_before_the_end_is_under_way(
    invoice: InvoiceCall, created: dt.datetime | None, updated: dt.datetime | None, expected: bool
) -> None:
    assert is_invoice_under_way(invoice, created=created, updated=updated, until=NOW) is expected
