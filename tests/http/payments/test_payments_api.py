"""Prices and payment requests over the public listener (docs/product.md#prices, docs/product.md#payment-requests)."""

import asyncio
from typing import Any

import pytest

from tests.faults import people
from tests.stack import World, new_id, refused, within
from tools.driving.device import Device

pytestmark = pytest.mark.anyio

REQUEST_FIELDS = {
    "payment_request_id", "status", "mode", "amount", "duration_minutes", "is_first_session_discount", "is_extension",
    "targeted_mitra_id", "gateway_invoice_url", "expires_at", "created_at", "confirmed_at", "consumed_at",
    "session_id", "failure", "promised", "refund",
}  # fmt: skip
REQUESTS = "/api/client/payment/requests"


async def read(customer: Device, payment: dict[str, Any]) -> dict[str, Any]:
    """Return the payment request as it is now."""
    return await customer.get(f"{REQUESTS}/{payment['payment_request_id']}")


async def test_prices_are_grouped_by_mode_with_the_callers_discount(world: World) -> None:
    customer = await world.customer()
    pricing = await customer.get("/api/client/chat/pricing")
    assert await customer.get("/api/client/chat-pricing") == pricing
    assert set(pricing) == {"chat", "call", "first_session_discount"}
    for mode, prices in (("chat", {12: 12000, 30: 27000, 60: 48000}), ("call", {12: 18000, 30: 40000, 60: 72000})):
        tiers = pricing[mode]["tiers"]
        assert all(set(tier) == {"id", "minutes", "price_idr", "tag"} for tier in tiers)
        assert {tier["minutes"]: tier["price_idr"] for tier in tiers} == prices
    assert pricing["first_session_discount"] == {
        "enabled": True,
        "eligible": True,
        "price_idr": 2000,
        "gimmick_price_idr": 12000,
        "duration_minutes": 12,
        "modes": ["chat"],
    }


async def test_payment_request_has_exactly_the_documented_fields(world: World) -> None:
    customer = await world.customer()
    made = await customer.post(REQUESTS, {"duration_minutes": 30, "topics": ["work", "family"]})
    assert set(made) == REQUEST_FIELDS
    assert (made["status"], made["mode"], made["amount"], made["duration_minutes"]) == ("pending", "chat", 27000, 30)
    nothing_yet = ("targeted_mitra_id", "confirmed_at", "consumed_at", "session_id", "failure", "promised")
    assert [made[name] for name in nothing_yet] == [None] * 6
    assert (made["is_first_session_discount"], made["is_extension"]) == (False, False)
    assert made["created_at"].endswith("Z")
    assert await read(customer, made) == made


@pytest.mark.parametrize(
    ("mode", "minutes", "price"), [("chat", 12, 12000), ("chat", 60, 48000), ("call", 12, 18000), ("call", 60, 72000)]
)
async def test_price_of_request_is_the_price_of_its_tier(world: World, mode: str, minutes: int, price: int) -> None:
    made = await world.request(await world.customer(), mode=mode, duration_minutes=minutes)
    assert (made["mode"], made["duration_minutes"], made["amount"]) == (mode, minutes, price)


async def test_price_in_request_body_is_422(world: World) -> None:
    customer = await world.customer()
    for field in ("amount", "price", "price_idr"):
        await refused(customer.post(REQUESTS, {"duration_minutes": 12, field: 1}), 422, "VALIDATION_ERROR")


async def test_request_without_matching_tier_is_tier_not_found(world: World) -> None:
    customer = await world.customer()
    for wish in ({"duration_minutes": 13}, {"mode": "call", "duration_minutes": 1440}):
        await refused(customer.post(REQUESTS, wish), 409, "TIER_NOT_FOUND")


