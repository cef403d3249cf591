"""A request at a price of 0 is confirmed at once, without the gateway (docs/product.md#free-requests)."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.http.extensions.steps import answer_extension, create_extension_payment, wait_for_status
from tests.http.gateway.simulated_gateway import CREATE, SimulatedGateway
from tests.http.pairing.steps import earned, failures, read_payment
from tests.stack import World, at_once, new_id, refused
from tools.driving.device import Device

pytestmark = pytest.mark.anyio
MINUTES = itertools.count(101)  # minutes of tiers that no other test uses: a deleted tier keeps its minutes


@contextlib.asynccontextmanager
async def a_free_tier(world: World) -> AsyncIterator[int]:
    """Create a tier at a price of 0; yield its minutes, and delete it at the end."""
    operator, minutes = await world.operator(), next(MINUTES)
    body = {"mode": "chat", "minutes": minutes, "price_idr": 0}
    tier = await operator.post("/internal/pricing/tiers", body)
    try:
        yield minutes
    finally:
        path = f"/internal/pricing/tiers/{tier['id']}"
        await operator.call("DELETE", path, params={"updated_at": tier["updated_at"]})


def no_gateway(*_: Any) -> Any:
    """Fail the test if an invoice is requested."""
    raise AssertionError("an invoice was asked for")


async def free(world: World, customer: Device, **wish: Any) -> dict[str, Any]:
    """Create a free request, which is confirmed in the answer."""
    made = await world.request(customer, **wish)
    assert (made["amount"], made["status"], made["gateway_invoice_url"]) == (0, "confirmed", None)
    return made


async def invoices(world: World, customer: Device) -> list[Any]:
    """Return the stored invoice columns of a customer's requests."""
    return await world.stack.sql(
        """SELECT id FROM invoices_asked WHERE customer_id = $1::text::uuid UNION ALL
           SELECT id FROM payment_requests WHERE customer_id = $1::text::uuid AND gateway_invoice_id IS NOT NULL""",
        customer.user["id"],
    )


@pytest.mark.slow
async def test_free_tier_is_confirmed_at_once_while_the_gateway_is_down(
    world: World, simulated: SimulatedGateway
) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    before = len(simulated.heard)
    simulated.before_create = simulated.on_look = no_gateway
    async with a_free_tier(world) as minutes:
        payment = await free(world, customer, duration_minutes=minutes)
        found = await world.until(lambda: read_payment(customer, payment), lambda view: view["session_id"] is not None)
        await world.until(
            lambda: mitra.get("/api/mitra/chat-requests"),
            lambda view: any(item["session_id"] == found["session_id"] for item in view["items"]),
        )
        await mitra.post(f"/api/mitra/chat-requests/{found['session_id']}/accept")
    assert (await read_payment(customer, payment))["status"] == "consumed"
    assert await earned(world, found["session_id"]) == [("session", 0)]
    assert (len(simulated.heard), await invoices(world, customer)) == (before, [])


async def test_free_first_session_is_confirmed_at_once_for_a_verified_customer(
    world: World, simulated: SimulatedGateway
) -> None:
    operator, customer = await world.operator(), await world.customer()
    path = "/internal/pricing/promotions/first-session"
    before = await operator.get(path)
    change = {"updated_at": before["updated_at"], "enabled": True, "price_idr": 0}
    changed = await operator.call("PATCH", path, change)
    try:
        await refused(world.request(customer, first_session_discount=True), 409, "DISCOUNT_NOT_ELIGIBLE")
        await world.stack.sql(
            "UPDATE customers SET is_anonymous = false, identity_a_sub = id::text WHERE id = $1::text::uuid",
            customer.user["id"],
        )
        payment = await free(world, customer, first_session_discount=True)
        assert payment["is_first_session_discount"]
        await refused(world.request(customer, first_session_discount=True), 409, "SESSION_IN_PROGRESS")
    finally:
        back = {"enabled": before["enabled"], "price_idr": before["price_idr"], "updated_at": changed["updated_at"]}
        await operator.call("PATCH", path, back)
    assert simulated.calls(CREATE, payment["payment_request_id"]) == []


async def test_concurrent_free_requests_become_one_and_a_repeated_key_returns_it(world: World) -> None:
    customer, other = await world.customer(), await world.customer()
    async with a_free_tier(world) as minutes:
        outcomes = await at_once(*(world.request(customer, duration_minutes=minutes) for _ in range(8)))
        assert sorted(outcomes) == ["SESSION_IN_PROGRESS"] * 7 + ["ok"]
        body, headers = {"duration_minutes": minutes}, {"Idempotency-Key": new_id()}
        path = "/api/client/payment/requests"
        first = await other.call("POST", path, body, headers=headers)
        assert first == await other.call("POST", path, body, headers=headers)


async def test_free_request_replaces_a_pending_one_and_voids_its_invoice(
    world: World, simulated: SimulatedGateway
) -> None:
    customer = await world.customer()
    pending = await world.request(customer)
    async with a_free_tier(world) as minutes:
        await free(world, customer, duration_minutes=minutes)
    assert (await read_payment(customer, pending))["status"] == "abandoned"
    name = f"inv-{pending['payment_request_id']}"
    await world.until(lambda: asyncio.sleep(0, simulated.made[name]), lambda made: made["status"] == "EXPIRED")


async def test_free_request_does_not_count_as_a_payment_of_the_customer(world: World) -> None:
    customer = await world.customer()
    async with a_free_tier(world) as minutes:
        payment = await free(world, customer, duration_minutes=minutes)
        await customer.post("/api/client/chat/cancel", {"payment_request_id": payment["payment_request_id"]})
    async with world.setting(invoices_max_per_account_per_hour=1):
        await world.request(customer)
        await refused(world.request(customer), 429, "RATE_LIMITED")


async def test_free_extension_reaches_the_mitra_at_once_and_a_failed_one_blocks_another(
    world: World, simulated: SimulatedGateway
) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    session_id = await world.session(customer, mitra)
    # By default the mitra would have a real second to answer.
    async with world.setting(extension_timeout_seconds=3_600), a_free_tier(world) as minutes:
        payment = await create_extension_payment(customer, session_id, duration_minutes=minutes)
        assert (payment["amount"], payment["status"], payment["gateway_invoice_url"]) == (0, "confirmed", None)
        extension = await wait_for_status(world, payment, "pending")
        await answer_extension(mitra, extension, accept=True)
        assert await earned(world, session_id) == [("session", 12000), ("extension", 0)]
        second = await create_extension_payment(customer, session_id, duration_minutes=minutes)
        await answer_extension(mitra, await wait_for_status(world, second, "pending"), accept=False)
        assert await failures(world, second) == [("extension_rejected", False)]
        error = await refused(
            create_extension_payment(customer, session_id, duration_minutes=minutes), 409, "FREE_REQUEST_OPEN"
        )
        assert error["details"] == {"payment_request_id": second["payment_request_id"]}
        paid = await create_extension_payment(customer, session_id)  # a paid extension is allowed
    assert paid["status"] == "pending"
    ids = [one["payment_request_id"] for one in (payment, second)]
    assert [call for call in simulated.calls(CREATE) if call.about in ids] == []
