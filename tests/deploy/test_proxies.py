"""The shipped configurations of nginx and HAProxy in front of two processes of each kind, over TLS."""

import asyncio
import contextlib
import copy
import functools
import itertools
import json
import random
import ssl
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any

import aiohttp
import pytest
import redis
import yarl

from tests.deploy.front import Front, OnlyHere, ProxiedWorld, TwoOfEach, in_front
from tests.deploy.placed import NAME
from tests.deploy.programs import PROXIES, missing
from tests.stack import within
from tools.driving.device import Device, RecordedSocket
from tools.driving.sesi_client import Closed
from tools.driving.throwaway import free_port

pytestmark = pytest.mark.anyio
ANONYMOUS = "/api/shared/auth/anonymous"
CONFIG = "/api/shared/config/app"
HEARTBEAT = "/api/mitra/status/heartbeat"
GOING_AWAY = 1012
SOCKETS = 6
PHONES = 60  # behind each proxy
BACK_S = 10.0
FORGED = itertools.count(1)  # the third numbers of addresses, each of another network with its share of the budget
HIDDEN = (
    "/internal/auth/login",
    "/api/../internal/auth/login",
    "/api/%2e%2e/internal/auth/login",
    "/metrics",
    "/readyz",
    "/docs",
    "/openapi.json",
    "/asyncapi.json",
    "/dev/inbox",
    "/try/",
    "/ws/other",
    "/",
)


@pytest.fixture(scope="module")
def two_of_each() -> Iterator[TwoOfEach]:
    """Run a service with two api and two realtime processes."""
    made = TwoOfEach(PUBLIC_CORS_ORIGINS="https://app.example.com")
    try:
        for kind in ("api", "realtime"):
            made.start_second(kind)
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def fronts(two_of_each: TwoOfEach) -> Iterator[dict[str, Front]]:
    """Run each proxy that is installed in front of the service."""
    with contextlib.ExitStack() as begun:
        yield {proxy: begun.enter_context(in_front(proxy, two_of_each)) for proxy in PROXIES if not missing(proxy)}


@contextlib.asynccontextmanager
async def users_of(front: Front) -> AsyncIterator[ProxiedWorld]:
    """Yield a World whose devices connect to the proxy."""
    made = ProxiedWorld(front.stack, front.certificate)
    yield made
    await made.leave_searches()
    await made.close()


@pytest.fixture(params=PROXIES)
async def proxied(fronts: dict[str, Front], request: pytest.FixtureRequest) -> AsyncIterator[ProxiedWorld]:
    """Return a World whose devices connect to the proxy."""
    if absent := missing(request.param):
        pytest.skip(absent)
    async with users_of(fronts[request.param]) as made:
        yield made


@pytest.fixture
async def worlds(fronts: dict[str, Front]) -> AsyncIterator[dict[str, ProxiedWorld]]:
    """Return a World for each proxy that is installed: a stop takes seconds, so all of them see the same one."""
    if not fronts:
        pytest.skip(missing(*PROXIES))
    async with contextlib.AsyncExitStack() as begun:
        yield {proxy: await begun.enter_async_context(users_of(front)) for proxy, front in fronts.items()}


async def sign_up_codes(http: aiohttp.ClientSession, base: str, addresses: tuple[str, ...]) -> list[int]:
    """Sign in as anonymous customers that claim these addresses; return the status of each answer."""
    codes = []
    for address in addresses:
        headers = {"X-Forwarded-For": address, "Forwarded": f"for={address}", "X-Real-IP": address}
        async with http.post(base + ANONYMOUS, headers=headers) as answer:
            codes.append(answer.status)
    return codes


async def test_paid_session_through_the_proxy_reaches_its_goodbyes(proxied: ProxiedWorld) -> None:
    customer, mitra = await proxied.customer(), await proxied.mitra()
    session = await proxied.session(customer, mitra)
    one, other = await customer.open("chat"), await mitra.open("chat")
    assert (await one.say(session, "Halo"))["type"] == "message_ack"
    assert (await other.wait("message"))["message"]["content"] == "Halo"
    assert (await other.say(session, "Selamat pagi"))["type"] == "message_ack"
    assert (await one.wait("message"))["message"]["content"] == "Selamat pagi"
    page = await mitra.get(f"/api/shared/chat/sessions/{session}/messages")
    assert [item["content"] for item in page["items"]] == ["Halo", "Selamat pagi"]


