"""Limits of invoices: accounts that never paid get few, and a gateway without answers is not called for a while."""

import asyncio
import threading
import time
from typing import Any

import pytest

from core.base.errors import GatewayUnavailable
from core.payments.invoice_counts import PER_ADDRESS_OF_PAID, PER_PAID_ACCOUNT
from core.providers.circuit import FAILURES, OPEN_S
from core.providers.gateway import INVOICES_AT_ONCE, TURN_S, Gateway, WantedInvoice
from core.providers.http_client import HttpClient
from tests.http.gateway.simulated_gateway import CREATE, READ, SECRET_KEY, VOID, SimulatedGateway, error_reply
from tests.stack import Stack, World, at_once, new_id, refused, within
from tools.driving.device import Device

pytestmark = pytest.mark.anyio
ACCOUNT, ADDRESS = "invoices_max_per_account_per_hour", "invoices_max_per_address_per_hour"


async def from_address(world: World, address: str) -> Device:
    """Return a new customer with this client address."""
    made = await world.customer()
    made._http.headers["X-Forwarded-For"] = address
    return made


def wanted() -> WantedInvoice:
    """Return the parameters of an invoice."""
    return WantedInvoice(external_id=new_id(), amount=12_000, description="x", duration_s=60, app_tag="sesi")


async def test_account_that_never_paid_gets_exactly_the_hourly_limit_of_invoices(
    world: World, simulated: SimulatedGateway
) -> None:
    async with world.setting(**{ACCOUNT: 3}):
        customer, began = await world.customer(), len(simulated.calls(CREATE))
        outcomes = await at_once(*(world.request(customer) for _ in range(12)))
        assert sorted(outcomes) == ["RATE_LIMITED"] * 9 + ["ok"] * 3
        assert len(simulated.calls(CREATE)) - began == 3
        url = world.stack.addresses.public + "/api/client/payment/requests"
        headers = {"Authorization": f"Bearer {customer.access_token}"}
        async with customer._http.post(url, json={"duration_minutes": 12}, headers=headers) as answer:
            assert answer.status == 429
            assert 0 < int(answer.headers["Retry-After"]) <= 3_600
        assert (await world.request(await world.customer()))["status"] == "pending"  # another account


async def test_account_that_has_paid_has_exactly_its_high_limit_of_invoices(world: World) -> None:
    counted = """INSERT INTO invoices_asked (id, customer_id, address, has_paid, asked_at)
      SELECT gen_random_uuid(), CASE WHEN $2 THEN $1::text::uuid ELSE gen_random_uuid() END, $3, true, $5::timestamptz
      FROM generate_series(1, $4::int)"""
    async with world.setting(**{ACCOUNT: 1, ADDRESS: 1}):
        customer = await from_address(world, "198.51.100.21")
        payment = await world.paid(customer)
        await customer.post("/api/client/chat/cancel", {"payment_request_id": payment["payment_request_id"]})
        # The first invoice counts, too.
        await world.stack.sql(
            counted, customer.user["id"], True, "198.51.100.22", PER_PAID_ACCOUNT - 4, await world.service_time()
        )
        outcomes = await at_once(*(world.request(customer) for _ in range(6)))
        assert sorted(outcomes) == ["RATE_LIMITED"] * 3 + ["ok"] * 3
        other = await from_address(world, "198.51.100.23")
        payment = await world.paid(other)
        await other.post("/api/client/chat/cancel", {"payment_request_id": payment["payment_request_id"]})
        await world.stack.sql(
            counted, other.user["id"], False, "198.51.100.23", PER_ADDRESS_OF_PAID - 1, await world.service_time()
        )
        outcomes = await at_once(*(world.request(other) for _ in range(3)))
        assert sorted(outcomes) == ["RATE_LIMITED"] * 2 + ["ok"]


async def test_address_gets_exactly_the_hourly_limit_of_invoices(world: World) -> None:
    async with world.setting(**{ADDRESS: 5}):
        crowd = [await from_address(world, "198.51.100.1") for _ in range(12)]
        stranger = await from_address(world, "198.51.100.2")
        outcomes = await at_once(*(world.request(customer) for customer in crowd), world.request(stranger))
        assert outcomes[-1] == "ok"
        assert sorted(outcomes[:-1]) == ["RATE_LIMITED"] * 7 + ["ok"] * 5
        payer = await from_address(world, "198.51.100.3")
        paid = await world.paid(payer)
        await payer.post("/api/client/chat/cancel", {"payment_request_id": paid["payment_request_id"]})
        payer._http.headers["X-Forwarded-For"] = "198.51.100.1"
        assert (await world.request(payer))["status"] == "pending"


async def test_limited_request_keeps_the_pending_one_and_failed_invoices_do_not_count(
    world: World, simulated: SimulatedGateway
) -> None:
    async with world.setting(**{ACCOUNT: 1}):
        customer = await world.customer()
        simulated.before_create = lambda _: error_reply(400, "API_VALIDATION_ERROR")
        await refused(world.request(customer), 502, "GATEWAY_UNAVAILABLE")
        simulated.answer_normally()
        payment = await world.request(customer)
        await refused(world.request(customer), 429, "RATE_LIMITED")
        seen = await customer.get(f"/api/client/payment/requests/{payment['payment_request_id']}")
        assert seen["status"] == "pending"