@pytest.mark.parametrize(
    ("field", "wish"),
    [
        ("mode", {"mode": "video"}),
        ("duration_minutes", {"duration_minutes": 0}),
        ("duration_minutes", {"duration_minutes": 12.5}),
        ("duration_minutes", {"duration_minutes": True}),
        ("duration_minutes", {"duration_minutes": "12"}),
        ("topics", {"topics": ["x"] * 13}),
        ("topics", {"topics": ["x" * 65]}),
        ("targeted_mitra_id", {"targeted_mitra_id": "somebody"}),
        ("first_session_discount", {"first_session_discount": 1}),
    ],
)
async def test_request_field_out_of_bounds_is_named(world: World, field: str, wish: dict[str, Any]) -> None:
    customer = await world.customer()
    error = await refused(customer.post(REQUESTS, {"duration_minutes": 12, **wish}), 422, "VALIDATION_ERROR")
    assert [item["field"].split("[")[0] for item in error["details"]["fields"]] == [field]


async def test_request_with_twelve_topics_of_64_characters_is_accepted(world: World) -> None:
    assert (await world.request(await world.customer(), topics=["ä" * 64] * 12))["status"] == "pending"


async def test_discount_can_require_a_verified_identity(world: World) -> None:
    customer = await world.customer()

    async def shown() -> list[bool]:
        pricing = await customer.get("/api/client/chat/pricing")
        flags = await customer.get("/api/client/onboarding-state")
        return [pricing["first_session_discount"]["eligible"], flags["first_session_discount_eligible"]]

    async with world.setting(first_session_discount_requires_identity=True):
        assert await shown() == [False, False]
        await refused(world.request(customer, first_session_discount=True), 409, "DISCOUNT_NOT_ELIGIBLE")
        await world.stack.sql(
            "UPDATE customers SET is_anonymous = false, identity_a_sub = id::text WHERE id = $1::text::uuid",
            customer.user["id"],
        )
        assert await shown() == [True, True]
        assert (await world.request(customer, first_session_discount=True))["amount"] == 2000


async def test_request_without_display_name_is_refused(world: World) -> None:
    customer = world.client()
    customer._keep(await customer.post("/api/shared/auth/anonymous"))
    wish = {"mitra_id": new_id(), "mode": "chat", "duration_minutes": 12}
    await refused(world.request(customer), 409, "DISPLAY_NAME_REQUIRED")
    await refused(customer.post("/api/client/chat/returning", wish), 409, "DISPLAY_NAME_REQUIRED")
    await customer.call("PATCH", "/api/client/auth/profile", {"display_name": "Dewi"})
    assert (await world.request(customer))["status"] == "pending"
    await refused(customer.post("/api/client/chat/returning", wish), 403, "NOT_PREVIOUS_MITRA")


async def test_open_failure_of_free_request_blocks_the_next_free_request(world: World) -> None:
    operator, customer = await world.operator(), await world.customer()
    tier = await operator.post("/internal/pricing/tiers", {"mode": "chat", "minutes": 7, "price_idr": 0})
    try:
        free = await world.request(customer, duration_minutes=7)
        assert (free["amount"], free["status"], free["gateway_invoice_url"]) == (0, "confirmed", None)
        await customer.post("/api/client/chat/cancel", {"payment_request_id": free["payment_request_id"]})
        error = await refused(world.request(customer, duration_minutes=7), 409, "FREE_REQUEST_OPEN")
        assert error["details"] == {"payment_request_id": free["payment_request_id"]}
        assert (await world.request(customer))["amount"] == 12000
        assert (await world.request(await world.customer(), duration_minutes=7))["amount"] == 0
        failures = (await operator.get("/internal/failed-pairings", limit=200))["items"]
        (failure,) = [one for one in failures if one["payment_request_id"] == free["payment_request_id"]]
        await operator.call("PATCH", f"/internal/failed-pairings/{failure['id']}", {"operator_action": "no_action"})
        assert (await world.request(customer, duration_minutes=7))["amount"] == 0
    finally:
        seen = (await operator.get("/internal/pricing/tiers", mode="chat"))["items"]
        (now,) = [one for one in seen if one["id"] == tier["id"]]
        await operator.call("DELETE", f"/internal/pricing/tiers/{tier['id']}", params={"updated_at": now["updated_at"]})


async def test_fifty_concurrent_requests_leave_one_pending(world: World) -> None:
    customer = await world.customer()
    async with asyncio.TaskGroup() as group:  # on a busy machine some have to come again
        tasks = [group.create_task(people.request(customer)) for _ in range(50)]
    made = [task.result() for task in tasks]
    assert len({request["payment_request_id"] for request in made}) == 50
    statuses = [(await read(customer, request))["status"] for request in made]
    assert sorted(statuses) == ["abandoned"] * 49 + ["pending"]


