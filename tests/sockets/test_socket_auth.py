"""Authentication of sockets, and how long they may stay open (docs/security.md)."""

import asyncio
import time

import pytest

from tests.sockets.plain_socket import PlainSocket, bare, bare_and_known, end_early, moment, token_like
from tests.stack import World, within
from tools.driving.device import Device

pytestmark = pytest.mark.anyio

SESSION = {
    "id", "customer", "mitra", "mode", "status", "topics", "topic_sensitivity", "duration_minutes", "extended_minutes",
    "price", "is_first_session_discount", "created_at", "paired_at", "expires_at", "ended_at", "ended_by", "last_seq",
    "unread_count", "search", "grace_ends_at", "closures",
}  # fmt: skip
REQUEST = {
    "session_id", "customer_display_name", "mode", "topics", "topic_sensitivity", "duration_minutes", "kind",
    "notified_at", "answer_by",
}  # fmt: skip


@pytest.mark.parametrize(
    "first",
    [
        '{"type": "ping"}',
        '{"type": "auth"}',
        '{"type": "auth", "token": 5}',
        '{"type": "auth", "token": ""}',
        '{"type": "auth", "token": "a.b.c"}',
        '{"type": "auth", "token": "\\u0000"}',
        "nonsense",
        "[]",
        b'{"type": "auth"}',
    ],
)
@pytest.mark.parametrize("path", ["chat", "pairing"])
async def test_invalid_first_frame_closes_with_4401(world: World, path: str, first: str | bytes) -> None:
    socket = await bare(world.client(), path)
    await (socket.ws.send_str(first) if isinstance(first, str) else socket.ws.send_bytes(first))
    assert await socket.code() == 4401


@pytest.mark.slow
async def test_socket_without_auth_frame_for_five_seconds_closes_with_4401(world: World) -> None:
    began = time.monotonic()
    socket = await bare(world.client())
    assert await socket.code() == 4401
    assert 4.5 < time.monotonic() - began < 10


async def test_expired_forged_foreign_and_operators_tokens_are_refused(world: World) -> None:
    customer, operator = await world.customer(), await world.operator()
    good = token_like(world.stack, customer)
    bad = {
        "expired": token_like(world.stack, customer, exp=1_700_000_000),
        "forged": token_like(world.stack, customer, key="x" * 64),
        "for the other listener": token_like(world.stack, customer, aud="internal"),
        "of an operator": operator.access_token,
    }
    seen = {}
    for name, token in bad.items():
        socket = await bare(customer)
        await socket.say({"type": "auth", "token": token})
        seen[name] = await socket.code()
    assert seen == dict.fromkeys(bad, 4401)
    socket = await bare(customer)
    await socket.say({"type": "auth", "token": good})
    assert (await socket.next_frame())["type"] == "auth_ok"


async def test_auth_ok_of_a_customer_has_the_complete_snapshot(world: World) -> None:
    customer, mitra = await world.customer("Dewi"), await world.mitra("Ayu")
    _, idle = await bare_and_known(customer, "pairing")
    assert idle["searching"] is None
    payment = await world.paid(customer, topics=["work"])
    _, searching = await bare_and_known(customer, "pairing")
    assert set(searching["searching"]) == SESSION
    assert (searching["searching"]["id"], searching["searching"]["status"]) == (payment["session_id"], "searching")

    await mitra.post(f"/api/mitra/chat-requests/{payment['session_id']}/accept")
    for client in (customer, mitra):
        socket = await bare(client)
        await socket.say({"type": "auth", "token": client.access_token, "ref": "r1"})
        known = await socket.next_frame()
        assert known["type"] == "auth_ok"
        assert known["ref"] == "r1"
        assert known["user"]["id"] == client.user["id"]
        assert known["ping_seconds"] == 25
        assert known["time_scale"] == (await client.get("/api/shared/config/app"))["time_scale"]
        assert known["connection_id"]
        moment(known["server_time"])
        [session] = known["sessions"]
        assert set(session) >= SESSION
        assert session["customer"] == {"id": customer.user["id"], "display_name": "Dewi"}
        assert session["mitra"] == {"id": mitra.user["id"], "display_name": "Ayu"}
        assert (session["status"], session["last_seq"], session["unread_count"]) == ("active", 0, 0)
    await end_early(world, customer, payment["session_id"])
    _, closing = await bare_and_known(customer)
    assert [s["status"] for s in closing["sessions"]] == ["closing"]
    for client in (customer, mitra):
        await client.post(f"/api/shared/chat/sessions/{payment['session_id']}/closure", {"message": "bye"})
    _, over = await bare_and_known(customer)
    assert over["sessions"] == []


