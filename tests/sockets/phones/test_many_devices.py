"""Several devices, several realtime processes and a bad network: every phone shows what the database has."""

import asyncio
import json
import os
import random
import signal
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.sockets.phones.devices import second_device, shown, stored
from tests.sockets.plain_socket import at
from tests.stack import Stack, World, new_id
from tools.driving.device import Device
from tools.driving.throwaway import free_port
from tools.embedded.ownership import running

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
EACH = 40  # messages of each side


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """Yield a separate service with a second realtime process, because its processes are killed."""
    made = Stack()
    port = free_port()
    made.env["SECOND_PORT"] = str(port)
    made.start("realtime", key="realtime2", REALTIME_PORT=str(port))
    made.wait_ready("realtime", port=port)
    yield made
    made.close()


@pytest.fixture
async def world(stack: Stack) -> AsyncIterator[World]:
    """Yield the users of the test."""
    made = World(stack)
    yield made
    await asyncio.to_thread(stack.servers.watch)
    await made.close()


def there(client: Device, stack: Stack) -> Device:
    """Point a client at the second process."""
    return at(client, int(stack.env["SECOND_PORT"]))


async def talk(phone: Device, session_id: str, letter: str, dice: random.Random) -> list[str]:
    """Send many messages, several at a time; return the ids of the acknowledged ones."""
    acknowledged: list[str] = []

    async def say(n: int) -> None:
        await asyncio.sleep(dice.random() * 9)
        acknowledged.append((await phone.say(session_id, f"{letter}{n}"))["id"])

    async with asyncio.TaskGroup() as group:
        for n in range(EACH):
            group.create_task(say(n))
    return acknowledged


@pytest.mark.parametrize("seed", [1, 2])
async def test_phones_show_what_is_stored_after_kills_during_the_chat(world: World, seed: int) -> None:
    stack = world.stack
    dice = random.Random(seed)
    customer, mitra = await world.customer(), await world.mitra()
    tablet = there(await second_device(world, customer), stack)
    session_id = await world.session(customer, there(mitra, stack), duration_minutes=60)
    phones = [await client.start("chat") for client in (customer, mitra, tablet)]
    phone, desk, _ = phones
    try:
        async with asyncio.TaskGroup() as group:
            talks = [
                group.create_task(talk(one, session_id, letter, dice)) for one, letter in ((phone, "c"), (desk, "m"))
            ]

            async def cuts() -> None:
                while not all(one.done() for one in talks):
                    await dice.choice(phones).cut()
                    await asyncio.sleep(dice.random())

            async def deaths() -> None:
                await asyncio.sleep(1)
                await asyncio.to_thread(stack.restart, "realtime")
                servers = running(stack.root)
                assert servers is not None
                os.kill(servers.valkey_pid, signal.SIGKILL)
                await asyncio.sleep(1)
                await asyncio.to_thread(stack.servers.watch)
                await asyncio.to_thread(stack.kill, "realtime2")
                stack.start("realtime", key="realtime2", wait=False, REALTIME_PORT=stack.env["SECOND_PORT"])

            group.create_task(cuts())
            group.create_task(deaths())
        acknowledged = [message_id for one in talks for message_id in one.result()]
        expected = await stored(world, session_id)
        assert [seq for seq, _, _ in expected] == list(range(1, 2 * EACH + 1))  # no duplicates and no gaps
        assert sorted(word for _, _, word in expected) == sorted(f"{letter}{n}" for letter in "cm" for n in range(EACH))
        assert sorted(acknowledged) == sorted(message_id for _, message_id, _ in expected)
        for one in phones:
            await one.until(lambda one=one: len(one.transcript(session_id)) == 2 * EACH)
            assert shown(one.transcript(session_id)) == expected
        ids = [frame["event_id"] for one in phones for frame in one.events]
        assert all(ids.count(event_id) <= 2 for event_id in ids)  # once on each of the customer's two devices
    finally:
        for one in phones:
            await one.stop()
    await asyncio.to_thread(stack.wait_ready, "realtime", port=int(stack.env["SECOND_PORT"]))