async def test_socket_of_the_own_origin_passes_the_proxy_with_its_host(proxied: ProxiedWorld) -> None:
    url = f"{proxied.stack.addresses.realtime}/ws/chat"
    async with proxied.http() as http:
        own = proxied.stack.addresses.realtime.replace("wss://", "https://")
        await (await http.ws_connect(url, headers={"Origin": own})).close()
        with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
            await http.ws_connect(url, headers={"Origin": "https://evil.example"})
        assert caught.value.status == 403


async def test_forged_addresses_have_no_effect(proxied: ProxiedWorld) -> None:
    forged = tuple(f"198.51.{next(FORGED)}.7" for _ in range(3))
    with redis.Redis.from_url(proxied.stack.redis_url) as client:
        client.flushall()  # all addresses together may sign up ten times in an hour, also in the tests before
    async with proxied.setting(anonymous_max_per_address_per_hour=1), proxied.http() as http:
        # Without the proxy the same calls pass: the service believes a connection from loopback.
        assert await sign_up_codes(http, proxied.two_of_each.direct(), forged) == [201, 201, 201]
        codes = await sign_up_codes(http, proxied.stack.addresses.public, forged)
    assert codes[1:] == [429, 429]


@pytest.mark.parametrize("kib", [65, 300])  # the service refuses one, the proxy the other
async def test_long_body_is_refused_with_the_error_of_the_service(proxied: ProxiedWorld, kib: int) -> None:
    async with proxied.http() as http:
        url = proxied.stack.addresses.public + "/api/shared/auth/refresh"
        body = json.dumps({"refresh_token": "x" * (kib * 1024)})
        async with http.post(url, data=body, headers={"Content-Type": "application/json"}) as answer:
            assert (answer.status, (await answer.json())["error"]["code"]) == (413, "BODY_TOO_LARGE")


@pytest.mark.parametrize("path", HIDDEN)
async def test_other_paths_and_the_internal_listener_are_unreachable(proxied: ProxiedWorld, path: str) -> None:
    async with proxied.http() as http:
        url = yarl.URL(proxied.stack.addresses.public + path, encoded=True)
        async with http.get(url) as answer:
            assert (answer.status, (await answer.json())["error"]["code"]) == (404, "NOT_FOUND")
            assert "Strict-Transport-Security" in answer.headers


@pytest.mark.parametrize("proxy", PROXIES)
async def test_control_center_is_served_inside_to_the_named_network_only(fronts: dict[str, Front], proxy: str) -> None:
    if absent := missing(proxy):
        pytest.skip(absent)
    front = fronts[proxy]
    url = f"https://{NAME}:{front.inside}/internal/"
    trust = ssl.create_default_context(cafile=str(front.certificate))
    for address, served in (("127.0.0.1", True), ("127.0.0.9", False)):
        connector = aiohttp.TCPConnector(resolver=OnlyHere(), ssl=trust, local_addr=(address, 0))
        async with aiohttp.ClientSession(connector=connector) as http:
            try:
                async with http.get(url) as answer:
                    assert (answer.status == 200) is served
                    assert "Strict-Transport-Security" in answer.headers
            except aiohttp.ClientConnectionError:
                assert not served


async def test_haproxy_serves_the_public_before_the_inside_address_is_there(two_of_each: TwoOfEach) -> None:
    if absent := missing("haproxy"):
        pytest.skip(absent)
    with in_front("haproxy", two_of_each, SESI_INSIDE="192.0.2.7") as front:
        trust = ssl.create_default_context(cafile=str(front.certificate))
        connector = aiohttp.TCPConnector(resolver=OnlyHere(), ssl=trust)
        url = front.stack.addresses.public + "/.well-known/other"
        async with aiohttp.ClientSession(connector=connector) as http, http.get(url) as answer:
            assert answer.status == 404


@pytest.mark.parametrize("proxy", PROXIES)
async def test_no_log_has_a_query_string_even_if_no_process_is_there(two_of_each: TwoOfEach, proxy: str) -> None:
    if absent := missing(proxy):
        pytest.skip(absent)
    gone = copy.copy(two_of_each)
    gone.ports = {name: free_port() for name in two_of_each.ports}
    with in_front(proxy, gone) as front:
        trust = ssl.create_default_context(cafile=str(front.certificate))
        addresses = (front.stack.addresses.public + CONFIG, f"https://{NAME}:{front.inside}/internal/mitras")
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(resolver=OnlyHere(), ssl=trust)) as http:
            for address in addresses:
                async with http.get(address, params={"search": "628120000"}) as answer:
                    assert answer.status in {502, 503, 504}
        deadline = time.monotonic() + within(5)
        while "/internal/mitras" not in front.logged():
            assert time.monotonic() < deadline, front.logged()
            await asyncio.sleep(0.05)
        assert CONFIG in front.logged()
        assert "628120000" not in front.logged()


