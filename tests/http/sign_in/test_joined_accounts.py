"""A customer who signs into an older account keeps what they paid for (docs/product.md#the-callers-ids)."""

import asyncio
import os
import signal
import time
from collections.abc import Iterator

import attrs
import pytest

from tests.http.sign_in.outside import IdentityServer
from tests.http.sign_in.people import (
    all_at_once,
    anonymous,
    another_api,
    by_identity,
    device,
    end_api,
    new_subject,
    raw,
    store_tokens,
)
from tests.sockets.plain_socket import PlainSocket, at, bare_and_known
from tests.stack import Stack, World, refused, within
from tools.driving.device import Device
from tools.driving.sesi_client import Refused
from tools.driving.throwaway import free_port
from tools.embedded.ownership import running

pytestmark = pytest.mark.anyio

GOING_AWAY = 1012
REQUESTS = "/api/client/payment/requests"


@attrs.frozen
class SecondProcesses:
    """The addresses of a second api process and a second realtime process."""

    api: str
    realtime: int


@pytest.fixture(scope="module")
def second(stack: Stack) -> Iterator[SecondProcesses]:
    """Start a second api process and a second realtime process."""
    port = free_port()
    stack.start("realtime", key="realtime2", REALTIME_PORT=str(port))
    api = another_api(stack, "api2")
    stack.wait_ready("realtime", port=port)
    yield SecondProcesses(api, port)
    end_api(stack, "api2")
    end_api(stack, "realtime2")


@attrs.frozen
class Family:
    """An account, its devices, and an anonymous customer who is about to sign into it."""

    subject: str
    provider: IdentityServer
    old: Device  # a device that the account had before
    anonymous: Device

    async def join(self) -> Device:
        """Sign the anonymous customer into the account; return the device with its new tokens."""
        answer = await by_identity(self.anonymous, self.provider, self.subject)
        assert answer["customer"]["id"] == self.old.user["id"]
        joined = Device(self.anonymous.addresses)
        joined._http.headers.update(self.anonymous._http.headers)
        return store_tokens(joined, answer)


async def a_family(world: World, provider: IdentityServer) -> Family:
    """Create an account with a device, and an anonymous customer."""
    subject = new_subject()
    old = store_tokens(device(world), await by_identity(device(world), provider, subject))
    await old.call("PATCH", "/api/client/auth/profile", {"display_name": "Sari"})
    return Family(subject, provider, old, await anonymous(world, "Dewi"))


async def join(world: World, family: Family) -> Device:
    """Sign in, and close the device when the test ends."""
    joined = await family.join()
    world.clients.append(joined)
    return joined


async def read_status(client: Device, path: str) -> int:
    """Return the status of a read by this device."""
    return (await raw(client, "GET", path))[0]


async def wait_until_all_can_read(world: World, clients: list[Device], path: str, since: float) -> None:
    """Wait at most a second until all these devices can read the path."""
    async with asyncio.TaskGroup() as group:
        for client in clients:
            group.create_task(
                world.until(
                    lambda client=client: read_status(client, path), lambda status: status == 200, timeout=within(1)
                )
            )
    assert time.monotonic() - since < within(1)


async def sockets_of(client: Device, ports: list[int]) -> list[PlainSocket]:
    """Open a socket of each kind at each realtime process."""
    return [(await bare_and_known(at(client, port), path))[0] for port in ports for path in ("chat", "pairing")]


# -- reading


async def test_all_devices_of_the_account_read_what_the_anonymous_customer_paid_for(
    world: World, second: SecondProcesses, provider_a: IdentityServer
) -> None:
    family, mitra = await a_family(world, provider_a), await world.mitra()
    session_id = await world.session(family.anonymous, mitra)
    socket = await mitra.open("chat")
    await socket.say(session_id, "halo")
    payment = (await world.stack.sql(
        "SELECT payment_request_id::text AS id FROM chat_sessions WHERE id = $1::text::uuid", session_id
    ))[0]["id"]  # fmt: skip
    elsewhere = device(world, like=family.old, base=second.api)
    paths = [
        f"{REQUESTS}/{payment}", f"/api/client/payment/sessions/{payment}", f"/api/shared/chat/sessions/{session_id}",
        f"/api/shared/chat/sessions/{session_id}/messages",
    ]  # fmt: skip
    for path in paths:
        assert [await read_status(client, path) for client in (family.old, elsewhere)] == [404, 404]
    assert (await family.old.get("/api/client/chat/history"))["items"] == []
    joined = await join(world, family)
    since = time.monotonic()
    devices = [joined, device(world, like=joined, base=second.api), family.old, elsewhere]
    # The earlier devices first: they learn of the merge without a new device calling their process.
    await wait_until_all_can_read(world, [family.old, elsewhere], paths[0], since)
    for client in devices:
        assert [await read_status(client, path) for path in paths] == [200] * 4
        (message,) = (await client.get(paths[3]))["items"]
        assert message["content"] == "halo"
        (row,) = (await client.get("/api/client/chat/history"))["items"]
        assert (row["mitra_id"], row["sessions_count"]) == (mitra.user["id"], 1)
        active = await client.get("/api/client/chat/session/active-with-unread")
        assert session_id in str(active)
    stranger = await anonymous(world)
    assert [await read_status(stranger, path) for path in paths] == [404] * 4


