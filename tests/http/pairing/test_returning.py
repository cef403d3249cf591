"""Targeted requests: refusals before the payment, and every outcome after it (docs/product.md#targeted-requests)."""

import asyncio
import datetime as dt
from typing import Any

import pytest

from tests.http.pairing.steps import (
    accepting,
    cancelling,
    closed,
    end_now,
    failed,
    failures,
    friends,
    open_request,
    read_payment,
    rejecting,
    responses,
    returning,
    session_of,
)
from tests.stack import World, new_id, open_failure, refused
from tools.driving.device import Device

pytestmark = pytest.mark.anyio


def by_payment(customer: Device, mitra: Device, **more: Any) -> Any:
    """Create the request through the payments route."""
    wish = {"duration_minutes": 12, "targeted_mitra_id": mitra.user["id"], **more}
    return customer.post("/api/client/payment/requests", wish)


def by_returning(customer: Device, mitra: Device, **more: Any) -> Any:
    """Create the same request through the returning route."""
    wish = {"mitra_id": mitra.user["id"], "mode": "chat", "duration_minutes": 12, **more}
    return customer.post("/api/client/chat/returning", wish)


ROUTES = pytest.mark.parametrize("wish", [by_payment, by_returning])


async def deactivate(world: World, mitra: Device) -> None:
    operator = await world.operator()
    await operator.call("PATCH", f"/internal/mitras/{mitra.user['id']}", {"is_active": False})


async def force_offline(world: World, mitra: Device) -> None:
    operator = await world.operator()
    await operator.post(f"/internal/mitras/{mitra.user['id']}/force-offline")


async def go_offline(_: World, mitra: Device) -> None:
    await mitra.post("/api/mitra/status/offline")


# -- before the payment


@ROUTES
async def test_targeted_request_to_a_new_mitra_is_refused(world: World, wish: Any) -> None:
    customer, other = await world.customer(), await world.mitra()
    await refused(wish(customer, other), 403, "NOT_PREVIOUS_MITRA")
    friend, mitra = await friends(world)
    assert (await wish(friend, mitra))["targeted_mitra_id"] == mitra.user["id"]
    await refused(wish(customer, mitra), 403, "NOT_PREVIOUS_MITRA")  # another customer's mitra
    other.user["id"] = new_id()
    await refused(wish(customer, other), 403, "NOT_PREVIOUS_MITRA")  # an id without a mitra


@ROUTES
@pytest.mark.parametrize("gone", [go_offline, force_offline, deactivate])
async def test_targeted_request_to_an_offline_mitra_is_refused(world: World, wish: Any, gone: Any) -> None:
    customer, mitra = await friends(world)
    pending = await world.request(customer)
    await gone(world, mitra)
    await refused(wish(customer, mitra), 409, "MITRA_OFFLINE")
    assert (await read_payment(customer, pending))["status"] == "pending"  # a refused request replaces nothing


@ROUTES
async def test_targeted_request_to_a_mitra_at_capacity_is_refused(world: World, wish: Any) -> None:
    customer, mitra = await friends(world)
    await world.session(await world.customer("Eka"), mitra)
    async with world.setting(max_customers_per_mitra=1):
        await refused(wish(customer, mitra), 409, "MITRA_AT_CAPACITY")
    assert (await wish(customer, mitra))["status"] == "pending"


async def test_returning_route_checks_price_and_live_session_like_payments(world: World) -> None:
    customer, mitra = await friends(world)
    await refused(by_returning(customer, mitra, duration_minutes=13), 409, "TIER_NOT_FOUND")
    await refused(by_returning(customer, mitra, mode="video"), 422, "VALIDATION_ERROR")
    payment = await by_returning(customer, mitra, mode="call", topics=["keluarga"])
    assert (payment["status"], payment["mode"], payment["amount"]) == ("pending", "call", 18000)
    assert (payment["targeted_mitra_id"], payment["session_id"]) == (mitra.user["id"], None)
    newer = await by_returning(customer, mitra)
    assert (await read_payment(customer, payment))["status"] == "abandoned"
    await world.webhook(newer)
    begun = await world.until(lambda: read_payment(customer, newer), lambda view: view["session_id"] is not None)
    error = await refused(by_returning(customer, mitra), 409, "SESSION_IN_PROGRESS")
    assert error["details"] == {name: begun[name] for name in ("session_id", "payment_request_id")}
    await cancelling(customer, newer)


# -- after the payment


