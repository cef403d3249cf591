"""The first-session discount: who gets it, what uses it up, what gives it back
(docs/product.md#first-session-discount).
"""

import asyncio
import secrets
from typing import Any

import pytest

from tests.http.pairing.steps import cancelling, end_now, expire_silently, failed, failures, read_payment
from tests.stack import World, refused
from tests.verdicts import check_books
from tools.driving.device import Device

pytestmark = pytest.mark.anyio

DISCOUNT = {"first_session_discount": True, "duration_minutes": None}


async def eligible(customer: Device) -> bool:
    """Return whether the customer is shown the discount; both routes must agree."""
    pricing = await customer.get("/api/client/chat/pricing")
    state = await customer.get("/api/client/onboarding-state")
    assert pricing["first_session_discount"]["eligible"] == state["first_session_discount_eligible"]
    return state["first_session_discount_eligible"]


async def discounted(world: World, customer: Device, **wish: Any) -> dict[str, Any]:
    """Create a pending request with the discount."""
    return await world.request(customer, **{**DISCOUNT, **wish})


async def test_discounted_request_has_the_promotions_price_and_minutes(world: World) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    assert await eligible(customer)
    for wish in ({}, {"duration_minutes": 12}, {"mode": "chat"}):
        payment = await discounted(world, customer, **wish)
        assert (payment["amount"], payment["duration_minutes"], payment["mode"]) == (2000, 12, "chat")
        assert payment["is_first_session_discount"] is True
    session_id = await world.session(customer, mitra, **DISCOUNT)
    view = await mitra.get(f"/api/shared/chat/sessions/{session_id}")
    assert (view["price"], view["duration_minutes"], view["is_first_session_discount"]) == (2000, 12, True)


@pytest.mark.parametrize(
    "wish",
    [{"duration_minutes": 30}, {"duration_minutes": 13}, {"mode": "call"}, {"mode": "call", "duration_minutes": 12}],
)
async def test_discount_with_other_minutes_or_modes_is_refused(world: World, wish: dict[str, Any]) -> None:
    customer = await world.customer()
    await refused(discounted(world, customer, **wish), 409, "DISCOUNT_NOT_ELIGIBLE")
    assert await eligible(customer)


async def test_disabled_promotion_makes_no_customer_eligible(world: World) -> None:
    customer = await world.customer()
    await world.promotion(enabled=False)
    try:
        assert not await eligible(customer)
        await refused(discounted(world, customer), 409, "DISCOUNT_NOT_ELIGIBLE")
    finally:
        await world.promotion(enabled=True)
    await discounted(world, customer)


async def test_customer_who_was_paired_before_has_no_discount(world: World) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    session_id = await world.session(customer, mitra)  # at the full price
    assert not await eligible(customer)
    await end_now(world, customer, session_id)
    await refused(discounted(world, customer), 409, "DISCOUNT_NOT_ELIGIBLE")
    assert (await world.request(customer))["amount"] == 12000


async def test_replaced_pending_request_does_not_use_the_discount(world: World) -> None:
    customer = await world.customer()
    first = await discounted(world, customer)
    assert await eligible(customer)
    second = await discounted(world, customer)
    assert [(await read_payment(customer, one))["status"] for one in (first, second)] == ["abandoned", "pending"]
    await world.request(customer)  # an ordinary request replaces it too
    assert (await read_payment(customer, second))["status"] == "abandoned"
    assert await eligible(customer)


async def test_confirmed_request_uses_the_discount_and_its_failure_returns_it(world: World) -> None:
    customer = await world.customer()
    payment = await world.paid(customer, **DISCOUNT)
    assert not await eligible(customer)
    details = (await refused(discounted(world, customer), 409, "SESSION_IN_PROGRESS"))["details"]
    assert details == {name: payment[name] for name in ("session_id", "payment_request_id")}
    left = await cancelling(customer, payment)
    assert left["failure"]["cause_tag"] == "customer_cancelled"
    assert await eligible(customer)
    again = await world.paid(customer, **DISCOUNT)
    assert again["status"] == "confirmed"
    # The gateway reports the first request as paid again: nothing follows, the discount is used once.
    assert (await world.webhook(payment))[1]["processing_result"] == "duplicate"
    await cancelling(customer, again)