async def test_sockets_reconnect_after_merge_and_find_the_active_session(
    world: World, second: SecondProcesses, provider_a: IdentityServer
) -> None:
    family, mitra = await a_family(world, provider_a), await world.mitra()
    session_id = await world.session(family.anonymous, mitra)
    ports = [world.stack.ports["REALTIME"], second.realtime]
    theirs = await mitra.open("chat")
    before, old = await sockets_of(family.anonymous, ports), await sockets_of(family.old, ports)
    bystander = await sockets_of(await anonymous(world), ports)
    await theirs.say(session_id, "halo")
    joined = await join(world, family)
    async with asyncio.timeout(within(1)):
        assert [await socket.code() for socket in before] == [4401] * 4
        assert [await socket.code() for socket in old] == [GOING_AWAY] * 4
    for socket in bystander:
        await socket.say({"type": "ping"})
        await socket.next_frame_of("pong")
    # Every device of the account finds it, at either process, and messages flow both ways.
    phones = []
    for client, port in ((joined, ports[0]), (family.old, ports[1])):
        phone = await at(client, port).open("chat")
        (found,) = phone.frames[0]["sessions"]
        assert (found["id"], found["customer"]["id"], found["last_seq"]) == (session_id, family.anonymous.user["id"], 1)
        phones.append(phone)
    await phones[0].send({"type": "sync", "session_id": session_id, "after": 0})
    assert [m["content"] for m in (await phones[0].wait("sync"))["messages"]] == ["halo"]
    ack = await phones[0].say(session_id, "hai")
    assert (ack["type"], ack["seq"]) == ("message_ack", 2)
    for socket in (theirs, phones[1]):
        message = (await socket.wait("message", where=lambda frame: frame["message"]["seq"] == 2))["message"]
        assert (message["content"], message["sender_type"], message["sender_id"]) == (
            "hai", "customer", family.anonymous.user["id"],
        )  # fmt: skip
    await theirs.say(session_id, "apa kabar")
    for phone in phones:
        await phone.wait("message", where=lambda frame: frame["message"]["content"] == "apa kabar")
    await phones[1].send({"type": "read", "session_id": session_id, "up_to": 3})
    status = await theirs.wait("message_status", where=lambda frame: frame["status"] == "read")
    assert status["up_to"] == 3
    await phones[0].send({"type": "typing", "session_id": session_id, "is_typing": True})
    await theirs.wait("typing")
    body = {"client_message_id": "0190b3c4-0000-7000-8000-000000000001", "content": "lewat REST"}
    sent = await joined.post(f"/api/shared/chat/sessions/{session_id}/messages", body)
    assert sent["seq"] == 4
    await joined.post(f"/api/shared/chat/sessions/{session_id}/read", {"up_to": 4})
    # The session ends, and both parties say goodbye.
    await world.config("early_end_customer_enabled", True)
    path = f"/api/shared/chat/sessions/{session_id}"
    ended = await world.until(lambda: raw(joined, "POST", path + "/end"), lambda seen: seen[0] == 200)
    await world.config("early_end_customer_enabled", False)
    assert ended[1]["status"] == "closing"
    for socket in (theirs, *phones):
        await socket.wait("session_closing")
    await family.old.post(path + "/closure", {"message": "terima kasih"})
    await refused(joined.post(path + "/closure", {"message": "lagi"}), 409, "CLOSURE_EXISTS")
    assert (await mitra.post(path + "/closure", {"message": "sama-sama"}))["status"] == "completed"
    for socket in (theirs, *phones):
        await socket.wait("session_completed")


