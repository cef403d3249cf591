"""A user who does not receive an event over a socket gets one push on each device (docs/events.md)."""

import asyncio
import json
import os
import pathlib
import secrets
import signal
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from core.providers.push_sender import TIMEOUT_S
from realtime.push import SENDS
from tests.http.pairing.steps import acting, cancelling
from tests.sockets.plain_socket import at, end_early, token_like
from tests.sockets.push.devices import DOWN, PushedDevices
from tests.stack import Stack, new_id
from tools.driving.device import Device
from tools.driving.throwaway import free_port
from tools.embedded.ownership import running

pytestmark = pytest.mark.anyio
LABELS = {"title", "body"}
OVERDUE = "UPDATE deliveries SET created_at = created_at - interval '1 second' WHERE session_id = $1::uuid RETURNING 1"
MANY_LATER = """INSERT INTO pushes (id, auth_session_id, push_token, content, urgent, due_real_at, expires_real_at)
  SELECT gen_random_uuid(), gen_random_uuid(), n, '{}', false, now() + interval '1 hour', now() + interval '1 hour'
  FROM generate_series(1, 500) n"""


async def signs_in(phones: PushedDevices, client: Device, number: str) -> None:
    """Sign a customer in by code on the device of `client`."""
    client._http.headers["X-Forwarded-For"] = f"10.{secrets.randbelow(256)}.{secrets.randbelow(256)}.9"
    asked = await client.post("/api/client/auth/otp/request", {"phone": number})
    code = await phones.stack.inbox.code_of(asked["otp_request_id"])
    client._keep(
        await client.post("/api/client/auth/otp/verify", {"otp_request_id": asked["otp_request_id"], "code": code})
    )


async def the_other_device(phones: PushedDevices, client: Device) -> tuple[Device, str]:
    """Sign a second device of a user in; return it and its push token."""
    token = await phones.device(client)
    (row,) = await phones.stack.sql("SELECT id::text FROM auth_sessions WHERE push_token = $1", token)
    other = phones.world.client()
    other.access_token = token_like(phones.stack, client, sid=row["id"])
    other.user = client.user
    return other, token


async def push_now(phones: PushedDevices, token: str, lifetime_s: float) -> None:
    """Store a push that is due now for a device with a push token."""
    content = {"action": "open_accept", "event": "chat_request", "event_id": new_id(), "title": "x", "body": "x"}
    await phones.stack.sql(
        """INSERT INTO pushes (id, auth_session_id, push_token, content, urgent, due_real_at, expires_real_at)
           SELECT $1::uuid, id, push_token, $2::jsonb, true, clock_timestamp(), clock_timestamp() + make_interval(secs => $4)
           FROM auth_sessions WHERE push_token = $3""",
        new_id(), json.dumps(content), token, lifetime_s,
    )  # fmt: skip


@pytest.fixture
async def patient(phones: PushedDevices) -> AsyncIterator[None]:
    """Let the service wait as long for acknowledgements as in production: a device on a busy machine may need a second."""
    async with phones.waiting(ack_s="5"):
        yield


async def a_request(phones: PushedDevices, **wish: Any) -> dict[str, Any]:
    """Create a customer's search."""
    return await phones.world.paid(await phones.world.customer(), **wish)


# -- events


async def test_chat_request_is_pushed_once_to_each_device_of_a_disconnected_mitra(phones: PushedDevices) -> None:
    mitra = await phones.world.mitra()
    tokens = [await phones.token(mitra), await phones.device(mitra)]
    payment = await a_request(phones)
    pushes = [await phones.push(token, "chat_request", session_id=payment["session_id"]) for token in tokens]
    await phones.settled()
    assert len(phones.of(*tokens)) == 2
    assert pushes[0]["data"] == pushes[1]["data"]
    data = pushes[0]["data"]
    assert set(data) == {"action", "event", "event_id", "session_id"} | LABELS
    assert data["action"] == "open_accept"
    assert pushes[0]["android"]["priority"] == "HIGH"
    assert pushes[0]["apns"]["headers"]["apns-priority"] == "10"
    assert 290 < int(pushes[0]["android"]["ttl"].removesuffix("s")) <= 300  # the search ends before the round
    (row,) = await phones.stack.sql("SELECT id::text, event FROM deliveries WHERE id = $1::uuid", data["event_id"])
    assert row["event"] == "chat_request"  # a device that connects later still gets the frame
    desk = await mitra.open("pairing")
    assert (await desk.wait("chat_request"))["event_id"] == data["event_id"]


async def test_ttl_of_a_chat_request_is_at_most_its_answer_time(phones: PushedDevices) -> None:
    await phones.world.config("pairing_blast_timeout_seconds", 20)
    mitra = await phones.world.mitra()
    token = await phones.token(mitra)
    payment = await a_request(phones)
    push = await phones.push(token, "chat_request", session_id=payment["session_id"])
    assert 0 <= int(push["android"]["ttl"].removesuffix("s")) <= 19  # one second has passed already


async def test_ttl_of_a_push_is_rounded_down(phones: PushedDevices) -> None:
    mitra = await phones.world.mitra()
    token = await phones.token(mitra)
    await push_now(phones, token, 59.99)
    push = await phones.push(token, "chat_request")
    assert int(push["android"]["ttl"].removesuffix("s")) <= 59


async def test_refund_is_pushed_to_the_customers_phone(phones: PushedDevices) -> None:
    customer = await phones.world.customer()
    token = await phones.token(customer)
    payment = await phones.world.paid(customer)
    await cancelling(customer, payment)
    await phones.push(token, "pairing_status")
    await acting(phones.world, payment)
    push = await phones.push(token, "payment_updated")
    assert set(push["data"]) == {"action", "event", "event_id", "payment_request_id"} | LABELS
    assert push["data"]["action"] == "open_payment"
    assert push["data"]["payment_request_id"] == payment["payment_request_id"]