async def test_accept_on_one_device_closes_the_invitation_on_the_other(world: World) -> None:
    stack = world.stack
    customer, mitra = await world.customer(), await world.mitra()
    tablet = there(await second_device(world, mitra), stack)
    here, elsewhere = await mitra.start(), await tablet.start()
    talking = [await customer.start("chat"), here, elsewhere]
    try:
        payment = await world.paid(customer)
        session_id = payment["session_id"]
        for phone in (here, elsewhere):
            found = await phone.wait("chat_request", where=lambda f: f["request"]["session_id"] == session_id)
            assert found is not None
        await mitra.post(f"/api/mitra/chat-requests/{session_id}/accept")
        closed = await elsewhere.wait("chat_request_closed", where=lambda f: f["session_id"] == session_id)
        assert closed is not None
        assert closed["reason"] == "accepted"
        for phone in talking:
            assert await phone.wait("session_started", where=lambda f: f["session"]["id"] == session_id)
            assert phone.sessions[session_id]["status"] == "active"
    finally:
        for phone in talking:
            await phone.stop()


async def test_late_event_does_not_revert_the_phones_state(world: World) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    phone = await customer.start("chat")
    try:
        session_id = await world.session(customer, mitra)
        started = await phone.wait("session_started", where=lambda f: f["session"]["id"] == session_id)
        assert started is not None
        async with world.setting(early_end_customer_enabled=True):
            await customer.post(f"/api/shared/chat/sessions/{session_id}/end")
        assert await phone.wait("session_closing", where=lambda f: f["session"]["id"] == session_id)
        lost = started["event_id"][:-12] + new_id()[-12:]  # at the same moment as the start
        await world.stack.sql(
            """INSERT INTO deliveries (id, recipient_id, recipient_type, event, session_id, payload, created_at)
               VALUES ($1::uuid, $2::uuid, 'customer', 'session_started', $3::uuid, $4, now())""",
            lost, customer.user["id"], session_id, json.dumps({"type": "session_started", "session": started["session"]}),
        )  # fmt: skip
        await phone.cut()
        late = await phone.wait("session_started", where=lambda f: f["event_id"] == lost)
        assert late is not None
        assert late["session"]["status"] == "active"
        assert phone.sessions[session_id]["status"] == "closing"
    finally:
        await phone.stop()


async def test_messages_and_read_markers_show_on_every_device(world: World) -> None:
    stack = world.stack
    customer, mitra = await world.customer(), await world.mitra()
    tablet = there(await second_device(world, customer), stack)
    session_id = await world.session(customer, there(mitra, stack))
    desk = await mitra.start("chat")
    phones = [await client.start("chat") for client in (customer, tablet)]
    sockets = [await customer.open("chat"), await tablet.open("chat"), await mitra.open("chat")]
    try:
        await phones[0].until(lambda: session_id in phones[0].sessions)
        await phones[0].say(session_id, "dari ponsel")
        await phones[1].say(session_id, "dari tablet")
        for phone in (*phones, desk):
            await phone.until(lambda phone=phone: len(phone.transcript(session_id)) == 2)
            assert [m["content"] for m in phone.transcript(session_id)] == ["dari ponsel", "dari tablet"]
        await desk.mark_read(session_id)
        for socket in sockets:
            seen = await socket.wait("message_status", where=lambda f: f["status"] == "read")
            assert (seen["session_id"], seen["up_to"]) == (session_id, 2)
        await desk.say(session_id, "hai")
        await phones[1].until(lambda: len(phones[1].transcript(session_id)) == 3)
        await phones[1].mark_read(session_id)  # on the tablet
        for socket in sockets:  # the phone in the pocket knows it too
            await socket.wait("message_status", where=lambda f: f["status"] == "read" and f["up_to"] == 3)
        unread = await customer.get("/api/client/chat/session/active-with-unread")
        assert unread["unread_count"] == 0
    finally:
        for phone in (*phones, desk):
            await phone.stop()
