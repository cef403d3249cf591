"""The comparison with the gateway's invoices: its list in pages, requests without an invoice, money that is taken."""

import datetime as dt

import pytest

from core.base.clock import as_text
from core.base.errors import GatewayUnavailable
from core.pairing import request as payment_request
from core.payments import void
from core.payments.gateway_calls import CallCase
from core.payments.reconciliation.compare import Reconciliation, reconcile
from core.payments.reconciliation.rules import InvoiceDifference
from tests.flows.conftest import ADDRESS, WISH, Harness
from tests.http.gateway.simulated_gateway import LIST, Reply, SimulatedGateway, error_reply

LONG_AGO = dt.timedelta(hours=1)
FOREIGN = "d3b07384-d9a0-4c9b-8f1e-2f6f0e9c0a11"


async def requested(harness: Harness, simulated: SimulatedGateway, *, pay: bool = True, report: bool = True) -> str:
    """Create a request whose invoice was made, and perhaps paid, an hour ago; return its id."""
    request = await payment_request.request_payment(harness.runtime, await harness.customer(), WISH, address=ADDRESS)
    if pay:
        simulated.pay(request.payment_request_id)
        if report:
            assert await harness.report_paid(request.payment_request_id, request.amount) == "confirmed"
    at = as_text(harness.runtime.now() - LONG_AGO)
    simulated.of(request.payment_request_id)[0].update({"created": at, "updated": at})
    return request.payment_request_id


async def compared(harness: Harness) -> Reconciliation:
    """Compare the last two hours."""
    return await reconcile(harness.runtime, since=harness.runtime.now() - 2 * LONG_AGO)


def said(found: Reconciliation) -> set[tuple[InvoiceDifference, str | None]]:
    """Return the differences with their requests."""
    return {(one.difference, one.payment_request_id) for one in found.findings}


def test_list_in_short_pages_is_read_to_its_end(with_gateway: Harness, simulated: SimulatedGateway) -> None:
    async def play() -> None:
        ids = [await requested(with_gateway, simulated) for _ in range(7)]
        simulated.most_listed = 2
        found = await compared(with_gateway)
        assert (found.invoices, found.requests, found.findings) == (7, 7, [])
        assert len(simulated.calls(LIST)) == 10  # four pages and an empty one, of those made and of those paid
        simulated.of(ids[0])[0]["status"] = "PENDING"
        assert said(await compared(with_gateway)) == {(InvoiceDifference.CONFIRMED_NOT_PAID, ids[0])}

    with_gateway.run(play())


def test_money_that_was_never_reported_is_found_and_taken_once(
    with_gateway: Harness, simulated: SimulatedGateway
) -> None:
    async def play() -> None:
        request_id = await requested(with_gateway, simulated, report=False)
        found = await compared(with_gateway)
        assert said(found) == {(InvoiceDifference.PAID_NOT_CONFIRMED, request_id)}
        (invoice,) = [one.invoice for one in found.findings]
        assert invoice is not None
        assert await void.take(with_gateway.runtime, invoice) is CallCase.CONFIRMED
        assert await void.take(with_gateway.runtime, invoice) is CallCase.DUPLICATE
        assert (await compared(with_gateway)).findings == []

    with_gateway.run(play())


def test_money_that_does_not_fit_is_recorded_and_then_no_difference(
    with_gateway: Harness, simulated: SimulatedGateway
) -> None:
    async def play() -> None:
        request_id = await requested(with_gateway, simulated, report=False)
        simulated.of(request_id)[0]["paid_amount"] -= 1
        found = await compared(with_gateway)
        assert said(found) == {(InvoiceDifference.PAID_NOT_FITTING, request_id)}
        assert found.findings[0].invoice is not None
        assert await void.take(with_gateway.runtime, found.findings[0].invoice) is CallCase.CONFLICT
        again = await compared(with_gateway)
        assert (again.findings, again.recorded) == ([], 0)  # the books have what was paid
        sql = "SELECT source, processing_result FROM webhook_logs WHERE external_id = $1"
        rows = await with_gateway.runtime.db.fetch(sql, request_id)
        assert [tuple(row) for row in rows] == [("poll", "conflict")]

    with_gateway.run(play())


def test_request_that_a_restore_has_lost_is_found(with_gateway: Harness, simulated: SimulatedGateway) -> None:
    async def play() -> None:
        at = as_text(with_gateway.runtime.now() - LONG_AGO)
        simulated.make(FOREIGN, 12_000, created=at, metadata={"app": "sesi"})
        assert said(await compared(with_gateway)) == {(InvoiceDifference.UNKNOWN_REQUEST, FOREIGN)}
        simulated.of(FOREIGN)[0]["metadata"] = {"app": "another"}
        found = await compared(with_gateway)
        assert (found.findings, found.foreign, found.invoices) == ([], 1, 0)

    with_gateway.run(play())


def test_invoice_that_the_gateway_does_not_know_is_found(with_gateway: Harness, simulated: SimulatedGateway) -> None:
    async def play() -> None:
        request_id = await requested(with_gateway, simulated)
        assert (await compared(with_gateway)).findings == []
        simulated.made.clear()
        assert said(await compared(with_gateway)) == {(InvoiceDifference.UNKNOWN_INVOICE, request_id)}

    with_gateway.run(play())


def test_payment_of_the_last_moments_is_not_compared(with_gateway: Harness, simulated: SimulatedGateway) -> None:
    async def play() -> None:
        request_id = await requested(with_gateway, simulated, report=False)
        simulated.of(request_id)[0]["paid_at"] = as_text(with_gateway.runtime.now())
        found = await compared(with_gateway)
        assert (found.findings, found.under_way) == ([], 1)

    with_gateway.run(play())


def test_gateway_that_does_not_list_or_repeats_itself_is_no_success(
    with_gateway: Harness, simulated: SimulatedGateway
) -> None:
    async def play() -> None:
        await requested(with_gateway, simulated)
        simulated.on_look = lambda heard: error_reply(500, "SERVER_ERROR") if heard.kind == LIST else None
        with pytest.raises(GatewayUnavailable):
            await compared(with_gateway)
        page = list(simulated.made.values())
        simulated.on_look = lambda heard: Reply(status=200, body=page) if heard.kind == LIST else None
        with pytest.raises(GatewayUnavailable):
            await compared(with_gateway)

    with_gateway.run(play())