async def test_mitra_taken_offline_by_an_operator_gets_a_push(phones: PushedDevices) -> None:
    mitra, operator = await phones.world.mitra(), await phones.world.operator()
    token = await phones.token(mitra)
    await mitra.post("/api/mitra/status/offline")
    await mitra.post("/api/mitra/status/online")
    await operator.post(f"/internal/mitras/{mitra.user['id']}/force-offline")
    push = await phones.push(token, "mitra_status_changed")
    assert set(push["data"]) == {"action", "event", "event_id"} | LABELS
    assert push["data"]["action"] == "open_status"
    await phones.settled()
    assert len(phones.of(token)) == 1


async def test_deactivated_mitra_gets_a_push_on_each_signed_in_phone(phones: PushedDevices) -> None:
    mitra, operator = await phones.world.mitra(), await phones.world.operator()
    tokens = [await phones.token(mitra), await phones.device(mitra)]
    await operator.call("PATCH", f"/internal/mitras/{mitra.user['id']}", {"is_active": False})
    for token in tokens:
        assert (await phones.push(token, "mitra_status_changed"))["data"]["action"] == "open_status"
    await phones.settled()
    assert len(phones.of(*tokens)) == 2


async def test_last_push_is_not_sent_to_a_phone_where_another_user_signed_in(phones: PushedDevices) -> None:
    mitra, operator = await phones.world.mitra(), await phones.world.operator()
    token = await phones.token(mitra)
    answers = [DOWN]
    phones.inbox.answer = lambda m: answers.pop() if m["token"] == token and answers else None
    await operator.call("PATCH", f"/internal/mitras/{mitra.user['id']}", {"is_active": False})
    await phones.push(token, "mitra_status_changed")  # refused, to be retried
    customer = await phones.world.customer()
    await customer.call("PUT", "/api/shared/push-token", {"push_token": token})
    await phones.settled(hurry=True)
    assert len(phones.of(token)) == 1


@pytest.mark.usefixtures("patient")
@pytest.mark.slow
async def test_event_acknowledged_by_one_device_is_not_pushed(phones: PushedDevices) -> None:
    mitra = await phones.world.mitra()
    tokens = [await phones.token(mitra), await phones.device(mitra)]
    desk = await mitra.open("pairing")
    payment = await a_request(phones)
    frame = await desk.wait("chat_request", where=lambda f: f["request"]["session_id"] == payment["session_id"])
    gone = "SELECT count(*) FROM deliveries WHERE id = $1::uuid"
    await phones.world.until(lambda: phones.stack.sql(gone, frame["event_id"]), lambda rows: rows[0][0] == 0)
    # The next event is not acknowledged and is pushed later, so everything that was due before has been processed.
    await desk.close()
    second = await a_request(phones)
    await phones.push(tokens[0], "chat_request", session_id=second["session_id"])
    await phones.settled()
    assert {m["data"]["session_id"] for m in phones.of(*tokens)} == {second["session_id"]}


async def test_socket_without_acknowledgement_does_not_prevent_a_push(phones: PushedDevices) -> None:
    mitra = await phones.world.mitra()
    token = await phones.token(mitra)
    desk = await mitra.open("pairing", ack=False)
    payment = await a_request(phones)
    frame = await desk.wait("chat_request", where=lambda f: f["request"]["session_id"] == payment["session_id"])
    push = await phones.push(token, "chat_request", session_id=payment["session_id"])
    assert push["data"]["event_id"] == frame["event_id"]
    await desk.send({"type": "ack", "event_id": frame["event_id"]})  # too late
    await desk.send({"type": "ping"})
    await desk.wait("pong")
    await phones.settled()
    assert len(phones.of(token)) == 1


async def test_acknowledgement_while_the_provider_is_down_does_not_cancel_or_double_a_push(
    phones: PushedDevices,
) -> None:
    mitra = await phones.world.mitra()
    token = await phones.token(mitra)
    answers = [DOWN]
    phones.inbox.answer = lambda m: answers.pop() if m["token"] == token and answers else None
    desk = await mitra.open("pairing", ack=False)
    payment = await a_request(phones)
    frame = await desk.wait("chat_request", where=lambda f: f["request"]["session_id"] == payment["session_id"])
    await phones.push(token, "chat_request", session_id=payment["session_id"])
    await desk.send({"type": "ack", "event_id": frame["event_id"]})
    pushes = await phones.until_pushed(token, 2)
    await phones.settled()
    assert [m["data"]["event_id"] for m in pushes] == [frame["event_id"]] * 2  # refused once, accepted once
    assert len(phones.of(token)) == 2


async def test_session_pushes_have_the_right_actions_and_no_private_text(phones: PushedDevices) -> None:
    world = phones.world
    customer, mitra = await world.customer("Rahasiawati"), await world.mitra("Diamwati")
    hers, his = await phones.token(customer), await phones.token(mitra)
    session_id = await world.session(customer, mitra, topics=["rahasia besar"])
    await customer.post(
        f"/api/shared/chat/sessions/{session_id}/messages",
        {"client_message_id": (await world.customer()).user["id"], "content": "rahasia besar"},
    )
    await phones.push(his, "message", session_id=session_id)
    await mitra.call("PATCH", f"/api/shared/chat/sessions/{session_id}/topic", {"topic_sensitivity": "sensitive"})
    await end_early(world, mitra, session_id)
    for client in (customer, mitra):
        await client.post(f"/api/shared/chat/sessions/{session_id}/closure", {"message": "rahasia besar"})
    for token in (hers, his):
        await phones.push(token, "session_completed", session_id=session_id)
    await phones.settled()
    seen = {token: sorted((m["data"]["event"], m["data"]["action"]) for m in phones.of(token)) for token in (hers, his)}
    both = [
        ("session_closing", "open_closure"),
        ("session_completed", "open_closure"),
        ("session_started", "open_session"),
    ]
    assert seen[hers] == sorted(both)  # no further push about the search
    assert seen[his] == sorted([("chat_request", "open_accept"), ("message", "open_message"), *both])
    (started,) = phones.of(hers, event="session_started")
    assert set(started["data"]) == {"action", "event", "event_id", "session_id"} | LABELS
    for message in phones.of(hers, his):
        text = str(message)
        assert all(type(value) is str for value in message["data"].values())
        for private in ("rahasia", "Rahasiawati", "Diamwati", mitra.user["phone"], mitra.user["phone"][3:]):
            assert private not in text