async def keep_asking(mitra: Device, until: Callable[[], bool]) -> int:
    """Read and write as a mitra until `until` returns True; return the number of answers. Raises Refused."""
    count = 0
    while not until():
        await mitra.get(CONFIG)
        await mitra.post(HEARTBEAT)
        count += 2
        await asyncio.sleep(0.02)
    return count


async def keep_connecting(customer: Device, until: Callable[[], bool]) -> None:
    """Open sockets until `until` returns True. Raises an error if no process accepts one.

    One may have reached the process that stops just before the signal; it is closed before it has authenticated.
    """
    closed = 0
    while not until():
        try:
            await (await customer.open("chat")).close()
        except Closed as error:
            closed += 1
            if error.close_code != GOING_AWAY or closed > 1:
                raise
        await asyncio.sleep(0.1)


async def through_each(work: dict[str, Coroutine[Any, Any, Any]]) -> list[Any]:
    """Do this work at the same time, by proxy; return the results. The traceback of an error names the proxy."""

    async def named(proxy: str, one: Coroutine[Any, Any, Any]) -> Any:
        try:
            return await one
        except Exception as error:
            error.add_note(f"through {proxy}")
            raise

    return await asyncio.gather(*(named(proxy, one) for proxy, one in work.items()))


async def stay_connected(customer: Device, held: set[RecordedSocket]) -> None:
    """Keep one socket open, and in `held` while it is: open it again 0.2 to 1 s after it was closed or refused."""
    while True:
        with contextlib.suppress(Closed, aiohttp.ClientError, TimeoutError):
            opened = await customer.open("chat")
            held.add(opened)
            await opened.wait_closed(timeout=120)
            held.discard(opened)
        await asyncio.sleep(random.uniform(0.2, 1))


async def test_all_sockets_are_back_within_10_s_after_each_realtime_process_was_replaced(
    two_of_each: TwoOfEach, worlds: dict[str, ProxiedWorld]
) -> None:
    held: dict[str, set[RecordedSocket]] = {proxy: set() for proxy in worlds}

    async def back() -> dict[str, int]:
        return {proxy: sum(not socket.closed for socket in sockets) for proxy, sockets in held.items()}

    async with contextlib.AsyncExitStack() as begun:
        for proxy, world in worlds.items():
            for customer in [await world.customer() for _ in range(PHONES // SOCKETS)]:
                for _ in range(SOCKETS):
                    task = asyncio.create_task(stay_connected(customer, held[proxy]))
                    begun.callback(task.cancel)
        look = next(iter(worlds.values()))
        all_of_them = dict.fromkeys(worlds, PHONES)
        await look.until(back, all_of_them.__eq__)
        await asyncio.to_thread(two_of_each.replace_realtime)
        await look.until(back, all_of_them.__eq__, timeout=within(BACK_S))


async def test_stop_of_an_api_process_fails_no_request(two_of_each: TwoOfEach, worlds: dict[str, ProxiedWorld]) -> None:
    mitras = {proxy: await world.mitra() for proxy, world in worlds.items()}
    two_of_each.ask_second_to_stop("api")
    stopped = functools.partial(two_of_each.second_has_stopped, "api")
    answers = await through_each({proxy: keep_asking(mitra, stopped) for proxy, mitra in mitras.items()})
    assert min(answers) > 0
    await through_each({proxy: mitra.post(HEARTBEAT) for proxy, mitra in mitras.items()})


async def test_stop_of_a_realtime_process_closes_its_sockets_with_1012_and_refuses_none(
    two_of_each: TwoOfEach, worlds: dict[str, ProxiedWorld]
) -> None:
    customers: dict[str, Device] = {}
    sessions: dict[str, str] = {}
    opened: dict[str, list[RecordedSocket]] = {}
    for proxy, world in worlds.items():
        customer = customers[proxy] = await world.customer()
        sessions[proxy] = await world.session(customer, await world.mitra())
        opened[proxy] = [await customer.open("chat") for _ in range(SOCKETS)]
    two_of_each.ask_second_to_stop("realtime")
    stopped = functools.partial(two_of_each.second_has_stopped, "realtime")
    await through_each({proxy: keep_connecting(customer, stopped) for proxy, customer in customers.items()})
    for proxy, sockets in opened.items():
        closed = [socket for socket in sockets if socket.closed]
        assert 0 < len(closed) < SOCKETS, proxy
        assert {socket.close_code for socket in closed} == {GOING_AWAY}, proxy
        still_open = next(socket for socket in sockets if not socket.closed)
        assert (await still_open.say(sessions[proxy], "Masih di sini"))["type"] == "message_ack", proxy
