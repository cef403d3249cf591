"""How often reads make the service ask the gateway, and that polls and invoices have separate circuit breakers."""

import pytest

from core.base.errors import GatewayUnavailable
from core.pairing import request as payment_request
from core.payments import poll as invoice_poll
from core.payments import show as show_payments
from core.payments.views import PaymentRequestView
from core.providers.circuit import FAILURES
from core.providers.gateway import WantedInvoice
from core.telemetry import metrics
from tests.flows.conftest import ADDRESS, WISH, Harness
from tests.http.gateway.simulated_gateway import READ, SimulatedGateway, error_reply


async def pending(harness: Harness) -> PaymentRequestView:
    """Create a pending request with its invoice; return its customer's view of it."""
    customer = await harness.customer()
    made = await payment_request.request_payment(harness.runtime, customer, WISH, address=ADDRESS)
    return await show_payments.payment(harness.runtime, customer, made.payment_request_id)


def limited(name: str) -> float:
    """Return how often a limit has refused."""
    return metrics.LIMITED.labels(name)._value.get()


def test_reads_poll_the_gateway_at_most_twenty_times_a_second(
    with_gateway: Harness, simulated: SimulatedGateway
) -> None:
    async def play() -> None:
        runtime = with_gateway.runtime
        views = [await pending(with_gateway) for _ in range(60)]
        before = limited("invoice_polls")
        began = runtime.now()
        for view in views:
            invoice_poll.after_reading(runtime, view)
        await runtime.tasks.finish_followers()
        took = (runtime.now() - began).total_seconds()
        asked = len(simulated.calls(READ))
        assert 20 <= asked <= 20 + 20 * took
        assert limited("invoice_polls") - before == 60 - asked

    with_gateway.run(play())


def test_reads_while_the_gateway_hangs_do_not_wait_and_do_not_poll(
    with_gateway: Harness, simulated: SimulatedGateway
) -> None:
    async def play() -> None:
        runtime = with_gateway.runtime
        view, *others = [await pending(with_gateway) for _ in range(3)]
        for _ in range(FAILURES):
            simulated.on_look = lambda _: error_reply(503, "SERVER_ERROR")
            with pytest.raises(GatewayUnavailable):
                await runtime.gateway.poll(f"inv-{view.payment_request_id}")  # type: ignore[union-attr]
        asked, before = len(simulated.calls(READ)), set(runtime.tasks._followers)
        for other in others:
            invoice_poll.after_reading(runtime, other)
        assert runtime.tasks._followers <= before  # those that earlier tests began
        assert len(simulated.calls(READ)) == asked

    with_gateway.run(play())


def test_unanswered_polls_do_not_block_new_invoices(with_gateway: Harness, simulated: SimulatedGateway) -> None:
    async def play() -> None:
        gateway = with_gateway.runtime.gateway
        assert gateway is not None
        simulated.on_look = lambda _: error_reply(503, "SERVER_ERROR")
        for _ in range(FAILURES):
            with pytest.raises(GatewayUnavailable):
                await gateway.poll("inv-x")
        assert not gateway.may_poll()
        gateway.check_invoices()
        wanted = WantedInvoice(external_id="x", amount=1, description="x", duration_s=60, app_tag="sesi")
        assert (await gateway.create(wanted)).url is not None

    with_gateway.run(play())


def test_open_circuit_of_invoices_stops_polls_and_leaves_them_due(
    with_gateway: Harness, simulated: SimulatedGateway
) -> None:
    async def play() -> None:
        runtime = with_gateway.runtime
        view = await pending(with_gateway)
        assert runtime.gateway is not None
        sql = "UPDATE payment_requests SET poll_at = invoice_made_at WHERE id = $1::text::uuid"
        await runtime.db.fetch(sql, view.payment_request_id)
        for _ in range(FAILURES):
            runtime.gateway._circuit.failed()
        assert await invoice_poll.poll_due(runtime) == 0
        assert simulated.calls(READ) == []
        runtime.gateway._circuit.succeeded()
        assert await invoice_poll.poll_due(runtime) == 1
        assert len(simulated.calls(READ)) == 1
        assert await invoice_poll.poll_due(runtime) == 0  # the next poll is due some minutes later

    with_gateway.run(play())


def test_half_open_circuit_releases_all_polls_except_one(with_gateway: Harness, simulated: SimulatedGateway) -> None:
    async def play() -> None:
        runtime = with_gateway.runtime
        assert runtime.gateway is not None
        for _ in range(3):
            await pending(with_gateway)
        await runtime.db.fetch("UPDATE payment_requests SET poll_at = invoice_made_at WHERE status = 'pending'")
        for _ in range(FAILURES):
            runtime.gateway._polls.failed()
        runtime.gateway._polls._open_until = 0.0
        simulated.on_look = lambda _: error_reply(503, "SERVER_ERROR")
        assert await invoice_poll.poll_due(runtime) == 1
        due = "SELECT count(*)::int FROM payment_requests WHERE poll_at <= $1"
        assert await runtime.db.fetchval(due, runtime.now()) == 2

    with_gateway.run(play())