async def test_due_push_is_sent_although_the_session_has_moved_on(phones: PushedDevices) -> None:
    mitra = await phones.world.mitra()
    token = await phones.token(mitra)
    await phones.kill()
    try:
        customer = await phones.world.customer()
        payment = await phones.world.paid(customer)
        invited = "SELECT count(*) FROM deliveries WHERE recipient_id = $1::uuid AND event = 'chat_request'"
        await phones.world.until(lambda: phones.stack.sql(invited, mitra.user["id"]), lambda rows: rows[0][0] == 1)
        await customer.post("/api/client/chat/cancel", {"payment_request_id": payment["payment_request_id"]})
    finally:
        await asyncio.to_thread(phones.stack.start, "realtime")
    await phones.push(token, "chat_request", session_id=payment["session_id"])
    await phones.settled()
    assert [m["data"]["event"] for m in phones.of(token)] == ["chat_request"]  # chat_request_closed is never pushed


# -- devices


async def test_session_of_an_anonymous_customer_is_pushed_to_the_joined_account(
    phones: PushedDevices,
) -> None:
    world = phones.world
    number = f"+62813{secrets.randbelow(10**8):08d}"
    old = world.client()
    await signs_in(phones, old, number)
    await old.call("PATCH", "/api/client/auth/profile", {"display_name": "Dewi"})
    new, mitra = await world.customer(), await world.mitra()
    first = await phones.token(old)
    anonymous_token = await phones.token(new)
    session_id = await world.session(new, mitra)
    anonymous_id = new.user["id"]
    await phones.stack.sql(  # skip the cooldown of codes
        "UPDATE otp_requests SET created_at = created_at - interval '2 minutes' WHERE phone = $1", number
    )
    await signs_in(phones, new, number)
    assert new.user["id"] == old.user["id"] != anonymous_id
    second = await phones.token(new)
    await end_early(world, mitra, session_id)
    for token in (first, second):
        await phones.push(token, "session_closing", session_id=session_id)
    await phones.settled()
    assert len(phones.of(first, second, event="session_closing")) == 2
    assert phones.of(anonymous_token, event="session_closing") == []


async def test_signed_out_devices_get_no_push(phones: PushedDevices) -> None:
    world = phones.world
    mitra = await world.mitra()
    stays = await phones.token(mitra)
    out, out_token = await the_other_device(phones, mitra)
    revoked, expired, replaced = [await phones.device(mitra) for _ in range(3)]
    await out.post("/api/shared/auth/logout")
    (row,) = await phones.stack.sql("SELECT id::text FROM auth_sessions WHERE push_token = $1", revoked)
    await mitra.call("DELETE", f"/api/shared/auth/sessions/{row['id']}")
    sql = "UPDATE auth_sessions SET expires_at = now() - interval '1 second' WHERE push_token = $1"
    await phones.stack.sql(sql, expired)  # by more than the service's clock may be behind the database's
    other = await world.customer()
    await other.call("PUT", "/api/shared/push-token", {"push_token": replaced})
    payment = await a_request(phones)
    await phones.push(stays, "chat_request", session_id=payment["session_id"])
    await phones.settled()
    assert phones.of(out_token, revoked, expired, replaced) == []


async def test_device_signed_out_before_a_retry_gets_no_push(phones: PushedDevices) -> None:
    mitra = await phones.world.mitra()
    stays = await phones.token(mitra)
    out, out_token = await the_other_device(phones, mitra)
    moved = await phones.device(mitra)
    down = True
    phones.inbox.answer = lambda m: DOWN if down and m["token"] in (stays, out_token, moved) else None
    payment = await a_request(phones)
    for token in (stays, out_token, moved):
        await phones.push(token, "chat_request", session_id=payment["session_id"])
    await out.post("/api/shared/auth/logout")
    await (await phones.world.customer()).call("PUT", "/api/shared/push-token", {"push_token": moved})
    before = {token: len(phones.of(token)) for token in (out_token, moved)}
    down = False
    await phones.until_pushed(stays, len(phones.of(stays)) + 1)
    await phones.settled(hurry=True)
    assert {token: len(phones.of(token)) for token in (out_token, moved)} == before


# -- messages


@pytest.mark.slow
async def test_messages_are_pushed_once_per_session_until_the_user_is_back(phones: PushedDevices) -> None:
    world = phones.world
    customer, mitra = await world.customer(), await world.mitra()
    hers, his = [await phones.token(customer), await phones.device(customer)], await phones.token(mitra)
    session_id = await world.session(customer, mitra)
    desk = await mitra.open("chat")
    for word in ("satu", "dua", "tiga"):
        assert (await desk.say(session_id, word))["type"] == "message_ack"
    for token in hers:
        push = await phones.push(token, "message", session_id=session_id)
        assert push["data"]["action"] == "open_message"
        assert push["android"]["priority"] == "NORMAL"
    await desk.say(session_id, "empat")
    await phones.quiet(session_id)
    assert [len(phones.of(token, event="message")) for token in hers] == [1, 1]
    assert phones.of(his, event="message") == []  # senders get no push about their own messages

    phone = await customer.open("chat")
    await phone.send({"type": "delivered", "session_id": session_id, "up_to": 4})
    await desk.wait("message_status", where=lambda f: f["status"] == "delivered" and f["up_to"] == 4)
    await phone.close()
    await desk.say(session_id, "lima")
    for token in hers:
        await phones.until_pushed(token, len(phones.of(token, event="session_started")) + 2, hurry=False)
    await phones.quiet(session_id)
    assert [len(phones.of(token, event="message")) for token in hers] == [2, 2]
    ids = [m["data"]["event_id"] for m in phones.of(*hers, event="message")]
    assert sorted(Counter(ids).values()) == [2, 2]  # one event id for each round, the same on both devices


