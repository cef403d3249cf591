"""The price that the customer was shown: `expected_amount` (docs/product.md#tiers)."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.http.pairing.steps import end_now
from tests.stack import World, new_id, refused
from tools.driving.device import Device

pytestmark = pytest.mark.anyio

REQUESTS = "/api/client/payment/requests"
TIERS = "/internal/pricing/tiers"
PROMOTION = "/internal/pricing/promotions/first-session"
MINUTES = 59  # no other file has a tier of them


class Price:
    """A price that an operator changes: that of a tier, or of the discount."""

    def __init__(self, operator: Device, path: str) -> None:
        self._operator = operator
        self._path = path

    async def change(self, price: int) -> None:
        """Set the price in Rupiah."""
        if self._path == PROMOTION:
            now = await self._operator.get(PROMOTION)
        else:
            (now,) = [one for one in (await self._operator.get(TIERS))["items"] if self._path.endswith(one["id"])]
        body = {"updated_at": now["updated_at"], "price_idr": price}
        await self._operator.call("PATCH", self._path, body)


@contextlib.asynccontextmanager
async def tier(world: World) -> AsyncIterator[Price]:
    """Sell MINUTES minutes of chat for Rp 9,000."""
    operator = await world.operator()
    made = await operator.post(TIERS, {"mode": "chat", "minutes": MINUTES, "price_idr": 9000})
    path = f"{TIERS}/{made['id']}"
    try:
        yield Price(operator, path)
    finally:
        (now,) = [one for one in (await operator.get(TIERS))["items"] if one["id"] == made["id"]]
        await operator.call("DELETE", path, params={"updated_at": now["updated_at"]})


async def check(customer: Device, price: Price, path: str, **body: Any) -> None:
    """Check that a wish is refused at another price than the one shown, and accepted at the present one."""
    await price.change(12_000)
    for wrong in (0, 9_000, 12_001):
        error = await refused(customer.post(path, {**body, "expected_amount": wrong}), 409, "PRICE_CHANGED")
        assert error["details"] == {"amount": 12_000}
    assert [one for one in (await customer.get(REQUESTS))["items"] if one["status"] == "pending"] == []
    made = await customer.post(path, {**body, "expected_amount": 12_000})
    assert (made["amount"], made["status"]) == (12_000, "pending")
    await customer.post(f"{REQUESTS}/{made['payment_request_id']}/abandon")


async def test_request_at_another_price_than_the_shown_one_is_price_changed(world: World) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    async with tier(world) as price:
        wish: dict[str, Any] = {"duration_minutes": MINUTES}
        await check(customer, price, REQUESTS, **wish)
        await check(customer, price, REQUESTS, **wish, accept_wait=True)
        session = await world.session(customer, mitra)
        await check(customer, price, REQUESTS, **wish, is_extension=True, session_id=session)
        await price.change(0)
        free = {**wish, "is_extension": True, "session_id": session, "expected_amount": 12_000}
        assert (await refused(customer.post(REQUESTS, free), 409, "PRICE_CHANGED"))["details"] == {"amount": 0}
        await end_now(world, customer, session)
        await check(customer, price, "/api/client/chat/returning", **wish, mitra_id=mitra.user["id"], mode="chat")
        await check(customer, price, REQUESTS, **wish, targeted_mitra_id=mitra.user["id"])


async def test_discount_at_another_price_than_the_shown_one_is_price_changed(world: World) -> None:
    customer, price = await world.customer(), Price(await world.operator(), PROMOTION)
    try:
        await check(customer, price, REQUESTS, first_session_discount=True)
    finally:
        await price.change(2_000)


async def test_refused_price_leaves_the_pending_request_and_the_key(world: World) -> None:
    customer = await world.customer()
    key = {"Idempotency-Key": new_id()}
    pending = await world.request(customer)
    wish = {"duration_minutes": 12, "expected_amount": 11_999}
    await refused(customer.call("POST", REQUESTS, wish, headers=key), 409, "PRICE_CHANGED")
    assert (await customer.get(f"{REQUESTS}/{pending['payment_request_id']}"))["status"] == "pending"
    made = await customer.call("POST", REQUESTS, {**wish, "expected_amount": 12_000}, headers=key)
    assert await customer.call("POST", REQUESTS, {**wish, "expected_amount": 12_000}, headers=key) == made


@pytest.mark.parametrize("amount", [-1, 12_000.5, "12000", True])
async def test_expected_amount_that_is_no_amount_is_named(world: World, amount: Any) -> None:
    body = {"duration_minutes": 12, "expected_amount": amount}
    error = await refused((await world.customer()).post(REQUESTS, body), 422, "VALIDATION_ERROR")
    assert [one["field"] for one in error["details"]["fields"]] == ["expected_amount"]