async def test_targeted_invitation_lasts_twenty_seconds(world: World) -> None:
    (customer, mitra), other = await friends(world), await world.mitra("Bima")
    desk = await mitra.open("pairing")
    search = await customer.open("pairing")
    payment = await world.paid(customer, targeted_mitra_id=mitra.user["id"], topics=["cinta"])
    session_id = payment["session_id"]
    frame = await desk.wait("chat_request", where=lambda f: f["request"]["session_id"] == session_id)
    request = frame["request"]
    assert request == await open_request(mitra, session_id)
    assert (request["kind"], request["topics"], request["topic_sensitivity"]) == ("targeted", ["cinta"], "regular")
    ends = dt.datetime.fromisoformat(request["answer_by"]) - dt.datetime.fromisoformat(request["notified_at"])
    assert ends == dt.timedelta(seconds=20)
    await refused(accepting(other, session_id), 404, "NOT_FOUND")
    view = await accepting(mitra, session_id)
    assert (view["status"], view["mitra"]["id"]) == ("active", mitra.user["id"])
    paired = await search.wait("pairing_status", where=lambda f: f["status"] == "paired")
    assert paired["mitra"] == {"id": mitra.user["id"], "display_name": "Ayu"}
    assert await responses(world, session_id) == {mitra.user["id"]: ["ACCEPTED"]}


@pytest.mark.parametrize("gone", [go_offline, force_offline, deactivate])
@pytest.mark.parametrize("when", ["before the payment", "during the invitation"])
async def test_targeted_mitra_who_goes_offline_fails_the_request(world: World, gone: Any, when: str) -> None:
    customer, mitra = await friends(world)
    search = await customer.open("pairing")
    if when == "during the invitation":
        payment = await returning(world, customer, mitra)
        await gone(world, mitra)
    else:
        payment = await by_returning(customer, mitra)
        await gone(world, mitra)
        assert (await world.webhook(payment))[1]["processing_result"] == "confirmed"
    assert await failed(world, customer, payment) == "targeted_mitra_offline"
    told = await search.wait("pairing_status", where=lambda f: f["status"] == "failed")
    assert (told["cause_tag"], told["payment_request_id"]) == ("targeted_mitra_offline", payment["payment_request_id"])
    session_id = (await read_payment(customer, payment))["session_id"]
    assert (told["session_id"], (await session_of(customer, session_id))["status"]) == (session_id, "failed")
    expected = {mitra.user["id"]: ["IGNORED"]} if when == "during the invitation" else {}
    assert await responses(world, session_id) == expected


async def test_targeted_mitra_at_capacity_at_payment_counts_as_offline(world: World) -> None:
    customer, mitra = await friends(world)
    payment = await by_returning(customer, mitra)
    await world.session(await world.customer("Eka"), mitra)
    async with world.setting(max_customers_per_mitra=1):
        await world.webhook(payment)
        assert await failed(world, customer, payment) == "targeted_mitra_offline"


async def test_targeted_mitra_who_rejects_fails_the_request(world: World) -> None:
    customer, mitra = await friends(world)
    payment = await returning(world, customer, mitra)
    search, other_device = await customer.open("pairing"), await mitra.open("pairing")
    await rejecting(mitra, payment["session_id"])
    view = await read_payment(customer, payment)
    assert (view["status"], view["failure"]) == ("failed_pairing", open_failure("targeted_mitra_rejected"))
    told = await search.wait("pairing_status", where=lambda f: f["status"] == "failed")
    assert told["cause_tag"] == "targeted_mitra_rejected"
    assert await closed(other_device, payment["session_id"]) == "rejected"
    assert await responses(world, payment["session_id"]) == {mitra.user["id"]: ["REJECTED"]}
    await rejecting(mitra, payment["session_id"])  # again: the same result
    await refused(accepting(mitra, payment["session_id"]), 409, "REQUEST_CLOSED")


async def test_targeted_mitra_without_an_answer_fails_the_request(fast_world: World) -> None:
    world = fast_world
    customer, mitra = await friends(world)
    desk = await mitra.open("pairing")
    payment = await world.paid(customer, targeted_mitra_id=mitra.user["id"])
    assert await failed(world, customer, payment) == "targeted_mitra_timeout"
    assert await closed(desk, payment["session_id"]) == "timeout"
    assert await responses(world, payment["session_id"]) == {mitra.user["id"]: ["IGNORED"]}
    await refused(accepting(mitra, payment["session_id"]), 409, "REQUEST_CLOSED")
    rows = await world.stack.sql(
        "SELECT s.ended_at - s.created_at AS after FROM chat_sessions s WHERE s.id = $1", payment["session_id"]
    )
    assert rows[0]["after"] >= dt.timedelta(seconds=20 - 0.05 * 60)
    assert await failures(world, payment) == [("targeted_mitra_timeout", False)]


async def test_answer_time_of_a_targeted_request_is_configurable(world: World) -> None:
    customer, mitra = await friends(world)
    async with world.setting(returning_chat_confirmation_timeout_seconds=1):
        payment = await world.paid(customer, targeted_mitra_id=mitra.user["id"])
        assert await failed(world, customer, payment) == "targeted_mitra_timeout"


async def test_concurrent_targeted_requests_to_one_mitra_are_independent(world: World) -> None:
    customer, mitra = await friends(world)
    other = await world.customer("Eka")
    other_session = await world.session(other, mitra)
    await end_now(world, other, other_session)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(returning(world, one, mitra)) for one in (customer, other)]
    first, second = (task.result()["session_id"] for task in tasks)
    assert (await accepting(mitra, first))["id"] == first
    await rejecting(mitra, second)
    assert await failed(world, other, tasks[1].result()) == "targeted_mitra_rejected"