async def test_message_is_pushed_even_if_the_session_has_ended_since(phones: PushedDevices) -> None:
    world = phones.world
    customer, mitra = await world.customer(), await world.mitra()
    hers = await phones.token(customer)
    session_id = await world.session(customer, mitra)
    await world.config("early_end_mitra_enabled", True)
    desk = await mitra.open("chat")
    assert (await desk.say(session_id, "sampai jumpa"))["type"] == "message_ack"
    path = f"/api/shared/chat/sessions/{session_id}"
    await mitra.post(f"{path}/end")
    for client in (mitra, customer):
        done = await client.post(f"{path}/closure", {"message": "dah"})
    assert done["status"] == "completed"
    await phones.push(hers, "message", session_id=session_id)


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("how", ["delivered", "read", "rest"])
@pytest.mark.slow
async def test_message_delivered_in_time_is_not_pushed(phones: PushedDevices, how: str) -> None:
    world = phones.world
    customer, mitra = await world.customer(), await world.mitra()
    hers, his = await phones.token(customer), await phones.token(mitra)
    session_id = await world.session(customer, mitra)
    phone, desk = await customer.open("chat"), await mitra.open("chat")
    await desk.say(session_id, "halo")
    await phone.wait("message")
    if how == "rest":
        await customer.post(f"/api/shared/chat/sessions/{session_id}/read", {"up_to": 1})
    else:
        await phone.send({"type": how, "session_id": session_id, "up_to": 1})
    await desk.wait("message_status", where=lambda f: f["up_to"] == 1)
    await phone.say(session_id, "hai")  # the mitra acknowledges nothing
    await phones.push(his, "message", session_id=session_id)
    await phones.quiet(session_id)
    assert phones.of(hers, event="message") == []
    assert len(phones.of(his, event="message")) == 1


async def test_event_ack_of_a_message_does_not_count_as_delivery(phones: PushedDevices) -> None:
    world = phones.world
    customer, mitra = await world.customer(), await world.mitra()
    hers = await phones.token(customer)
    session_id = await world.session(customer, mitra)
    phone, desk = await customer.open("chat"), await mitra.open("chat")
    await desk.say(session_id, "halo")
    message = await phone.wait("message")
    await phone.send({"type": "ack", "event_id": message["event_id"]})
    await phones.push(hers, "message", session_id=session_id)


# -- devices that do not show what they have


async def its_device(phones: PushedDevices, client: Device) -> str:
    """Return the auth session id of a client whose device has a push token."""
    sql = "SELECT id::text FROM auth_sessions WHERE user_id = $1::uuid ORDER BY created_at LIMIT 1"
    return (await phones.stack.sql(sql, client.user["id"]))[0]["id"]


UNSHOWN_EVENT = "SELECT unshown_on::text[] AS devices FROM deliveries WHERE id = $1::uuid"
UNSHOWN_MESSAGES = "SELECT customer_unshown::text AS devices FROM chat_sessions WHERE id = $1::uuid"


async def unshown_request(phones: PushedDevices, mitra: Device) -> tuple[Any, dict[str, Any]]:
    """Create a search, and acknowledge its request by a socket of the mitra that does not show it."""
    desk = await mitra.open("pairing", ack=False)
    payment = await a_request(phones)
    frame = await desk.wait("chat_request", where=lambda f: f["request"]["session_id"] == payment["session_id"])
    await desk.send({"type": "ack", "event_id": frame["event_id"], "shown": False})
    return desk, frame


async def until_noted(phones: PushedDevices, event_id: str, device: str) -> None:
    await phones.world.until(
        lambda: phones.stack.sql(UNSHOWN_EVENT, event_id), lambda rows: bool(rows) and rows[0]["devices"] == [device]
    )


@pytest.mark.usefixtures("patient")
@pytest.mark.slow
async def test_event_that_a_device_did_not_show_is_pushed_to_the_other_devices(phones: PushedDevices) -> None:
    mitra = await phones.world.mitra()
    hidden = await phones.token(mitra)
    other, other_token = await the_other_device(phones, mitra)
    desk, frame = await unshown_request(phones, mitra)
    await until_noted(phones, frame["event_id"], await its_device(phones, mitra))
    for _ in range(20):  # the event is still known, so a repeat costs 1 frame, not 5
        await desk.send({"type": "ack", "event_id": frame["event_id"].upper(), "shown": False})
    await phones.push(other_token, "chat_request", event_id=frame["event_id"])
    await phones.settled()
    assert phones.of(hidden) == []
    assert len(phones.of(other_token)) == 1

    before = len(desk.frames)
    await desk.send({"type": "auth", "token": mitra.access_token})
    await desk.send({"type": "ping"})
    await desk.wait("pong")
    assert [f["type"] for f in desk.frames[before:]] == ["auth_ok", "pong"]  # it has the event
    elsewhere = await other.open("pairing", ack=False)
    assert (await elsewhere.wait("chat_request"))["event_id"] == frame["event_id"]

    await desk.send({"type": "ack", "event_id": frame["event_id"]})  # the user is back
    await phones.world.until(lambda: phones.stack.sql(UNSHOWN_EVENT, frame["event_id"]), lambda rows: not rows)
    trail = "SELECT count(*)::int FROM delivery_trail WHERE event_id = $1::uuid AND stage = 'acknowledged'"
    assert (await phones.stack.sql(trail, frame["event_id"]))[0][0] == 1


