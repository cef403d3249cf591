"""Whatever fails, nothing acknowledged is lost and the service recovers (docs/invariants.md#i1)."""

import asyncio
import json
import os
import signal
import time
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator, Iterator
from typing import Any

import aiohttp
import pytest

from tests.conftest import FAST_TALKERS
from tests.stack import Stack, World, new_id
from tools.driving.device import Device, RecordedSocket
from tools.driving.service import PROCESSES
from tools.driving.sesi_client import Refused
from tools.driving.throwaway import free_port
from tools.embedded.ownership import running

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """Yield a separate service at sixty times real speed, because everything in it is killed."""
    made = Stack(scale=60, ACCESS_TOKEN_SECONDS="86400", **FAST_TALKERS)  # no socket closes because of its token here
    yield made
    made.close()


@pytest.fixture
async def world(stack: Stack) -> AsyncIterator[World]:
    """Yield the users of the test."""
    made = World(stack)
    await made.scale_silence()
    # restarts take minutes of service time, and no search should end because of them
    await made.config("searching_timeout_minutes", 60)
    yield made
    # a test that failed half-way leaves a working service to the next one
    await asyncio.to_thread(stack.servers.watch)
    await made.close()


async def stored(world: World, session_id: str) -> list[tuple[int, str]]:
    """Return seq and content of a session's stored messages."""
    rows = await world.stack.sql(
        "SELECT seq, content FROM chat_messages WHERE session_id = $1::uuid ORDER BY seq", session_id
    )
    return [(row["seq"], row["content"]) for row in rows]


async def transcript(socket: RecordedSocket, session_id: str) -> list[tuple[int, str]]:
    """Sync from the start; return all messages."""
    await socket.send({"type": "sync", "session_id": session_id, "after": 0})
    page = await socket.wait("sync")
    assert not page["more"]
    return [(m["seq"], m["content"]) for m in page["messages"]]


async def retry(work: Any, *, timeout: float = 15) -> Any:
    """Retry a call until it works, as an app does while the service is unavailable."""
    async with asyncio.timeout(timeout):
        while True:
            try:
                return await work()
            except (OSError, aiohttp.ClientError, ConnectionError, TimeoutError) as error:
                last: Exception = error
            except Refused as error:
                if error.status != 503:
                    raise
                last = error
            assert last
            await asyncio.sleep(0.1)


async def say_slowly(socket: RecordedSocket, session_id: str, content: str) -> dict[str, Any]:
    """Send a message, repeating it while the rate limit refuses it; return the answer."""
    own = new_id()
    while True:
        answer = await socket.say(session_id, content, client_message_id=own)
        if answer.get("code") != "TOO_FAST":
            return answer
        await asyncio.sleep(0.2)


async def whole_session(world: World) -> None:
    """Run a paid session from payment to goodbye."""
    customer, mitra = await retry(world.customer), await retry(world.mitra)
    phone, other = await customer.open("chat"), await mitra.open("chat")
    session_id = await world.session(customer, mitra)
    await phone.say(session_id, "halo")
    assert (await other.wait("message"))["message"]["content"] == "halo"
    await other.say(session_id, "hai")
    await phone.wait("message")
    await phone.wait("session_expired")
    for client in (customer, mitra):
        await client.post(f"/api/shared/chat/sessions/{session_id}/closure", {"message": "bye"})
    await phone.wait("session_completed")
    for client in (customer, mitra):
        assert (await client.get(f"/api/shared/chat/sessions/{session_id}"))["status"] == "completed"


