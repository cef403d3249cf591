"""Mode, topics, one pending request and one live session."""

import pytest

from tests.http.pairing.steps import (
    accepting,
    cancelling,
    confirm_silently,
    end_now,
    read_payment,
    run_out,
    session_of,
    wait_for_invitation,
)
from tests.stack import World, refused

pytestmark = pytest.mark.anyio

TOPICS = ["pekerjaan", "keluarga", "cinta"]


async def test_call_has_call_prices_and_is_a_call_everywhere(world: World) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    desk, phone = await mitra.open("pairing"), await customer.open("chat")
    payment = await world.paid(customer, mode="call", duration_minutes=30, topics=TOPICS)
    assert (payment["mode"], payment["amount"]) == ("call", 40000)
    frame = await desk.wait("chat_request", where=lambda f: f["request"]["session_id"] == payment["session_id"])
    request = frame["request"]
    assert request == await wait_for_invitation(world, mitra, payment["session_id"])
    assert (request["mode"], request["duration_minutes"], request["topics"]) == ("call", 30, TOPICS)
    assert (request["topic_sensitivity"], request["kind"]) == ("regular", "blast")
    view = await accepting(mitra, payment["session_id"])
    assert (view["mode"], view["topics"], view["price"]) == ("call", TOPICS, 40000)
    assert (await phone.wait("session_started"))["session"]["mode"] == "call"
    assert (await session_of(mitra, view["id"]))["topics"] == TOPICS
    [row] = (await customer.get("/api/client/chat/history"))["items"]
    assert row["topics"] == TOPICS
    said = await phone.say(view["id"], "halo")  # a call is a chat with a badge
    assert said["type"] == "message_ack"


async def test_tier_of_chats_is_refused_for_calls(world: World) -> None:
    customer = await world.customer()
    assert (await world.request(customer, mode="call"))["amount"] == 18000
    assert (await world.request(customer))["amount"] == 12000
    await refused(world.request(customer, mode="call", duration_minutes=13), 409, "TIER_NOT_FOUND")


async def test_new_request_replaces_the_pending_one(world: World) -> None:
    customer = await world.customer()
    first = await world.request(customer)
    await refused(world.request(customer, duration_minutes=13), 409, "TIER_NOT_FOUND")
    assert (await read_payment(customer, first))["status"] == "pending"  # a refused request replaces nothing
    second = await world.request(customer, duration_minutes=30)
    assert [(await read_payment(customer, one))["status"] for one in (first, second)] == ["abandoned", "pending"]


async def test_request_while_a_paid_one_has_no_session_is_refused(world: World) -> None:
    customer = await world.customer()
    payment = await world.request(customer)
    await confirm_silently(world, payment)
    error = await refused(world.request(customer), 409, "SESSION_IN_PROGRESS")
    assert error["details"] == {"session_id": None, "payment_request_id": payment["payment_request_id"]}
    await cancelling(customer, payment)


async def test_request_during_a_live_session_is_refused_in_each_state(world: World) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    payment = await world.paid(customer)
    session_id = payment["session_id"]

    async def in_progress(status: str) -> None:
        assert (await session_of(customer, session_id))["status"] == status
        error = await refused(world.request(customer), 409, "SESSION_IN_PROGRESS")
        assert error["details"] == {"session_id": session_id, "payment_request_id": payment["payment_request_id"]}

    await in_progress("searching")
    await wait_for_invitation(world, mitra, session_id)
    await accepting(mitra, session_id)
    await in_progress("active")
    await run_out(world, customer, session_id)
    await in_progress("expired")
    await end_now(world, customer, session_id)
    assert (await world.request(customer))["status"] == "pending"  # a session that waits for goodbyes blocks nothing