async def test_search_of_anonymous_customer_finishes_for_the_account(
    world: World, second: SecondProcesses, provider_a: IdentityServer
) -> None:
    family = await a_family(world, provider_a)
    payment = await world.paid(family.anonymous)  # no mitra is online yet
    joined = await join(world, family)
    await world.until(
        lambda: read_status(family.old, f"{REQUESTS}/{payment['payment_request_id']}"), lambda status: status == 200
    )
    pairing = [await joined.open("pairing"), await at(family.old, second.realtime).open("pairing")]
    assert [socket.frames[0]["searching"]["id"] for socket in pairing] == [payment["session_id"]] * 2
    chats = [await joined.open("chat"), await family.old.open("chat")]
    mitra = await world.mitra()
    await world.until(lambda: mitra.get("/api/mitra/chat-requests"), lambda found: found["items"] != [])
    await mitra.post(f"/api/mitra/chat-requests/{payment['session_id']}/accept")
    for socket in pairing:
        await socket.wait("pairing_status", where=lambda frame: frame["status"] == "paired")
    for socket in chats:
        assert (await socket.wait("session_started"))["session"]["id"] == payment["session_id"]


async def test_account_can_cancel_search_of_anonymous_customer(world: World, provider_a: IdentityServer) -> None:
    family = await a_family(world, provider_a)
    payment = await world.paid(family.anonymous)
    joined = await join(world, family)
    socket = await joined.open("pairing")
    await joined.post("/api/client/chat/cancel", {"payment_request_id": payment["payment_request_id"]})
    await socket.wait("pairing_status", where=lambda frame: frame["status"] == "cancelled")


async def test_unacknowledged_events_reach_the_account(world: World, provider_a: IdentityServer) -> None:
    family, mitra = await a_family(world, provider_a), await world.mitra()
    deaf = await family.anonymous.open("chat", ack=False)
    session_id = await world.session(family.anonymous, mitra)
    event_id = (await deaf.wait("session_started"))["event_id"]
    joined = await join(world, family)
    again = await joined.open("chat")
    told = await again.wait("session_started")
    assert (told["event_id"], told["session"]["id"]) == (event_id, session_id)

    async def waits() -> int:
        return len(await world.stack.sql("SELECT 1 FROM deliveries WHERE id = $1::text::uuid", event_id))

    await world.until(waits, lambda rows: rows == 0)  # the account's acknowledgement counts


# -- rules


async def test_discount_history_and_live_session_are_shared_after_merge(
    world: World, provider_a: IdentityServer
) -> None:
    family, mitra = await a_family(world, provider_a), await world.mitra()
    fresh = {
        "is_anonymous": False, "has_display_name": True, "usp_seen": False, "has_consulted_before": False,
        "first_session_discount_eligible": True, "has_live_session": False,
    }  # fmt: skip
    assert await family.old.get("/api/client/onboarding-state") == fresh
    session_id = await world.session(family.anonymous, mitra)
    assert await family.old.get("/api/client/onboarding-state") == fresh
    joined = await join(world, family)
    seen = {**fresh, "has_consulted_before": True, "first_session_discount_eligible": False, "has_live_session": True}
    assert await joined.get("/api/client/onboarding-state") == seen
    await world.until(
        lambda: family.old.get("/api/client/onboarding-state"), lambda state: state == seen, timeout=within(1)
    )
    for client in (joined, family.old):
        assert (await client.get("/api/client/chat/pricing"))["first_session_discount"]["eligible"] is False
        error = await refused(client.post(REQUESTS, {"duration_minutes": 12}), 409, "SESSION_IN_PROGRESS")
        assert error["details"]["session_id"] == session_id


async def test_discount_used_anonymously_counts_for_the_account(world: World, provider_a: IdentityServer) -> None:
    family = await a_family(world, provider_a)
    payment = await world.paid(family.anonymous, first_session_discount=True)
    joined = await join(world, family)
    await joined.post("/api/client/chat/cancel", {"payment_request_id": payment["payment_request_id"]})
    # The payment failed, so eligibility returned; a second confirmed payment ends it.
    assert (await joined.get("/api/client/onboarding-state"))["first_session_discount_eligible"] is True
    other = await a_family(world, provider_a)
    await world.paid(other.anonymous, first_session_discount=True)
    joined = await join(world, other)
    assert (await joined.get("/api/client/onboarding-state"))["first_session_discount_eligible"] is False
    await refused(joined.post(REQUESTS, {"duration_minutes": 12}), 409, "SESSION_IN_PROGRESS")


async def test_new_request_of_account_abandons_pending_anonymous_request(
    world: World, provider_a: IdentityServer
) -> None:
    family = await a_family(world, provider_a)
    pending = await world.request(family.anonymous)
    joined = await join(world, family)
    newer = await world.request(joined)
    assert (await joined.get(f"{REQUESTS}/{pending['payment_request_id']}"))["status"] == "abandoned"
    assert (await joined.get(f"{REQUESTS}/{newer['payment_request_id']}"))["status"] == "pending"
    older = await a_family(world, provider_a)
    pending = await world.request(older.anonymous)
    joined = await join(world, older)
    assert (await joined.post(f"{REQUESTS}/{pending['payment_request_id']}/abandon"))["status"] == "abandoned"


