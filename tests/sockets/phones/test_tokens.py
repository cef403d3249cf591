"""The Python client's tokens: renewed in time, by one refresh for many requests, and dropped when the device is
signed out.
"""

import asyncio
import collections
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from tests.sockets.phones.devices import second_device
from tests.sockets.plain_socket import token_like
from tests.stack import Stack, World
from tools.driving.device import Device
from tools.driving.sesi_client import Refused, SignedOut, Socket

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


class Counting(Device):
    """A client that counts its refreshes."""

    refreshes = 0

    async def refresh(self) -> None:
        """Refresh and count it."""
        self.refreshes += 1
        await super().refresh()


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """Yield a service whose access tokens live for 7.5 real seconds."""
    made = Stack(scale=4, ACCESS_TOKEN_SECONDS="30")
    yield made
    made.close()


@pytest.fixture
async def world(stack: Stack) -> AsyncIterator[World]:
    """Yield the users of the test."""
    made = World(stack)
    await made.scale_silence()
    yield made
    await made.close()


async def a_customer(world: World) -> Counting:
    """Return a customer on a counting device."""
    made = Counting(world.stack.addresses)
    world.clients.append(made)
    await made.sign_in_anonymously("Dewi")
    return made


def old_token(world: World, client: Device) -> str:
    """Return the client's access token with an expiry in the distant past."""
    return token_like(world.stack, client, iat=1_000_000, exp=1_000_030)


@pytest.fixture
def warnings(monkeypatch: pytest.MonkeyPatch) -> collections.Counter[str]:
    """Count how often the service announces a token's end, by path."""
    counts: collections.Counter[str] = collections.Counter()
    check = Socket.check_frame
    assert check is not None

    def count(path: str, frame: dict[str, Any], first: dict[str, Any]) -> None:
        counts[path] += frame["type"] == "auth_expiring"
        check(path, frame, first)

    monkeypatch.setattr(Socket, "check_frame", staticmethod(count))
    return counts


@pytest.mark.slow
async def test_tokens_are_renewed_before_they_expire_over_the_same_socket(
    world: World, warnings: collections.Counter[str]
) -> None:
    client = await (await a_customer(world)).start()
    try:
        await client.until(lambda: min(warnings["chat"], warnings["pairing"]) >= 1)
        sockets = [one.socket for one in client.connections.values()]
        await client.until(lambda: min(warnings["chat"], warnings["pairing"]) >= 2)
        assert [one.socket for one in client.connections.values()] == sockets
        assert warnings == {"chat": 2, "pairing": 2}
        await client.until(lambda: client.refreshes >= 2)
        assert client.refreshes == 2
        assert client.connection == "open"
    finally:
        await client.stop()


async def test_concurrent_requests_with_an_expired_token_make_one_refresh(world: World) -> None:
    client = await a_customer(world)
    client.access_token = old_token(world, client)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(client.get("/api/client/auth/me")) for _ in range(25)]
    assert {task.result()["id"] for task in tasks} == {client.user["id"]}
    assert client.refreshes == 1


async def test_phone_whose_token_expired_while_offline_reconnects(world: World) -> None:
    client, mitra = await a_customer(world), await world.mitra()
    session_id = await world.session(client, mitra, duration_minutes=60)
    phone = await client.start("chat")
    try:
        await phone.until(lambda: session_id in phone.sessions)
        before, refreshes = phone.connections["chat"].open, client.refreshes
        client.access_token = old_token(world, client)
        await phone.cut()
        await phone.until(lambda: phone.connections["chat"].open not in (None, before))
        assert client.refreshes > refreshes
        assert (await phone.say(session_id, "kembali"))["seq"] == 1
        await phone.until(lambda: len(phone.transcript(session_id)) == 1)
    finally:
        await phone.stop()


async def test_revoked_device_is_signed_out_at_once(world: World) -> None:
    client = await a_customer(world)
    other = await second_device(world, client)
    phone = await client.start("chat")
    try:
        await phone.until(lambda: phone.connection == "open")
        devices = await client.get("/api/shared/auth/sessions")
        (current,) = [device["id"] for device in devices["items"] if device["current"]]
        other.access_token = token_like(world.stack, other, exp=_far(world, other))
        waiting = asyncio.create_task(phone.wait("session_started"))
        saying = asyncio.create_task(phone.say("00000000-0000-7000-8000-000000000000", "halo", timeout=20))
        await other.call("DELETE", f"/api/shared/auth/sessions/{current}")
        with pytest.raises(SignedOut):
            await waiting
        with pytest.raises((SignedOut, Refused)):  # refused if the answer arrives before the close
            await saying
        with pytest.raises(SignedOut):
            await phone.until(lambda: False)
    finally:
        await phone.stop()


def _far(world: World, client: Device) -> Any:
    """Return a distant expiry by the service's clock."""
    import jwt

    assert client.access_token is not None
    return jwt.decode(client.access_token, options={"verify_signature": False})["exp"] + 100_000


async def test_device_revoked_while_offline_is_signed_out_when_it_reconnects(world: World) -> None:
    client = await a_customer(world)
    phone = await client.start("chat")
    try:
        await phone.until(lambda: phone.connection == "open")
        await world.stack.sql(
            "UPDATE auth_sessions SET revoked_at = now() WHERE user_id = $1::uuid", client.user["id"]
        )  # no signal is published
        client.access_token = old_token(world, client)
        await phone.cut()
        with pytest.raises(SignedOut):
            await phone.wait("session_started", timeout=20)
    finally:
        await phone.stop()


async def test_stopped_phone_ends_without_errors(world: World) -> None:
    client = await a_customer(world)
    phone = await client.start("chat")
    await phone.stop()
    never = world.client()
    await never.stop()
    await never.cut()