@pytest.mark.usefixtures("patient")
@pytest.mark.slow
async def test_event_that_another_device_shows_in_time_is_not_pushed(phones: PushedDevices) -> None:
    mitra = await phones.world.mitra()
    tokens = [await phones.token(mitra), await phones.device(mitra)]
    other, token = await the_other_device(phones, mitra)
    elsewhere = await other.open("pairing", ack=False)
    desk, frame = await unshown_request(phones, mitra)
    await until_noted(phones, frame["event_id"], await its_device(phones, mitra))
    await elsewhere.send({"type": "ack", "event_id": frame["event_id"]})
    await phones.world.until(lambda: phones.stack.sql(UNSHOWN_EVENT, frame["event_id"]), lambda rows: not rows)
    await desk.send({"type": "ack", "event_id": frame["event_id"], "shown": False})  # too late to bring it back
    await desk.close()
    await elsewhere.close()
    second = await a_request(phones)
    await phones.push(token, "chat_request", session_id=second["session_id"])
    await phones.settled()
    assert {m["data"]["session_id"] for m in phones.of(*tokens, token)} == {second["session_id"]}


@pytest.mark.usefixtures("patient")
@pytest.mark.slow
async def test_kill_after_an_acknowledgement_without_showing_loses_no_push(phones: PushedDevices) -> None:
    mitra = await phones.world.mitra()
    hidden, other_token = await phones.token(mitra), await phones.device(mitra)
    device = await its_device(phones, mitra)
    requests = []
    try:
        for stored in (False, True):
            desk, frame = await unshown_request(phones, mitra)
            if stored:
                await until_noted(phones, frame["event_id"], device)
            requests.append(frame["event_id"])
            await asyncio.to_thread(phones.stack.kill, "realtime")
            await asyncio.to_thread(phones.stack.start, "realtime")
            desk.abort()
    finally:
        if phones.stack.processes["realtime"].poll() is not None:
            await asyncio.to_thread(phones.stack.start, "realtime")
    for event_id in requests:
        await phones.push(other_token, "chat_request", event_id=event_id)
    await phones.settled()
    assert requests[1] not in {m["data"]["event_id"] for m in phones.of(hidden)}


@pytest.mark.usefixtures("patient")
@pytest.mark.slow
async def test_message_that_a_device_did_not_show_is_pushed_to_the_other_devices(phones: PushedDevices) -> None:
    world = phones.world
    customer, mitra = await world.customer(), await world.mitra()
    hidden, other = await phones.token(customer), await phones.device(customer)
    session_id = await world.session(customer, mitra)
    phone, desk = await customer.open("chat"), await mitra.open("chat")
    await desk.say(session_id, "halo")
    await phone.wait("message")
    unshown = {"type": "delivered", "session_id": session_id, "up_to": 9, "shown": False}
    await phone.send(unshown)
    device = await its_device(phones, customer)
    await world.until(
        lambda: phones.stack.sql(UNSHOWN_MESSAGES, session_id), lambda rows: rows[0]["devices"] == f'{{"{device}": 1}}'
    )
    await phones.push(other, "message", session_id=session_id)
    await phones.quiet(session_id)
    assert phones.of(hidden, event="message") == []
    stored = await customer.get(f"/api/shared/chat/sessions/{session_id}/messages")
    assert [one["status"] for one in stored["items"]] == ["sent"]

    await phone.send({"type": "delivered", "session_id": session_id, "up_to": 1})  # the user is back
    await desk.wait("message_status", where=lambda f: f["status"] == "delivered" and f["up_to"] == 1)
    await desk.say(session_id, "masih di situ?")  # no device has acknowledged this one
    for token in (hidden, other):
        await phones.push(token, "message", session_id=session_id)
    await phone.send({**unshown, "up_to": 2})
    await world.until(
        lambda: phones.stack.sql(UNSHOWN_MESSAGES, session_id), lambda rows: rows[0]["devices"] == f'{{"{device}": 2}}'
    )


@pytest.mark.usefixtures("patient")
@pytest.mark.slow
@pytest.mark.parametrize("is_alone", [True, False])
async def test_device_that_shows_nothing_is_pushed_if_it_is_alone_or_has_not_all_messages(
    phones: PushedDevices, is_alone: bool
) -> None:
    world = phones.world
    customer, mitra = await world.customer(), await world.mitra()
    hidden = await phones.token(customer)
    if not is_alone:
        await phones.device(customer)
    session_id = await world.session(customer, mitra)
    phone, desk = await customer.open("chat"), await mitra.open("chat")
    for text in ["halo"] if is_alone else ["halo", "masih di situ?"]:
        await desk.say(session_id, text)
    await phone.wait("message")
    await phone.send({"type": "delivered", "session_id": session_id, "up_to": 1, "shown": False})
    await world.until(lambda: phones.stack.sql(UNSHOWN_MESSAGES, session_id), lambda rows: rows[0]["devices"])
    await phones.push(hidden, "message", session_id=session_id)
    await phones.quiet(session_id)
    assert len(phones.of(hidden, event="message")) == 1


# -- the provider


def error(status: int, code: str) -> tuple[int, dict[str, Any], dict[str, str]]:
    """Return an error in the provider's format."""
    detail = {"@type": "type.googleapis.com/google.firebase.fcm.v1.FcmError", "errorCode": code}
    return status, {"error": {"code": status, "message": "no", "status": code, "details": [detail]}}, {}