async def test_abandon_of_pending_request_is_idempotent(world: World) -> None:
    customer = await world.customer()
    payment = await world.request(customer)
    path = f"{REQUESTS}/{payment['payment_request_id']}/abandon"
    first = await customer.post(path)
    assert (set(first), first["status"]) == (REQUEST_FIELDS, "abandoned")
    assert await customer.post(path) == first


async def test_abandon_of_confirmed_or_expired_request_is_refused(world: World) -> None:
    customer, other = await world.customer(), await world.customer()
    paid = await world.paid(customer)
    expired = await world.request(other)
    await world.webhook(expired, status="EXPIRED")
    for who, payment in ((customer, paid), (other, expired)):
        path = f"{REQUESTS}/{payment['payment_request_id']}/abandon"
        await refused(who.post(path), 409, "PAYMENT_NOT_PENDING")


async def test_legacy_paths_answer_the_same(world: World) -> None:
    customer = await world.customer()
    made = await customer.post("/api/client/payment/sessions", {"duration_minutes": 12})
    assert set(made) == REQUEST_FIELDS
    legacy = f"/api/client/payment/sessions/{made['payment_request_id']}"
    assert await customer.get(legacy) == await read(customer, made)
    assert (await customer.post(f"{legacy}/abandon"))["status"] == "abandoned"


async def test_foreign_payment_request_is_404(world: World) -> None:
    customer, stranger = await world.customer(), await world.customer("Eka")
    payment = await world.request(customer)
    for request_id in (payment["payment_request_id"], new_id(), "nonsense"):
        await refused(stranger.get(f"{REQUESTS}/{request_id}"), 404, "NOT_FOUND")
        await refused(stranger.post(f"{REQUESTS}/{request_id}/abandon"), 404, "NOT_FOUND")
    assert (await read(customer, payment))["status"] == "pending"


async def test_mitras_and_callers_without_token_cannot_request_payments(world: World) -> None:
    mitra, stranger = await world.mitra(online=False), world.client()
    await refused(mitra.post(REQUESTS, {"duration_minutes": 12}), 403, "FORBIDDEN")
    await refused(mitra.get("/api/client/chat/pricing"), 403, "FORBIDDEN")
    await refused(stranger.post(REQUESTS, {"duration_minutes": 12}), 401, "UNAUTHENTICATED")


async def test_development_payment_page_pays_like_the_gateway(world: World) -> None:
    customer = await world.customer()
    payment = await world.request(customer)
    url = payment["gateway_invoice_url"]
    assert url == f"{world.stack.addresses.public}/dev/pay/{payment['payment_request_id']}"
    async with customer._http.get(url) as page:
        assert (page.status, page.content_type) == (200, "text/html")
        assert "12.000" in await page.text()
    for _ in range(2):
        async with customer._http.post(url) as page:
            assert page.status == 200
            assert "confirmed" in await page.text()
    assert (await read(customer, payment))["status"] == "confirmed"
    operator = await world.operator()
    calls = (await operator.get("/internal/webhook-logs", q=payment["payment_request_id"]))["items"]
    assert [row["processing_result"] for row in calls] == ["duplicate", "confirmed"]


async def test_availability_counts_free_mitras_within_seconds(world: World) -> None:
    customer, mitra = await world.customer(), await world.mitra()

    async def available() -> int:
        answer = await customer.get("/api/client/mitras/availability")
        assert set(answer) == {"available", "typical_wait_seconds"}
        return answer["available"]

    assert await world.until(available, lambda n: n == 1, timeout=within(4)) == 1
    await mitra.post("/api/mitra/status/offline")
    assert await world.until(available, lambda n: n == 0, timeout=within(4)) == 0


async def test_invoice_requests_without_a_gateway_are_not_counted(world: World) -> None:
    async with world.setting(invoices_max_per_account_per_hour=1, invoices_max_per_address_per_hour=1):
        customer = await world.customer()
        for _ in range(3):
            await world.request(customer)
    assert await world.stack.sql("SELECT 1 FROM invoices_asked") == []
