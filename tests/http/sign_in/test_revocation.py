"""Access tokens on several processes: key rotation, and auth sessions that end everywhere at once (docs/security.md)."""

import asyncio
import os
import secrets
import signal
import time
from collections.abc import Iterator
from typing import Any

import attrs
import jwt
import pytest

from tests.sockets.plain_socket import PlainSocket, at, bare, bare_and_known
from tests.stack import Stack, World, within
from tools.driving.device import Device
from tools.driving.throwaway import free_port
from tools.embedded.ownership import running

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

OLD, NEW = secrets.token_hex(32), secrets.token_hex(32)
ME = "/api/client/auth/me"
REFRESH = "/api/shared/auth/refresh"


@attrs.frozen
class SecondProcesses:
    """Addresses of a second process of each kind."""

    public: str
    realtime: int


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """Run a service that signs with the old key, with rate limits high enough for the calls of these tests."""
    made = Stack(JWT_SECRETS=f"old:{OLD},new:{NEW}", RATE_LIMIT_PER_MINUTE="1000000", RATE_LIMIT_BURST="1000000")
    yield made
    made.close()


def start_api(stack: Stack, key: str, jwt_secrets: str) -> str:
    """Start a further api process; return its public address."""
    public, internal = free_port(), free_port()
    stack.start("api", key=key, PUBLIC_PORT=str(public), INTERNAL_PORT=str(internal), JWT_SECRETS=jwt_secrets)
    stack.wait_ready("api", port=internal)
    return f"http://127.0.0.1:{public}"


@pytest.fixture(scope="module")
def second(stack: Stack) -> SecondProcesses:
    """Start a second api process, which already signs with the new key, and a second realtime process."""
    port = free_port()
    stack.start("realtime", key="realtime2", REALTIME_PORT=str(port))
    public = start_api(stack, "api2", f"new:{NEW},old:{OLD}")
    stack.wait_ready("realtime", port=port)
    return SecondProcesses(public, port)


def through_process(client: Device, base: str) -> Device:
    """Point a client's calls at another api process."""
    client.addresses = attrs.evolve(client.addresses, public=base)
    client._base = base
    return client


async def asks(world: World, base: str, token: str | None) -> int:
    """Return the status of a call with a token."""
    headers = {"Authorization": f"Bearer {token}"}
    async with world.client()._http.get(base + ME, headers=headers) as answer:
        return answer.status


async def rotates(world: World, base: str, refresh_token: str | None) -> tuple[int, Any]:
    """Refresh with a token; return status and answer."""
    async with world.client()._http.post(base + REFRESH, json={"refresh_token": refresh_token}) as answer:
        return answer.status, await answer.json()


def kid_of(token: str | None) -> str:
    """Return the key id that a token names."""
    return jwt.get_unverified_header(token or "")["kid"]


def sid_of(token: str | None) -> str:
    """Return the auth session id of a token."""
    return jwt.decode(token or "", options={"verify_signature": False})["sid"]


# -- key rotation


@pytest.mark.slow
async def test_processes_accept_each_others_tokens_during_key_rotation(world: World, second: SecondProcesses) -> None:
    first = world.stack.addresses.public
    older, newer = await world.customer(), through_process(world.client(), second.public)
    await newer.sign_in_anonymously("Sari")
    assert (kid_of(older.access_token), kid_of(newer.access_token)) == ("old", "new")
    for client in (older, newer):
        for base in (first, second.public):
            assert await asks(world, base, client.access_token) == 200
        for port in (world.stack.ports["REALTIME"], second.realtime):
            await bare_and_known(at(client, port))
    for client, there, kid in ((older, second.public, "new"), (newer, first, "old")):
        before = client.refresh_token
        status, answer = await rotates(world, there, before)
        assert (status, kid_of(answer["access_token"])) == (200, kid)
        other = first if there == second.public else second.public
        status, again = await rotates(world, other, before)  # a retry at the other process after a lost answer
        assert (status, again["refresh_token"]) == (200, answer["refresh_token"])
        status, further = await rotates(world, other, answer["refresh_token"])
        assert status == 200
        assert await asks(world, there, further["access_token"]) == 200


async def test_token_signed_with_a_removed_key_is_401(world: World, second: SecondProcesses) -> None:
    customer = await world.customer()
    later = start_api(world.stack, "api3", f"new:{NEW}")
    try:
        assert await asks(world, second.public, customer.access_token) == 200
        assert await asks(world, later, customer.access_token) == 401
        status, answer = await rotates(world, later, customer.refresh_token)
        assert (status, answer["error"]["code"]) == (401, "REFRESH_INVALID")
    finally:
        world.stack.kill("api3")
        del world.stack.processes["api3"]
    assert (await rotates(world, second.public, customer.refresh_token))[0] == 200  # the refusal revoked nothing