async def tokens_of(phones: PushedDevices, mitra: Device) -> tuple[set[str], str | None]:
    """Return the push tokens of a mitra's devices, and the token in the mitra's row."""
    rows = await phones.stack.sql(
        "SELECT push_token FROM auth_sessions WHERE user_id = $1::uuid AND push_token IS NOT NULL", mitra.user["id"]
    )
    (own,) = await phones.stack.sql("SELECT push_token FROM mitras WHERE id = $1::uuid", mitra.user["id"])
    return {row["push_token"] for row in rows}, own["push_token"]


@pytest.mark.parametrize(("status", "code"), [(404, "UNREGISTERED"), (403, "SENDER_ID_MISMATCH")])
async def test_unregistered_token_is_deleted_and_gets_no_second_push(
    phones: PushedDevices, status: int, code: str
) -> None:
    mitra = await phones.world.mitra()
    living = await phones.device(mitra)
    dead = await phones.token(mitra)  # the newest one
    assert await tokens_of(phones, mitra) == ({living, dead}, dead)
    phones.inbox.answer = lambda m: error(status, code) if m["token"] == dead else None
    payment = await a_request(phones)
    for token in (living, dead):
        await phones.push(token, "chat_request", session_id=payment["session_id"])
    await phones.settled()
    await phones.world.until(lambda: tokens_of(phones, mitra), lambda seen: seen == ({living}, living))
    second = await a_request(phones)
    await phones.push(living, "chat_request", session_id=second["session_id"])
    await phones.settled()
    assert len(phones.of(dead)) == 1


async def test_refused_push_is_not_retried_and_keeps_the_token(phones: PushedDevices) -> None:
    mitra = await phones.world.mitra()
    token = await phones.token(mitra)
    phones.inbox.answer = lambda m: error(400, "INVALID_ARGUMENT") if m["token"] == token else None
    payment = await a_request(phones)
    await phones.push(token, "chat_request", session_id=payment["session_id"])
    await phones.settled()
    assert len(phones.of(token)) == 1
    assert await tokens_of(phones, mitra) == ({token}, token)


async def test_push_is_retried_until_the_provider_accepts_it(phones: PushedDevices) -> None:
    mitra = await phones.world.mitra()
    token = await phones.token(mitra)
    answers = [error(500, "INTERNAL"), error(503, "UNAVAILABLE"), error(401, "THIRD_PARTY_AUTH_ERROR")]
    answers += [(429, {}, {"Retry-After": "9"}), (429, {}, {}), None]
    phones.inbox.answer = lambda m: answers.pop(0) if m["token"] == token and answers else None
    payment = await a_request(phones)
    waits = "SELECT attempts, extract(epoch FROM due_real_at - now())::float AS s FROM pushes WHERE push_token = $1"
    for attempt, (low, high) in enumerate(((1, 3), (2, 6), (30, 30), (9, 9), (60, 60)), start=1):
        (row,) = await phones.world.until(
            lambda: phones.stack.sql(waits, token),
            lambda rows, n=attempt: (
                bool(rows) and rows[0]["attempts"] == n and len(answers) == 6 - n and put_off(rows[0])
            ),
        )
        assert low / 2 - 1 < row["s"] < high + 0.5  # the poll itself takes a moment
        assert len(phones.of(token)) == attempt
        await phones.stack.sql("UPDATE pushes SET due_real_at = now() WHERE push_token = $1", token)
    pushes = await phones.until_pushed(token, 6, hurry=False)
    await phones.settled()
    assert len(phones.of(token)) == 6
    assert {m["data"]["session_id"] for m in pushes} == {payment["session_id"]}
    assert await tokens_of(phones, mitra) == ({token}, token)


def put_off(row: Any) -> bool:
    """Return whether a push waits for a retry and is not claimed by a sender (20 s)."""
    return not 10 < row["s"] < 21


async def test_push_past_its_answer_time_is_dropped(phones: PushedDevices) -> None:
    mitra = await phones.world.mitra()
    token = await phones.token(mitra)
    await phones.world.config("pairing_blast_timeout_seconds", 20)
    phones.inbox.answer = lambda m: (429, {}, {}) if m["token"] == token else None  # again in a minute
    payment = await a_request(phones)
    await phones.push(token, "chat_request", session_id=payment["session_id"])
    await phones.settled()
    assert len(phones.of(token)) == 1


async def test_slow_push_of_one_device_delays_no_other(phones: PushedDevices) -> None:
    slow, quick = await phones.world.mitra(), await phones.world.mitra("Bima")
    slow_token = await phones.token(slow)
    quick_token = await phones.token(quick)
    held, go_on = threading.Event(), threading.Event()
    ended: list[bool] = []

    def answer(message: dict[str, Any]) -> None:
        if message["token"] == slow_token:
            held.set()
            ended.append(go_on.wait(TIMEOUT_S - 0.5))

    phones.inbox.answer = answer
    await push_now(phones, slow_token, 60)
    assert await asyncio.to_thread(held.wait, 20)
    second = await a_request(phones)
    await phones.world.until(lambda: phones.stack.sql(OVERDUE, second["session_id"]), bool)
    await phones.push(quick_token, "chat_request", session_id=second["session_id"])
    assert ended == []  # the slow one is still in progress
    go_on.set()


# -- without a socket


@pytest.fixture
async def endless(phones: PushedDevices) -> AsyncIterator[None]:
    """Let the service wait minutes for acknowledgements: a push that comes did not wait."""
    async with phones.waiting(ack_s="300"):
        yield


@pytest.mark.usefixtures("endless")
async def test_event_without_a_socket_is_pushed_at_once_and_with_one_it_waits(
    phones: PushedDevices, second_port: int
) -> None:
    away, here = await phones.world.mitra(), at(await phones.world.mitra("Bima"), second_port)
    tokens = [await phones.token(away), await phones.token(here)]
    desk = await here.open("chat", ack=False)  # any socket counts, also of the other path and of another process
    first = await a_request(phones)
    await phones.push(tokens[0], "chat_request", session_id=first["session_id"])
    second = await a_request(phones)
    await phones.push(tokens[0], "chat_request", session_id=second["session_id"])  # both processes have looked again
    assert phones.of(tokens[1]) == []
    await desk.close()
    for payment in (first, second):
        await phones.push(tokens[1], "chat_request", session_id=payment["session_id"])
    await phones.settled()
    assert len(phones.of(*tokens)) == 4


