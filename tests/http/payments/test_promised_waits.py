"""Promised waits over REST: availability, payment requests, refusals, and the report for operators."""

import pytest

from core.base import ids
from tests.http.pairing.steps import friends, returning
from tests.stack import World, refused

REQUESTS = "/api/client/payment/requests"
AVAILABILITY = "/api/client/mitras/availability"
pytestmark = pytest.mark.anyio


async def test_estimate_is_shown_and_promised_with_the_request(world: World) -> None:
    async with world.estimate(p50=40, p90=120):
        customer, mitra = await friends(world)

        async def shown() -> dict[str, int] | None:
            return (await customer.get(AVAILABILITY))["typical_wait_seconds"]

        # For two seconds the answer may be an earlier one, with an estimate of the jobs process.
        await world.until(shown, lambda found: found == {"p50": 40, "p90": 120})
        made = await world.request(customer)
        promised = {"p50": 40, "p90": 120, "at": made["created_at"]}
        assert made["promised"] == promised
        path = f"{REQUESTS}/{made['payment_request_id']}"
        assert (await customer.get(path))["promised"] == promised
        assert (await customer.get(REQUESTS))["items"][0]["promised"] == promised
        root = await world.operator()
        shown_to_support = await root.get(f"/internal/payment-requests/{made['payment_request_id']}")
        assert shown_to_support["promised"] == promised

        targeted = await returning(world, customer, mitra)
        assert targeted["promised"] is None  # the estimate is about requests to all mitras

        await world.session(await world.customer(), mitra)
    today = (await root.get("/internal/promises"))["items"][0]
    assert today["made"] >= 2
    assert today["kept"] >= 1
    assert today["made"] == sum(
        today[name] for name in ("not_searched", "waiting", "kept", "late", "not_found", "cancelled")
    )


async def test_refused_request_is_accepted_with_accept_wait(world: World) -> None:
    customer, key = await world.customer(), {"Idempotency-Key": ids.new_id()}
    async with world.setting(refuse_unservable_payments=True):
        body = {"duration_minutes": 12}
        await refused(customer.call("POST", REQUESTS, body, headers=key), 409, "NO_MITRA_AVAILABLE")
        assert (await customer.get(REQUESTS))["items"] == []
        # A refusal is not stored, so the key is free.
        made = await customer.call("POST", REQUESTS, {**body, "accept_wait": True}, headers=key)
        assert made["status"] == "pending"
        await refused(customer.call("POST", REQUESTS, body, headers=key), 409, "IDEMPOTENCY_MISMATCH")
        extension = {**body, "is_extension": True, "session_id": ids.new_id(), "accept_wait": True}
        await refused(customer.post(REQUESTS, extension), 422, "VALIDATION_ERROR")
        await refused(customer.post(REQUESTS, {**body, "accept_wait": "yes"}), 422, "VALIDATION_ERROR")