async def test_auth_ok_lists_the_open_invitations_of_a_mitra(world: World) -> None:
    customer, mitra = await world.customer("Dewi"), await world.mitra()
    payment = await world.paid(customer, topics=["work"])
    await world.until(lambda: mitra.get("/api/mitra/chat-requests"), lambda found: found["items"])
    _, known = await bare_and_known(mitra, "pairing")
    [request] = [r for r in known["requests"] if r["session_id"] == payment["session_id"]]
    assert set(request) == REQUEST
    assert (request["customer_display_name"], request["kind"], request["topics"]) == ("Dewi", "blast", ["work"])
    await customer.post("/api/client/chat/cancel", {"payment_request_id": payment["payment_request_id"]})


async def test_new_token_of_the_same_user_renews_a_socket_and_another_users_closes_it(world: World) -> None:
    customer, other = await world.customer(), await world.customer()
    socket, first = await bare_and_known(customer)
    await customer.refresh()
    await socket.say({"type": "auth", "token": customer.access_token, "ref": "again"})
    again = await socket.next_frame()
    assert (again["type"], again["ref"], again["connection_id"]) == ("auth_ok", "again", first["connection_id"])
    await socket.say({"type": "auth", "token": other.access_token})
    assert await socket.code() == 4401


async def service_now(client: Device) -> int:
    """Return the service time in whole seconds."""
    _, known = await bare_and_known(client)
    return int(moment(known["server_time"]).timestamp())


async def with_token_until(world: World, customer: Device, path: str, end: int) -> PlainSocket:
    """Open a socket whose token expires at this moment of service time."""
    socket = await bare(customer, path)
    await socket.say({"type": "auth", "token": token_like(world.stack, customer, exp=end)})
    assert (await socket.next_frame())["type"] == "auth_ok"
    return socket


@pytest.mark.slow
async def test_socket_is_warned_a_minute_before_its_token_expires_and_closed_then(world: World) -> None:
    customer = await world.customer()
    now = await service_now(customer)
    ends = [now + 6, now + 63]  # so a test of seconds sees a warning that comes a minute before the end, and an end
    sockets = [
        (await with_token_until(world, customer, path, end), end) for end in ends for path in ("chat", "pairing")
    ]
    for socket, end in sockets:
        warned = await socket.next_frame_of("auth_expiring")
        assert moment(warned["at"]).timestamp() == end
        assert 0 < end - moment(warned["server_time"]).timestamp() <= 60
    for socket, _ in sockets[:2]:
        assert await socket.code() == 4401
    assert await service_now(customer) >= ends[0]


@pytest.mark.slow
async def test_socket_with_a_new_token_outlives_the_old_token(world: World) -> None:
    customer = await world.customer()
    end = await service_now(customer) + 6
    socket = await with_token_until(world, customer, "chat", end)
    await socket.next_frame_of("auth_expiring")
    await customer.refresh()
    await socket.say({"type": "auth", "token": customer.access_token})
    answer = await socket.next_frame_of("auth_ok")
    while moment(answer["server_time"]).timestamp() < end + 1:
        await asyncio.sleep(0.1)  # within the rate limit
        await socket.say({"type": "ping"})
        answer = await socket.next_frame_of("pong")
    assert not socket.ws.closed


async def test_logout_closes_the_sockets_of_its_auth_session_with_4403(world: World) -> None:
    leaver, stayer = await world.customer(), await world.customer()
    chat, _ = await bare_and_known(leaver, "chat")
    pairing, _ = await bare_and_known(leaver, "pairing")
    stays, _ = await bare_and_known(stayer)
    token = leaver.access_token
    began = time.monotonic()
    await leaver.post("/api/shared/auth/logout")
    async with asyncio.TaskGroup() as group:
        codes = [group.create_task(socket.code()) for socket in (chat, pairing)]
    assert [task.result() for task in codes] == [4403, 4403]
    assert time.monotonic() - began < within(3)
    socket = await bare(leaver)
    await socket.say({"type": "auth", "token": token})
    assert await socket.code() == 4401
    await stays.say({"type": "ping"})
    assert (await stays.next_frame())["type"] == "pong"


async def test_revoked_auth_session_closes_sockets_without_a_signal(world: World) -> None:
    customer = await world.customer()
    socket, _ = await bare_and_known(customer)
    await world.stack.sql(
        "UPDATE auth_sessions SET revoked_at = now(), revoked_real_at = clock_timestamp() WHERE user_id = $1::uuid",
        customer.user["id"],
    )
    assert await socket.code(within(5)) == 4403


async def test_ninth_socket_of_a_user_on_a_path_closes_the_oldest_with_4409(world: World) -> None:
    customer = await world.customer()
    pairing, _ = await bare_and_known(customer, "pairing")
    sockets = [(await bare_and_known(customer))[0] for _ in range(9)]
    assert await sockets[0].code() == 4409
    for socket in (*sockets[1:], pairing):
        await socket.say({"type": "ping"})
        assert (await socket.next_frame_of("pong"))["type"] == "pong"
