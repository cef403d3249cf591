"""Which sockets are admitted: origins, addresses behind proxies, unauthenticated sockets, open files; and the answers
to refused ones.
"""

import asyncio
import itertools
import json
import resource
from collections.abc import Iterator
from typing import Any

import aiohttp
import pytest

from realtime.connections import SOCKETS_A_USER
from tests.sockets.plain_socket import PlainSocket, at, bare_and_known
from tests.stack import Stack, World
from tools.driving.device import Device
from tools.driving.throwaway import free_port

pytestmark = pytest.mark.anyio

ORIGIN = "https://app.example"


@pytest.fixture
def guarded_port(stack: Stack) -> Iterator[int]:
    """Yield the port of a realtime process that accepts three unauthenticated sockets per address, and two origins."""
    port = free_port()
    env = {
        "REALTIME_PORT": str(port),
        "WS_UNAUTHENTICATED_PER_ADDRESS": "3",
        "PUBLIC_CORS_ORIGINS": f"{ORIGIN},https://*.example.org",
    }
    stack.start("realtime", key="guarded", **env)  # type: ignore[arg-type]  # no setting is called `wait`
    stack.wait_ready("realtime", port=port)
    yield port
    stack.stop("guarded")
    del stack.processes["guarded"]


async def opened(client: Device, **headers: str) -> PlainSocket:
    """Open a socket with these headers and send nothing."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    url = f"{client.addresses.realtime}/ws/chat"
    return PlainSocket(await client._http.ws_connect(url, headers=named, max_msg_size=0), "chat")


async def refused(client: Device, **headers: str) -> aiohttp.WSServerHandshakeError:
    """Ask for an upgrade that the service refuses; return the error."""
    with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
        await opened(client, **headers)
    return caught.value


async def try_open(client: Device) -> PlainSocket | None:
    """Open a socket; return None if the service refuses it."""
    try:
        return await opened(client)
    except aiohttp.WSServerHandshakeError:
        return None


def lines(stack: Stack, process: str, **wanted: Any) -> list[dict[str, Any]]:
    """Return the lines about refused sockets in a process's log that have these fields."""
    found = [json.loads(line) for line in stack.log(process).splitlines() if '"websocket refused"' in line]
    return [line for line in found if wanted.items() <= line.items()]


async def test_oldest_unauthenticated_socket_of_an_address_closes_with_1013(world: World, guarded_port: int) -> None:
    customer = at(await world.customer(), guarded_port)
    known, _ = await bare_and_known(customer)
    behind = {"X_Forwarded_For": "198.51.100.1, 203.0.113.7"}
    waiting = [await opened(customer, **behind) for _ in range(3)]
    other = await opened(customer, X_Forwarded_For="203.0.113.7, 198.51.100.1")
    newest = await opened(customer, **behind)
    assert await waiting[0].code() == 1013
    for socket in (*waiting[1:], newest, other, known):
        if socket is not known:
            await socket.say({"type": "auth", "token": customer.access_token})
            assert (await socket.next_frame())["type"] == "auth_ok"
        await socket.say({"type": "ping"})
        await socket.next_frame_of("pong")
    await opened(customer, **behind)  # authenticated sockets do not count
    [line] = await world.until(_logged(world, "guarded", close_code=1013), lambda found: found)
    assert (line["path"], line["address"], line["user_id"]) == ("chat", "203.0.113.7", None)
    assert line["milliseconds"] >= 0


def _logged(world: World, process: str, **wanted: Any) -> Any:
    async def look() -> list[dict[str, Any]]:
        return lines(world.stack, process, **wanted)

    return look


async def test_unlisted_origin_is_refused_before_the_upgrade(world: World, guarded_port: int) -> None:
    customer = at(await world.customer(), guarded_port)
    for allowed in (ORIGIN, "https://desk.example.org"):
        await opened(customer, Origin=allowed)
    for foreign in ("https://evil.example", "null", f"{ORIGIN}.evil.example", "https://appxexample"):
        answer = await refused(customer, Origin=foreign, X_Request_Id="asked-1")
        assert answer.status == 403
        assert answer.headers is not None
        assert answer.headers["X-Request-Id"] == "asked-1"
        assert "X-Server-Time" in answer.headers
    await bare_and_known(customer)  # no Origin: most apps
    found = await world.until(_logged(world, "guarded", status=403), lambda found: len(found) == 4)
    assert {(line["path"], line["address"]) for line in found} == {("chat", "127.0.0.1")}


async def test_own_host_is_accepted_as_origin_beside_listed_ones(world: World, guarded_port: int) -> None:
    customer = at(await world.customer(), guarded_port)
    own = f"127.0.0.1:{guarded_port}"
    for origin in (f"http://{own}", f"https://{own}"):  # as React Native sends it
        await opened(customer, Origin=origin)
    await opened(customer, Host="Api.Example.com:443", Origin="https://api.example.com")
    for foreign in ("http://127.0.0.1:1", "http://127.0.0.1", f"http://localhost:{guarded_port}"):
        assert (await refused(customer, Origin=foreign)).status == 403


async def test_every_origin_is_accepted_without_configured_origins(world: World) -> None:
    await opened(await world.customer(), Origin="https://anywhere.example")


async def test_closed_socket_logs_one_line_with_the_user_and_no_token(world: World) -> None:
    customer = await world.customer()
    socket, _ = await bare_and_known(customer)
    for _ in range(300):
        await socket.ws.ping()
    assert await socket.code() == 4429
    user_id = customer.user["id"]
    found = await world.until(_logged(world, "realtime", user_id=user_id), lambda found: found)
    assert [(line["close_code"], line["address"], line["path"]) for line in found] == [(4429, "127.0.0.1", "chat")]
    assert found[0]["auth_session_id"]
    assert customer.access_token is not None
    assert customer.access_token not in world.stack.log("realtime")


async def test_probes_answer_and_upgrades_are_refused_when_files_run_out(world: World, guarded_port: int) -> None:
    customer = at(await world.customer(), guarded_port)
    process = world.stack.processes["guarded"]
    soft, hard = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
    assert soft == hard, "the process has raised its limit to the highest that it may"
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (190, hard))
    series = "SELECT since_at FROM service_processes WHERE place LIKE $1"
    own_place = f"realtime %:{guarded_port}"
    [before] = await world.until(lambda: world.stack.sql(series, own_place), lambda rows: rows)
    # Authenticated sockets: the others would be closed after five seconds, while the test still needs them.
    guests = [at(await world.customer(), guarded_port) for _ in range(6)]
    sockets = []
    answer: aiohttp.WSServerHandshakeError | None = None
    for guest, path, _ in itertools.product(guests, ("chat", "pairing"), range(SOCKETS_A_USER)):
        try:
            sockets.append((await bare_and_known(guest, path))[0])
        except aiohttp.WSServerHandshakeError as error:
            answer = error
            break
    assert answer is not None
    assert 20 < len(sockets) < 90
    assert answer.status == 503
    assert answer.headers is not None
    assert 1 <= int(answer.headers["Retry-After"]) <= 10
    for _ in range(120):  # more than there are files left: each is refused, and its connection is closed
        assert (await refused(customer)).status == 503
    async with asyncio.timeout(5), customer._http.get(f"http://127.0.0.1:{guarded_port}/healthz") as probe:
        assert probe.status == 200
    # Silence of mitras who can't connect does not count: the process can accept heartbeats only from now on.
    await world.until(lambda: world.stack.sql(series, own_place), lambda rows: rows[0]["since_at"] > before["since_at"])
    for socket in sockets:
        await socket.ws.close()
    assert await world.until(lambda: try_open(customer), lambda socket: socket)