async def test_paid_session_survives_the_kill_of_every_process_at_every_step(world: World) -> None:
    stack = world.stack
    customer, mitra = await world.customer(), await world.mitra()
    payment = await world.request(customer, duration_minutes=30)
    status, _ = await world.webhook(payment)
    assert status == 200
    for name in PROCESSES:  # the pairing may have begun or not
        stack.restart(name)
    payment = await world.until(
        lambda: customer.get(f"/api/client/payment/requests/{payment['payment_request_id']}"),
        lambda found: found["session_id"] is not None,
    )
    session_id = payment["session_id"]
    stack.restart("api")
    await retry(lambda: mitra.post(f"/api/mitra/chat-requests/{session_id}/accept"))
    await stack.sql(  # leaves time for the restarts on a busy machine, and the end is still soon
        """UPDATE chat_sessions SET paired_at = paired_at - interval '12 minutes', expires_at = expires_at - interval '12 minutes',
             warn_at = warn_at - interval '12 minutes' WHERE id = $1::uuid""",
        session_id,
    )

    phone, other = await customer.open("chat"), await mitra.open("chat")
    assert (await phone.say(session_id, "before"))["seq"] == 1
    own = new_id()
    await phone.send(
        {"type": "send_message", "session_id": session_id, "client_message_id": own, "content": "perhaps lost"}
    )
    stack.restart("realtime")
    assert await phone.wait_closed() is not None
    await other.wait_closed()
    phone, other = await customer.open("chat"), await mitra.open("chat")
    again = await phone.say(session_id, "perhaps lost", client_message_id=own)
    assert again["seq"] == 2
    for socket in (phone, other):
        assert await transcript(socket, session_id) == [(1, "before"), (2, "perhaps lost")]
    stack.restart("jobs")
    assert (await phone.wait("session_warning", timeout=40))["seconds_left"] == 180
    stack.kill("jobs")
    expires_at = phone.frames[0]["sessions"][0]["expires_at"]
    late = await world.until(  # no timer runs, yet nothing is accepted after the end
        lambda: say_slowly(phone, session_id, "is it over?"), lambda answer: answer["type"] == "error"
    )
    assert late["code"] == "SESSION_NOT_ACTIVE"
    stack.start("jobs")
    expired = await phone.wait("session_expired")
    assert expired["session"]["expires_at"] == expires_at
    for name in ("realtime", "jobs", "api"):
        stack.restart(name)
    phone = await customer.open("chat")
    done = await world.until(
        lambda: retry(lambda: customer.get(f"/api/shared/chat/sessions/{session_id}")),
        lambda seen: seen["status"] == "completed",
        timeout=30,
    )
    assert done["ended_by"] == "timer"
    words = await stored(world, session_id)
    assert [seq for seq, _ in words] == list(range(1, len(words) + 1))
    assert await transcript(phone, session_id) == words
    consumed = await customer.get(f"/api/client/payment/requests/{payment['payment_request_id']}")
    assert (consumed["status"], consumed["session_id"]) == ("consumed", session_id)


async def test_payment_confirmed_by_a_process_that_died_gets_its_session(world: World) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    payment = await world.request(customer)
    await world.stack.sql(
        "UPDATE payment_requests SET status = 'confirmed', confirmed_at = created_at WHERE id = $1::uuid",
        payment["payment_request_id"],
    )
    found = await world.until(
        lambda: customer.get(f"/api/client/payment/requests/{payment['payment_request_id']}"),
        lambda seen: seen["session_id"] is not None,
    )
    await world.until(
        lambda: mitra.get("/api/mitra/chat-requests"),
        lambda seen: any(item["session_id"] == found["session_id"] for item in seen["items"]),
    )
    view = await mitra.post(f"/api/mitra/chat-requests/{found['session_id']}/accept")
    assert view["status"] == "active"