async def test_anonymous_payment_confirmed_after_merge_belongs_to_the_account(
    world: World, provider_a: IdentityServer
) -> None:
    family = await a_family(world, provider_a)
    pending = await world.request(family.anonymous)
    joined = await join(world, family)
    assert (await world.webhook(pending))[0] == 200
    path = f"{REQUESTS}/{pending['payment_request_id']}"
    found = await world.until(lambda: joined.get(path), lambda seen: seen["session_id"] is not None)
    error = await refused(joined.post(REQUESTS, {"duration_minutes": 12}), 409, "SESSION_IN_PROGRESS")
    assert error["details"] == {name: found[name] for name in ("session_id", "payment_request_id")}
    await joined.post("/api/client/chat/cancel", {"payment_request_id": pending["payment_request_id"]})


async def test_concurrent_requests_during_merge_leave_one_pending(world: World, provider_a: IdentityServer) -> None:
    for _ in range(5):
        family = await a_family(world, provider_a)
        calls = [
            family.anonymous.post(REQUESTS, {"duration_minutes": 12}), family.join(),
            family.old.post(REQUESTS, {"duration_minutes": 12}), family.anonymous.post(REQUESTS, {"duration_minutes": 30}),
        ]  # fmt: skip
        answers = await all_at_once(calls)
        world.clients += [answer for answer in answers if isinstance(answer, Device)]
        refusals = [answer for answer in answers if isinstance(answer, Refused)]
        assert {answer.status for answer in refusals} <= {401}
        joined = next(answer for answer in answers if isinstance(answer, Device))
        await world.request(joined)
        rows = await world.stack.sql(
            """SELECT p.id FROM payment_requests p JOIN customers c ON c.id = p.customer_id
               WHERE coalesce(c.account_belongs_to, c.id) = $1::text::uuid AND p.status = 'pending'""",
            joined.user["id"],
        )
        assert len(rows) == 1


async def test_two_anonymous_customers_merged_into_one_account_are_both_visible(
    world: World, provider_a: IdentityServer
) -> None:
    family = await a_family(world, provider_a)
    payments = [await world.request(family.anonymous)]
    await join(world, family)
    other = attrs.evolve(family, anonymous=await anonymous(world))
    payments.append(await world.request(other.anonymous))
    joined = await join(world, other)
    for payment in payments:
        assert await read_status(joined, f"{REQUESTS}/{payment['payment_request_id']}") == 200


# -- without the bus


@pytest.mark.parametrize("valkey", ["killed", "frozen"])
async def test_merge_without_valkey_is_visible_everywhere_within_a_second(
    world: World, second: SecondProcesses, provider_a: IdentityServer, valkey: str
) -> None:
    family = await a_family(world, provider_a)
    payment = await world.request(family.anonymous)
    path = f"{REQUESTS}/{payment['payment_request_id']}"
    elsewhere = device(world, like=family.old, base=second.api)
    assert [await read_status(client, path) for client in (family.old, elsewhere)] == [404, 404]
    ports = [world.stack.ports["REALTIME"], second.realtime]
    before, old = await sockets_of(family.anonymous, ports), await sockets_of(family.old, ports)
    servers = running(world.stack.root)
    assert servers is not None
    os.kill(servers.valkey_pid, signal.SIGKILL if valkey == "killed" else signal.SIGSTOP)
    try:
        joined = await join(world, family)
        since = time.monotonic()
        await wait_until_all_can_read(world, [family.old, elsewhere], path, since)
        assert [
            await read_status(client, path) for client in (joined, device(world, like=joined, base=second.api))
        ] == [
            200,
            200,
        ]
        async with asyncio.timeout(within(1)):
            assert [await socket.code() for socket in old] == [GOING_AWAY] * 4
            assert [await socket.code() for socket in before] == [4401] * 4
        phone = await at(family.old, second.realtime).open("chat")
        assert phone.frames[0]["sessions"] == []
    finally:
        if valkey == "frozen":
            os.kill(servers.valkey_pid, signal.SIGCONT)
        await asyncio.to_thread(world.stack.servers.watch)


async def test_socket_that_knows_the_merge_is_not_closed(world: World, provider_a: IdentityServer) -> None:
    family = await a_family(world, provider_a)
    joined = await join(world, family)
    socket, hello = await bare_and_known(joined)
    assert hello["user"]["id"] == family.old.user["id"]
    for _ in range(25):  # at least 2.5 s: long enough for three polls of the database
        await socket.say({"type": "ping"})
        await socket.next_frame_of("pong")
        await asyncio.sleep(0.1)