async def test_invoice_counts_older_than_an_hour_are_deleted(world: World, stack: Stack) -> None:
    await world.request(await world.customer())
    await stack.sql(
        """INSERT INTO invoices_asked (id, customer_id, address, asked_at)
           SELECT gen_random_uuid(), gen_random_uuid(), 'old', now() - interval '1 year' FROM generate_series(1, 9)"""
    )
    stack.stop("jobs")
    stack.start("jobs")  # every sweep runs at the start

    async def old() -> list[Any]:
        return await stack.sql("SELECT 1 FROM invoices_asked WHERE address = 'old'")

    assert await world.until(old, lambda rows: not rows) == []


@pytest.mark.slow
async def test_circuit_breaker_opens_for_a_silent_gateway_and_tries_again(
    http_client: HttpClient, simulated: SimulatedGateway
) -> None:
    gateway = Gateway(http_client, base_url=simulated.url, secret_key=SECRET_KEY)
    simulated.before_create = lambda _: error_reply(500, "SERVER_ERROR")
    simulated.on_look = lambda _: error_reply(500, "SERVER_ERROR")
    try:
        outcomes = await asyncio.gather(*(gateway.create(wanted()) for _ in range(FAILURES)), return_exceptions=True)
        assert all(isinstance(outcome, GatewayUnavailable) for outcome in outcomes)
        heard, began = len(simulated.heard), time.monotonic()
        for _ in range(50):
            with pytest.raises(GatewayUnavailable) as caught:
                await gateway.create(wanted())
            assert caught.value.retry_after_seconds
        assert time.monotonic() - began < OPEN_S
        assert len(simulated.heard) == heard
    finally:
        simulated.answer_normally()
    await asyncio.sleep(OPEN_S)
    assert (await gateway.create(wanted())).status == "PENDING"
    assert (await gateway.create(wanted())).status == "PENDING"


@pytest.mark.slow
async def test_request_with_an_open_circuit_gets_502_at_once_and_leaves_nothing(
    world: World, simulated: SimulatedGateway
) -> None:
    customer = await world.customer()
    kept = await world.request(customer)
    simulated.before_create = lambda _: error_reply(500, "SERVER_ERROR")
    simulated.on_look = lambda _: error_reply(500, "SERVER_ERROR")
    try:
        await at_once(*[outage(world) for _ in range(FAILURES)])
        heard, began = len(simulated.calls(CREATE)), time.monotonic()
        error = await refused(world.request(customer), 502, "GATEWAY_UNAVAILABLE")
        assert time.monotonic() - began < within(1)
        assert len(simulated.calls(CREATE)) == heard
        assert error["code"] == "GATEWAY_UNAVAILABLE"
    finally:
        simulated.answer_normally()
    rows = await world.stack.sql(
        "SELECT id::text, status FROM payment_requests WHERE customer_id = $1::uuid", customer.user["id"]
    )
    assert [tuple(row) for row in rows] == [(kept["payment_request_id"], "pending")]
    await asyncio.sleep(OPEN_S)
    assert (await world.request(customer))["status"] == "pending"


async def outage(world: World) -> None:
    """Let a new customer's request meet a gateway that does not answer."""
    await refused(world.request(await world.customer()), 502, "GATEWAY_UNAVAILABLE")


@pytest.mark.slow
async def test_hanging_gateway_blocks_a_bounded_number_of_requests(
    http_client: HttpClient, simulated: SimulatedGateway
) -> None:
    gateway, go_on = Gateway(http_client, base_url=simulated.url, secret_key=SECRET_KEY), threading.Event()
    simulated.after_create = lambda *_: go_on.wait(30) and None  # type: ignore[func-returns-value]
    simulated.on_look = lambda _: go_on.wait(30) and None  # type: ignore[func-returns-value]
    calls = len(simulated.calls(CREATE))
    tasks = [asyncio.create_task(gateway.create(wanted())) for _ in range(INVOICES_AT_ONCE + 8)]
    try:
        done, _ = await asyncio.wait(tasks, timeout=within(TURN_S + 1))
        assert len(done) == 8
        assert all(isinstance(task.exception(), GatewayUnavailable) for task in done)
        assert len(simulated.calls(CREATE)) - calls <= INVOICES_AT_ONCE
    finally:
        go_on.set()
        await asyncio.gather(*tasks, return_exceptions=True)
        simulated.answer_normally()


@pytest.mark.parametrize("invoice_id", ["../../v2/disbursements", "..", "a/b?c=d#e", "%2e%2e/x", "in v"])
async def test_invoice_id_with_path_characters_reaches_no_other_route(
    http_client: HttpClient, simulated: SimulatedGateway, invoice_id: str
) -> None:
    gateway = Gateway(http_client, base_url=simulated.url, secret_key=SECRET_KEY)
    assert await gateway.get(invoice_id) is None
    assert not await gateway.void(invoice_id)
    for kind in (READ, VOID):
        about = simulated.calls(kind)[-1].about
        assert not set(about) & set("/?#. ")