async def test_token_is_verified_only_by_the_key_it_names(world: World, second: SecondProcesses) -> None:
    customer = await world.customer()
    claims = jwt.decode(customer.access_token or "", options={"verify_signature": False})
    made = {
        "of an unknown key": jwt.encode(claims, OLD, headers={"kid": "older"}),
        "of no key": jwt.encode(claims, OLD),
        "of the other key": jwt.encode(claims, NEW, headers={"kid": "old"}),
        "of a key that is no text": jwt.encode(claims, OLD, headers={"kid": ""}),
    }
    for base in (world.stack.addresses.public, second.public):
        assert await asks(world, base, jwt.encode(claims, NEW, headers={"kid": "new"})) == 200
        assert {name: await asks(world, base, token) for name, token in made.items()} == dict.fromkeys(made, 401)
    for port in (world.stack.ports["REALTIME"], second.realtime):
        socket = await bare(at(customer, port))
        await socket.say({"type": "auth", "token": made["of an unknown key"]})
        assert await socket.code() == 4401


# -- end of auth sessions


async def everywhere(client: Device, second: SecondProcesses) -> list[PlainSocket]:
    """Open a user's sockets: both paths at both realtime processes."""
    found = []
    for port in (client.addresses.realtime.rpartition(":")[2], second.realtime):
        for path in ("chat", "pairing"):
            found.append((await bare_and_known(at(client, int(port)), path))[0])
    return found


async def check_revoked_everywhere(
    world: World, second: SecondProcesses, sockets: list[PlainSocket], token: str | None, began: float
) -> None:
    """Check that within a second both realtime processes close with 4403 and both api processes refuse the token."""
    took: dict[str, float] = {}

    async def closes(n: int, socket: PlainSocket) -> None:
        assert await socket.code() == 4403
        took[f"socket {n}"] = time.monotonic() - began

    async def refuses(base: str) -> None:
        await world.until(lambda: asks(world, base, token), lambda status: status == 401)
        took[base] = time.monotonic() - began

    async with asyncio.TaskGroup() as group:
        for n, socket in enumerate(sockets):
            group.create_task(closes(n, socket))
        for base in (world.stack.addresses.public, second.public):
            group.create_task(refuses(base))
    limit = within(1)
    assert {what: s for what, s in took.items() if s > limit} == {}
    for port in (world.stack.ports["REALTIME"], second.realtime):
        socket = await bare(at(world.client(), port))
        await socket.say({"type": "auth", "token": token})
        assert await socket.code() == 4401


async def log_out(client: Device) -> None:
    """End the auth session by logging out."""
    assert (await client._once("POST", "/api/shared/auth/logout", None))[0] == 204


async def remove_device(client: Device) -> None:
    """End the auth session by removing its device."""
    path = f"/api/shared/auth/sessions/{sid_of(client.access_token)}"
    assert (await client._once("DELETE", path, None))[0] == 200


@pytest.mark.parametrize("valkey", ["there", "killed", "frozen"])
@pytest.mark.parametrize("end", [log_out, remove_device])
async def test_ended_auth_session_is_refused_by_every_process(
    world: World, second: SecondProcesses, end: Any, valkey: str
) -> None:
    leaver, stayer = await world.customer("Lia"), await world.customer("Sari")
    sockets, stays = await everywhere(leaver, second), await everywhere(stayer, second)
    servers = running(world.stack.root)
    assert servers is not None
    if valkey != "there":
        os.kill(servers.valkey_pid, signal.SIGKILL if valkey == "killed" else signal.SIGSTOP)
    try:
        token = leaver.access_token
        await end(leaver)
        await check_revoked_everywhere(world, second, sockets, token, time.monotonic())
        assert await asks(world, second.public, stayer.access_token) == 200
    finally:
        if valkey == "frozen":
            os.kill(servers.valkey_pid, signal.SIGCONT)
        await asyncio.to_thread(world.stack.servers.watch)
    for socket in stays:
        await socket.say({"type": "ping"})
        assert (await socket.next_frame_of("pong"))["type"] == "pong"
    status, answer = await rotates(world, second.public, leaver.refresh_token)
    assert (status, answer["error"]["code"]) == (401, "REFRESH_INVALID")