@pytest.mark.usefixtures("endless")
async def test_event_during_an_outage_of_redis_is_pushed_when_redis_knows_who_is_connected(
    phones: PushedDevices,
) -> None:
    away, here = await phones.world.mitra(), await phones.world.mitra("Bima")
    tokens = [await phones.token(away), await phones.token(here)]
    desk = await here.open("pairing", ack=False)
    payment = await a_request(phones)
    await phones.push(tokens[0], "chat_request", session_id=payment["session_id"])
    servers = running(phones.stack.root)
    assert servers is not None
    os.kill(servers.valkey_pid, signal.SIGSTOP)
    try:
        payment = await a_request(phones)
        frame = await desk.wait("chat_request", where=lambda f: f["request"]["session_id"] == payment["session_id"])
        assert phones.of(tokens[1]) == []
        waiting = "SELECT pushed_real_at FROM deliveries WHERE session_id = $1::uuid AND event = 'chat_request'"
        assert [row[0] for row in await phones.stack.sql(waiting, payment["session_id"])] == [None, None]
    finally:
        os.kill(servers.valkey_pid, signal.SIGCONT)
    await phones.push(tokens[0], "chat_request", session_id=payment["session_id"])
    assert phones.of(tokens[1]) == []
    await desk.send({"type": "ack", "event_id": frame["event_id"]})


# -- processes


@pytest.fixture
def second_port(stack: Stack) -> Iterator[int]:
    """Yield the port of a second realtime process."""
    port = free_port()
    stack.start("realtime", key="realtime2", REALTIME_PORT=str(port))
    stack.wait_ready("realtime", port=port)
    yield port
    if stack.processes["realtime2"].poll() is None:
        stack.stop("realtime2")
    del stack.processes["realtime2"]


async def twenty_events(phones: PushedDevices) -> tuple[Device, list[str], set[str]]:
    """Create twenty searches that invite one mitra with three devices; return the mitra, the push tokens and the
    session ids.
    """
    mitra = await phones.world.mitra()
    tokens = [await phones.token(mitra), await phones.device(mitra), await phones.device(mitra)]
    async with asyncio.TaskGroup() as group:
        asked = [group.create_task(a_request(phones)) for _ in range(20)]
    return mitra, tokens, {task.result()["session_id"] for task in asked}


def counted(phones: PushedDevices, tokens: list[str]) -> Counter[tuple[str, str, str]]:
    """Return how often each event arrived at each device."""
    data = [(m["token"], m["data"]) for m in phones.of(*tokens, event="chat_request")]
    return Counter((token, one["session_id"], one["event_id"]) for token, one in data)


@pytest.mark.slow
async def test_two_realtime_processes_send_each_push_once(phones: PushedDevices, second_port: int) -> None:
    mitra, tokens, sessions = await twenty_events(phones)
    at(mitra, second_port)
    await phones.world.until(lambda: asyncio.sleep(0, len(counted(phones, tokens))), lambda n: n >= 60)
    await phones.settled()
    found = counted(phones, tokens)
    assert len(found) == sum(found.values()) == 60
    assert {(token, session) for token, session, _ in found} == {(t, s) for t in tokens for s in sessions}


@pytest.mark.usefixtures("patient")
@pytest.mark.slow
async def test_user_connected_to_the_other_process_gets_no_push(phones: PushedDevices, second_port: int) -> None:
    mitra = at(await phones.world.mitra(), second_port)
    token = await phones.token(mitra)
    desk = await mitra.open("pairing")
    payments = [await a_request(phones) for _ in range(3)]
    for payment in payments:
        await desk.wait("chat_request", where=lambda f, p=payment: f["request"]["session_id"] == p["session_id"])
    await desk.close()
    last = await a_request(phones)
    await phones.push(token, "chat_request", session_id=last["session_id"])
    await phones.settled()
    assert [m["data"]["session_id"] for m in phones.of(token)] == [last["session_id"]]


@pytest.mark.slow
async def test_kill_between_event_and_push_loses_no_push(phones: PushedDevices) -> None:
    await phones.kill()
    try:
        _, tokens, sessions = await twenty_events(phones)
    finally:
        await asyncio.to_thread(phones.stack.start, "realtime")
    await phones.world.until(lambda: asyncio.sleep(0, len(counted(phones, tokens))), lambda n: n >= 60)
    await phones.settled()
    found = counted(phones, tokens)
    assert len(found) == sum(found.values()) == 60
    assert {(token, session) for token, session, _ in found} == {(t, s) for t in tokens for s in sessions}


@pytest.mark.slow
async def test_concurrent_pushes_stay_within_the_limit_with_any_query_plan(phones: PushedDevices) -> None:
    # With a single row in a large table, the LIMIT subquery ran again for each row: 30 pushes were claimed instead of
    # 16.
    go_on = threading.Event()
    await phones.kill()
    phones.inbox.answer = lambda _: (go_on.wait(15), None)[1]
    try:
        _, tokens, _ = await twenty_events(phones)
        await phones.stack.sql(MANY_LATER)
        await phones.stack.sql("DELETE FROM pushes WHERE push_token <> '500'")
        await phones.stack.sql("VACUUM ANALYZE pushes")
        await phones.stack.sql("DELETE FROM pushes")
    finally:
        before = len(phones.inbox.messages)
        await asyncio.to_thread(phones.stack.start, "realtime")
    try:  # a push of another test may be among the first ones
        await phones.world.until(lambda: asyncio.sleep(0, len(phones.inbox.messages)), lambda n: n >= before + SENDS)
        taken = await phones.stack.sql("SELECT count(*) FROM pushes WHERE attempts > 0")
    finally:
        go_on.set()
    assert taken[0][0] == SENDS
    await phones.settled()
    assert len(counted(phones, tokens)) == 60