def probe(port: int) -> tuple[int, dict[str, Any]]:
    """Ask a process whether it is ready; return status and body."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


async def ready(port: int) -> tuple[int, dict[str, Any]]:
    """Ask a process whether it is ready, without blocking the event loop."""
    return await asyncio.to_thread(probe, port)


async def redis_command(stack: Stack, command: str) -> bytes:
    """Send a command to Redis; return the reply."""
    url = urllib.parse.urlsplit(stack.redis_url)
    reader, writer = await asyncio.open_connection(url.hostname, url.port)
    writer.write(command.encode() + b"\r\n")
    answer = await reader.readline()
    writer.close()
    return answer


async def test_events_and_messages_without_redis_arrive_on_every_process(world: World) -> None:
    stack = world.stack
    port = free_port()
    stack.start("realtime", key="realtime2", REALTIME_PORT=str(port))
    try:
        await asyncio.to_thread(stack.wait_ready, "realtime", port=port)
        customer, mitra = await world.customer(), await world.mitra()
        phone, search = await customer.open("chat"), await customer.open("pairing")
        mitra.addresses = type(mitra.addresses)(
            public=mitra.addresses.public, internal=mitra.addresses.internal, realtime=f"ws://127.0.0.1:{port}"
        )
        other, desk = await mitra.open("chat"), await mitra.open("pairing")
        servers = running(stack.root)
        assert servers is not None
        os.kill(servers.valkey_pid, signal.SIGKILL)

        payment = await world.paid(customer, duration_minutes=60)
        session_id = payment["session_id"]
        await desk.wait("chat_request", where=lambda frame: frame["request"]["session_id"] == session_id)
        await mitra.post(f"/api/mitra/chat-requests/{session_id}/accept")
        await search.wait("pairing_status", where=lambda frame: frame["status"] == "paired")
        for socket in (phone, other):
            assert (await socket.wait("session_started"))["session"]["id"] == session_id
        for n in range(3):
            assert (await phone.say(session_id, str(n)))["type"] == "message_ack"
        await other.wait("message", where=lambda frame: frame["message"]["seq"] == 3)
        assert [f["message"]["seq"] for f in other.frames if f["type"] == "message"] == [1, 2, 3]
        await other.send({"type": "read", "session_id": session_id, "up_to": 3})
        await phone.wait("message_status", where=lambda f: f["status"] == "read" and f["up_to"] == 3)
        for at in (stack.ports["REALTIME"], port, stack.ports["JOBS"], stack.ports["INTERNAL"]):
            status, answer = await ready(at)
            assert (status, answer["degraded"]) == (200, True)

        assert await asyncio.to_thread(stack.servers.watch) == ["valkey"]
        for at in (stack.ports["REALTIME"], port):
            await world.until(lambda at=at: ready(at), lambda seen: seen == (200, {"ready": True, "degraded": False}))
        assert (await other.say(session_id, "back"))["seq"] == 4
        await phone.wait("message", where=lambda frame: frame["message"]["seq"] == 4)
        assert await redis_command(stack, "FLUSHALL") == b"+OK\r\n"
        assert (await phone.say(session_id, "flushed"))["seq"] == 5
        await other.wait("message", where=lambda frame: frame["message"]["seq"] == 5)
        assert await redis_command(stack, "CLIENT KILL TYPE pubsub")
        assert (await phone.say(session_id, "cut"))["seq"] == 6
        await other.wait("message", where=lambda frame: frame["message"]["seq"] == 6)
        expected = await stored(world, session_id)
        for socket in (phone, other):
            assert await transcript(socket, session_id) == expected
        assert [seq for seq, _ in expected] == [1, 2, 3, 4, 5, 6]
    finally:
        stack.servers.watch()
        stack.kill("realtime2")
        del stack.processes["realtime2"]


async def is_unavailable(client: Device, method: str, path: str, body: Any = None) -> None:
    """Check that a call during the outage gets 503 quickly, with a Retry-After."""
    began = time.monotonic()
    headers = {"Authorization": f"Bearer {client.access_token}"}
    url = client.addresses.public + path
    async with client._http.request(method, url, json=body, headers=headers) as answer:
        assert (answer.status, (await answer.json())["error"]["code"]) == (503, "UNAVAILABLE"), path
        assert int(answer.headers["Retry-After"]) >= 1
        assert time.monotonic() - began < 6, path


async def test_calls_without_the_database_get_unavailable_then_recover(world: World) -> None:
    stack = world.stack
    customer, mitra = await world.customer(), await world.mitra()
    session_id = await world.session(customer, mitra, duration_minutes=60)
    other_customer = await world.customer()
    payment = await world.request(other_customer)
    phone, other = await customer.open("chat"), await mitra.open("chat")
    assert (await phone.say(session_id, "before"))["seq"] == 1
    servers = running(stack.root)
    assert servers is not None
    ids = [new_id() for _ in range(20)]
    for n, own in enumerate(ids):
        frame = {"type": "send_message", "session_id": session_id, "client_message_id": own, "content": str(n)}
        await phone.send(frame | {"ref": own})
        if n == 10:
            os.kill(servers.postgres_pid, signal.SIGKILL)
    calls = [
        ("GET", "/api/client/auth/me", None),
        ("GET", f"/api/shared/chat/sessions/{session_id}", None),
        ("GET", f"/api/shared/chat/sessions/{session_id}/messages", None),
        ("POST", f"/api/shared/chat/sessions/{session_id}/messages", {"client_message_id": new_id(), "content": "x"}),
        ("POST", f"/api/shared/chat/sessions/{session_id}/read", {"up_to": 1}),
        ("POST", "/api/client/payment/requests", {"duration_minutes": 12}),
        ("GET", "/api/client/chat/history", None),
    ]
    # Its backends answer until they notice that the postmaster is dead.
    await world.until(lambda: ready(stack.ports["INTERNAL"]), lambda seen: seen[0] == 503)
    async with asyncio.TaskGroup() as group:
        for method, path, body in calls:
            group.create_task(is_unavailable(customer, method, path, body))
    status, answer = await world.webhook(payment)
    assert status in (500, 503), answer
    for name in ("REALTIME", "JOBS", "INTERNAL"):
        await world.until(lambda name=name: ready(stack.ports[name]), lambda seen: seen[0] == 503)
    for own in ids:  # each is acknowledged or refused, none hangs
        await phone.wait("message_ack", "error", where=lambda frame, own=own: frame.get("ref") == own)

    assert "postgres" in await asyncio.to_thread(stack.servers.watch)
    back = time.monotonic()
    phone = phone if not phone.closed else await retry(lambda: customer.open("chat"))

    async def resend(n: int) -> dict[str, Any]:
        while True:
            answer = await phone.say(session_id, str(n), client_message_id=ids[n])
            if answer["type"] == "message_ack":
                return answer
            assert answer["code"] == "UNAVAILABLE", answer
            await asyncio.sleep(0.2)

    for n in range(20):
        await resend(n)
    words = await stored(world, session_id)
    assert [seq for seq, _ in words] == list(range(1, 22))
    assert sorted(word for _, word in words) == sorted(["before", *map(str, range(20))])
    if other.closed:
        other = await mitra.open("chat")  # its snapshot names the messages, and `transcript` syncs them
    else:
        await other.wait("message", where=lambda frame: frame["message"]["seq"] == 21)
    assert await transcript(other, session_id) == words

    async def pay_again() -> bool:
        return (await world.webhook(payment))[0] == 200

    await world.until(pay_again, lambda done: done)  # the gateway retries
    assert time.monotonic() - back < 20
    await whole_session(world)


async def test_sigterm_stops_each_process_gracefully(world: World) -> None:
    stack = world.stack
    customer, mitra = await world.customer(), await world.mitra()
    session_id = await world.session(customer, mitra, duration_minutes=60)
    for name in PROCESSES:
        phone, other = await customer.open("chat"), await mitra.open("chat")
        acknowledged: list[str] = []
        stopped = asyncio.Event()

        async def talk(
            socket: RecordedSocket,
            letter: str,
            acknowledged: list[str] = acknowledged,
            stopped: asyncio.Event = stopped,
        ) -> None:
            """Send messages as fast as the rate limit allows, until the socket or the process ends."""
            while not stopped.is_set():
                try:
                    answer = await say_slowly(socket, session_id, word := f"{new_id()} {letter}")
                except ConnectionError:
                    return
                assert answer["type"] == "message_ack", answer
                acknowledged.append(word)

        async def over_rest(acknowledged: list[str] = acknowledged) -> None:
            """Do the same over REST until the process stops answering; only "rate limited" is accepted as a refusal."""
            while True:
                word = f"{new_id()} r"
                body = {"client_message_id": new_id(), "content": word}
                try:
                    await customer.post(f"/api/shared/chat/sessions/{session_id}/messages", body)
                except ConnectionError:
                    return
                except Refused as refused:
                    if refused.status != 429:
                        raise
                    await asyncio.sleep(0.2)
                    continue
                acknowledged.append(word)

        async with asyncio.TaskGroup() as group:
            talks = [group.create_task(talk(socket, letter)) for socket, letter in ((phone, "c"), (other, "m"))]
            if name == "api":
                group.create_task(over_rest())
            await world.until(lambda said=acknowledged: asyncio.sleep(0, len(said)), lambda count: count > 10)
            at = time.monotonic()
            assert await asyncio.to_thread(stack.stop, name) == 0
            assert time.monotonic() - at < 15
            stopped.set()
            if name == "realtime":
                assert [await socket.wait_closed() for socket in (phone, other)] == [1012, 1012]
            for task in talks:
                await task
        words = [word for _, word in await stored(world, session_id)]
        assert len(words) == len(set(words))
        assert set(acknowledged) <= set(words)
        await asyncio.to_thread(stack.start, name)
        for socket in (phone, other):
            await socket.close()