async def test_expired_request_returns_the_discount_and_a_late_payment_may_find_it_used(world: World) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    late = await discounted(world, customer)
    await expire_silently(world, late)
    assert await eligible(customer)
    session_id = await world.session(customer, mitra, **DISCOUNT)
    await end_now(world, customer, session_id)
    status, answer = await world.webhook(late, paid_at=late["created_at"])
    assert (status, answer["processing_result"]) == (200, "paid_not_pairable")
    assert await failed(world, customer, late) == "payment_session_expired"
    assert await failures(world, late) == [("payment_session_expired", False)]


async def test_twenty_concurrent_discounted_requests_and_payments_get_one_discount(world: World) -> None:
    customer = await world.customer()
    async with asyncio.TaskGroup() as group:
        made = [group.create_task(discounted(world, customer)) for _ in range(20)]
    payments = [task.result() for task in made]
    views = [await read_payment(customer, payment) for payment in payments]
    assert sorted(view["status"] for view in views) == ["abandoned"] * 19 + ["pending"]
    async with asyncio.TaskGroup() as group:
        paid = [group.create_task(result(world, payment)) for payment in payments]
    results = sorted(task.result() for task in paid)
    assert results == ["confirmed"] + ["late_payment_recorded"] * 19
    await one_discount(world, customer, payments)


async def test_twenty_concurrent_late_payments_get_one_discount(world: World) -> None:
    customer = await world.customer()
    payments = []
    for _ in range(20):
        payments.append(await discounted(world, customer))
        await expire_silently(world, payments[-1])
    async with asyncio.TaskGroup() as group:
        paid = [group.create_task(result(world, one, paid_at=one["created_at"])) for one in payments]
    results = sorted(task.result() for task in paid)
    assert results == ["confirmed"] + ["paid_not_pairable"] * 19
    await one_discount(world, customer, payments)


async def result(world: World, payment: dict[str, Any], **more: Any) -> str:
    """Send the gateway's webhook, again after a 503 as the gateway does, and return its result.

    The webhooks of one customer wait for each other, and each is answered in time.
    """
    while True:
        status, answer = await world.webhook(payment, **more)
        if status < 500:
            return answer["processing_result"]


async def one_discount(world: World, customer: Device, payments: list[dict[str, Any]]) -> None:
    """Check that one request has the discount; the other payments wait for an operator."""
    views = [await read_payment(customer, payment) for payment in payments]
    won = [view for view in views if view["status"] == "confirmed"]
    assert len(won) == 1
    others = [view for view in views if view is not won[0]]
    assert {(v["status"], v["failure"]["cause_tag"]) for v in others} == {("failed_pairing", "payment_session_expired")}
    check_books(await world.audit())
    await cancelling(customer, won[0])


async def sign_in(world: World, client: Device, phone: str) -> None:
    """Sign in with this phone number; an anonymous customer joins its account."""
    client._http.headers["X-Forwarded-For"] = f"10.{secrets.randbelow(256)}.{secrets.randbelow(256)}.9"
    made = await client.post("/api/client/auth/otp/request", {"phone": phone})
    code = await world.stack.inbox.code_of(made["otp_request_id"])
    body = {"otp_request_id": made["otp_request_id"], "code": code}
    client._keep(await client.post("/api/client/auth/otp/verify", body))


async def test_discount_requested_before_sign_in_is_refused_to_a_paired_account(world: World) -> None:
    phone = f"+62813{secrets.randbelow(10**8):08d}"
    known, mitra = world.client(), await world.mitra()
    await sign_in(world, known, phone)
    await known.call("PATCH", "/api/client/auth/profile", {"display_name": "Dewi"})
    await end_now(world, known, await world.session(known, mitra))
    guest = await world.customer()
    payment = await discounted(world, guest)
    await world.stack.sql("UPDATE otp_requests SET created_at = created_at - interval '2 hours'")  # skip the cooldown
    await sign_in(world, guest, phone)
    assert guest.user["id"] == known.user["id"]
    assert (await world.webhook(payment))[1]["processing_result"] == "paid_not_pairable"
    assert await failed(world, guest, payment) == "payment_session_expired"