@pytest.mark.slow
async def test_kill_while_sending_doubles_only_pushes_in_flight(phones: PushedDevices) -> None:
    held, go_on = threading.Event(), threading.Event()
    unanswered: list[dict[str, Any]] = []

    def answer(message: dict[str, Any]) -> None:
        if len(phones.of(*tokens)) > 24:
            unanswered.append(message)
            held.set()
            go_on.wait(6)

    tokens: list[str] = []
    phones.inbox.answer = answer
    mitra = await phones.world.mitra()
    tokens += [await phones.token(mitra), await phones.device(mitra), await phones.device(mitra)]
    async with asyncio.TaskGroup() as group:
        for _ in range(20):
            group.create_task(a_request(phones))
    assert await asyncio.to_thread(held.wait, 15)
    await asyncio.to_thread(phones.stack.kill, "realtime")
    phones.inbox.answer = lambda _: None
    go_on.set()
    assert 0 < len(unanswered) <= SENDS
    rows = await phones.stack.sql("SELECT push_token, content->>'event_id' AS e FROM pushes WHERE attempts > 0")
    in_flight = {(row["push_token"], row["e"]) for row in rows}  # unanswered, or answered and not yet stored
    await phones.stack.sql("UPDATE pushes SET due_real_at = now()")  # otherwise their claim lasts 20 s
    await asyncio.to_thread(phones.stack.start, "realtime")
    await phones.world.until(lambda: asyncio.sleep(0, len(counted(phones, tokens))), lambda n: n >= 60)
    await phones.settled()
    found = counted(phones, tokens)
    assert len(found) == 60
    twice = {(token, event_id) for (token, _, event_id), count in found.items() if count > 1}
    assert twice
    assert twice <= in_flight
    assert max(found.values()) == 2


# -- the start


@pytest.mark.parametrize(("process", "content"), [("api", None), ("realtime", "garbage"), ("jobs", "{}")])
def test_process_without_push_credentials_exits_with_one_line(
    stack: Stack, tmp_path: pathlib.Path, process: str, content: str | None
) -> None:
    path = tmp_path / "account.json"
    if content is not None:
        path.write_text(content)
    ports = {f"{name}_PORT": str(free_port()) for name in stack.ports}
    done = stack.command(process, check=False, FCM_CREDENTIALS_FILE=str(path), **ports)
    assert done.returncode == 1
    (line,) = (done.stdout + done.stderr).strip().splitlines()
    assert "FCM_CREDENTIALS_FILE: expected" in line


# -- the language of a device


async def in_language(phones: PushedDevices, client: Device, locale: str | None) -> str:
    """Give a device a push token, with an `X-Locale`; return the token."""
    token = f"device-{new_id()}"
    headers = {} if locale is None else {"X-Locale": locale}
    await client.call("PUT", "/api/shared/push-token", {"push_token": token}, headers=headers)
    return token


async def test_push_to_each_device_is_in_the_language_of_that_device(phones: PushedDevices) -> None:
    mitra = await phones.world.mitra()
    other, _ = await the_other_device(phones, mitra)
    english, silent = await in_language(phones, mitra, "en"), await in_language(phones, other, None)
    payment = await a_request(phones)
    said = {}
    for token in (english, silent):
        push = await phones.push(token, "chat_request", session_id=payment["session_id"])
        assert push["notification"]["title"] == push["data"]["title"]
        said[token] = push["data"]["title"]
    assert said == {english: "New chat request", silent: "Permintaan chat baru"}


@pytest.mark.parametrize("value", ["fr", "", "id,en", "x" * 5_000])
async def test_locale_that_is_unknown_changes_nothing(phones: PushedDevices, value: str) -> None:
    client = await phones.world.customer()
    token = await in_language(phones, client, "en")
    body = {"push_token": token}
    assert await client.call("PUT", "/api/shared/push-token", body, headers={"X-Locale": value}) is None
    (row,) = await phones.stack.sql("SELECT locale FROM auth_sessions WHERE push_token = $1", token)
    assert row["locale"] == "en"


async def test_locale_of_a_sign_in_and_of_a_refresh_is_kept_with_the_device(phones: PushedDevices) -> None:
    locale = "SELECT locale FROM auth_sessions WHERE user_id = $1::uuid"
    client = phones.world.client()
    client._http.headers["X-Locale"] = "en"
    await client.sign_in_anonymously("Dewi")
    assert [row["locale"] for row in await phones.stack.sql(locale, client.user["id"])] == ["en"]
    del client._http.headers["X-Locale"]
    await client.refresh()
    assert [row["locale"] for row in await phones.stack.sql(locale, client.user["id"])] == ["en"]
    client._http.headers["X-Locale"] = "id"
    await client.refresh()
    assert [row["locale"] for row in await phones.stack.sql(locale, client.user["id"])] == ["id"]
    devices = await client.get("/api/shared/auth/sessions")
    assert "locale" not in devices["items"][0]["device_info"]


async def test_retried_push_keeps_its_language(phones: PushedDevices) -> None:
    mitra = await phones.world.mitra()
    token = await in_language(phones, mitra, "en")
    phones.inbox.answer = lambda _: DOWN
    await a_request(phones)
    (first,) = await phones.until_pushed(token, 1)
    phones.inbox.answer = lambda _: None
    first, second, *_ = await phones.until_pushed(token, 2)
    assert first["data"] == second["data"]
    assert second["data"]["title"] == "New chat request"