@pytest.mark.parametrize("bus", ["there", "killed"])
async def test_deactivated_mitra_gets_the_reason_from_every_process(
    world: World, second: SecondProcesses, bus: str
) -> None:
    mitra, operator = await world.mitra(), await world.operator()
    ports = (mitra.addresses.realtime.rpartition(":")[2], second.realtime)
    sockets = [(await bare_and_known(at(mitra, int(port)), "pairing"))[0] for port in ports]
    servers = running(world.stack.root)
    assert servers is not None
    if bus == "killed":
        os.kill(servers.valkey_pid, signal.SIGKILL)
    try:
        await operator.call("PATCH", f"/internal/mitras/{mitra.user['id']}", {"is_active": False})
        for socket in sockets:
            frame = await socket.next_frame_of("mitra_status_changed")
            assert (frame["is_online"], frame["reason"]) == (False, "deactivated")
            assert await socket.code() == 4403
    finally:
        await asyncio.to_thread(world.stack.servers.watch)


# -- refresh tokens


async def living(world: World, customer: Device) -> list[str]:
    """Return the ids of the user's live auth sessions."""
    rows = await world.stack.sql(
        "SELECT id::text FROM auth_sessions WHERE user_id = $1::uuid AND revoked_at IS NULL", customer.user["id"]
    )
    return [row["id"] for row in rows]


async def test_fifty_concurrent_refreshes_have_one_successor(world: World, second: SecondProcesses) -> None:
    customer = await world.customer()
    bases = (world.stack.addresses.public, second.public)
    async with asyncio.TaskGroup() as group:
        calls = [group.create_task(rotates(world, bases[n % 2], customer.refresh_token)) for n in range(50)]
    answers = [call.result() for call in calls]
    assert {status for status, _ in answers} == {200}
    [successor] = {answer["refresh_token"] for _, answer in answers}
    assert await living(world, customer) == [sid_of(customer.access_token)]
    assert {sid_of(answer["access_token"]) for _, answer in answers} == {sid_of(customer.access_token)}
    for base in bases:
        assert await asks(world, base, answers[-1][1]["access_token"]) == 200
    status, newest = await rotates(world, second.public, successor)
    assert status == 200
    assert newest["refresh_token"] != successor


async def test_refresh_token_reused_late_ends_the_auth_session_everywhere(
    world: World, second: SecondProcesses
) -> None:
    customer = await world.customer()
    used, sid = customer.refresh_token, sid_of(customer.access_token)
    await customer.refresh()
    sockets = await everywhere(customer, second)
    assert (await rotates(world, second.public, used))[0] == 200  # within 30 s: a retry after a lost answer
    await world.stack.sql(
        "UPDATE auth_sessions SET rotated_at = rotated_at - interval '31 seconds' WHERE id = $1::uuid", sid
    )
    status, answer = await rotates(world, second.public, used)
    began = time.monotonic()
    assert (status, answer["error"]["code"]) == (401, "REFRESH_INVALID")
    await check_revoked_everywhere(world, second, sockets, customer.access_token, began)
    assert await living(world, customer) == []
    status, answer = await rotates(world, second.public, customer.refresh_token)  # the thief's token, or the owner's
    assert (status, answer["error"]["code"]) == (401, "REFRESH_INVALID")


async def test_older_refresh_token_within_the_grace_is_401_and_ends_nothing(
    world: World, second: SecondProcesses
) -> None:
    customer = await world.customer()
    used = customer.refresh_token
    await customer.refresh()
    await customer.refresh()
    assert (await rotates(world, second.public, used))[0] == 401
    assert await living(world, customer) == [sid_of(customer.access_token)]
    await customer.refresh()


async def test_stolen_token_kept_rotating_is_detected_when_the_owner_refreshes(
    world: World, second: SecondProcesses
) -> None:
    """Check each used token's own age: the auth session's last rotation is always recent, the owner's token is not."""
    owner = await world.customer()
    mine = owner.refresh_token
    await owner.refresh()  # from here on the thief has the newest token
    for _ in range(3):
        await owner.refresh()
        await world.stack.sql(
            """UPDATE auth_sessions SET rotated_at = rotated_at - interval '20 seconds', used_tokens =
                 (SELECT jsonb_object_agg(key, value::timestamptz - interval '20 seconds') FROM jsonb_each_text(used_tokens))
               WHERE user_id = $1::uuid""",
            owner.user["id"],
        )
        await owner.refresh()
    assert (await rotates(world, second.public, mine))[0] == 401
    assert await living(world, owner) == []
