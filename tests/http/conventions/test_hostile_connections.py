"""Connections that send too little, too slowly or too much, and too many connections (docs/security.md)."""

import asyncio
import json
import re
import socket
from collections.abc import AsyncIterator, Iterator

import aiohttp
import pytest

from tests.access.wire import ask
from tests.faults.together import Part, Together
from tests.raw_http import START, TOO_LARGE, code_of, sent
from tests.stack import Stack, World, new_id
from tools.driving.device import Device
from tools.driving.throwaway import free_port

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
TOGETHER = Together()


@pytest.mark.parametrize("data", TOO_LARGE.values(), ids=TOO_LARGE)
@pytest.mark.parametrize("listener", ["PUBLIC", "INTERNAL"])
async def test_headers_over_a_limit_are_431(stack: Stack, listener: str, data: bytes) -> None:
    assert code_of(await sent(stack.ports[listener], data)) == (431, "HEADERS_TOO_LARGE")


async def test_header_of_16_mib_ends_the_connection_early(stack: Stack) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", stack.ports["PUBLIC"])
    writer.write(START + b"X-Long: ")
    sent_bytes, chunk = 0, b"a" * 65_536
    try:
        async with asyncio.timeout(20):
            while sent_bytes < 16 * 2**20:
                writer.write(chunk)
                await writer.drain()
                sent_bytes += len(chunk)
            assert (await reader.read()).startswith(b"HTTP/1.1 431")
    except ConnectionError:
        pass  # the service closed the connection while the test was sending
    finally:
        writer.close()


async def test_headers_of_a_hundred_fields_and_60_kb_are_accepted(stack: Stack) -> None:
    fields = b"".join(b"X-%d: 1\r\n" % n for n in range(97))
    raw = await sent(stack.ports["PUBLIC"], START + fields + b"Y: " + b"a" * 60_000 + b"\r\nConnection: close\r\n\r\n")
    assert raw.startswith(b"HTTP/1.1 200")


@pytest.fixture(scope="module")
async def plays(stack: Stack, request: pytest.FixtureRequest) -> AsyncIterator[None]:
    """Run the two tests that wait for time limits at the same time."""

    async def run(part: Part) -> None:
        await part.body(stack)

    TOGETHER.start(run, request.session.items)
    yield
    await TOGETHER.stop()


@TOGETHER.test()
async def test_unfinished_requests_time_out_and_slow_body_is_408(stack: Stack) -> None:
    port, loop = stack.ports["PUBLIC"], asyncio.get_running_loop()
    post = b"POST /api/shared/auth/refresh HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n"
    began = loop.time()
    silent, half, trickle, newlines, later, body = await asyncio.gather(
        sent(port),
        sent(port, b"GET /healthz HTTP/1.1\r\nHost: "),
        sent(port, *[b"GET /healthz HTTP/1.1\r\n", *[b"X: 1\r\n"] * 60], pause=0.5),
        sent(port, *[b"\r\n"] * 60, pause=0.5),
        sent(port, START + b"\r\n", *[b"GET /heal"], pause=0.5),
        sent(port, post, *[b"{"] * 60, pause=0.5),
    )
    assert silent == b""
    assert code_of(half) == code_of(trickle) == (408, "REQUEST_TIMEOUT")
    assert newlines == b"" or code_of(newlines) == (408, "REQUEST_TIMEOUT")
    assert later.startswith(b"HTTP/1.1 200")
    assert later.count(b"HTTP/1.1 ") == 2
    assert b" 408 " in later
    assert code_of(body) == (408, "REQUEST_TIMEOUT")
    assert loop.time() - began < 29


async def unread(stack: Stack) -> int:
    """Return how many connections were ended because their client did not read."""
    async with aiohttp.ClientSession() as http, http.get(f"{stack.addresses.internal}/metrics") as answer:
        found = re.search(r'^sesi_limited_total\{limit="http_write_seconds"\} (\d+)', await answer.text(), re.MULTILINE)
    return int(found[1]) if found else 0


@TOGETHER.test()
async def test_client_that_does_not_read_answers_is_disconnected_and_one_that_leaves_is_not_counted(
    stack: Stack,
) -> None:
    before, leaving = await unread(stack), 50
    for _ in range(leaving):  # each gets an early answer, and leaves during its body
        reader, writer = await asyncio.open_connection("127.0.0.1", stack.ports["PUBLIC"])
        writer.write(b"POST /api/shared/auth/refresh HTTP/1.1\r\nHost: x\r\nContent-Length: 70000\r\n\r\n")
        assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 413")
        writer.close()
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    sock.connect(("127.0.0.1", stack.ports["PUBLIC"]))
    with sock:
        sock.sendall(
            b"GET /docs/swagger-ui-bundle.js HTTP/1.1\r\nHost: x\r\n\r\n" * 8
        )  # 12 MB, more than the kernel buffers
        async with asyncio.timeout(60):
            while await unread(stack) == before:  # noqa: ASYNC110 - a metric has no event
                await asyncio.sleep(0.5)
    await asyncio.sleep(2)  # those that left would be counted within their linger, a second later
    assert await unread(stack) < before + leaving


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
async def test_body_over_the_limit_can_be_sent_on_until_its_refusal_is_read(stack: Stack, version: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", stack.ports["PUBLIC"])
    head = b"POST /api/shared/auth/refresh HTTP/%b\r\nHost: x\r\nContent-Length: 70000\r\nConnection: close\r\n\r\n"
    try:
        writer.write(head % version + b"x" * 1_000)
        answered = await reader.readuntil(b"\r\n\r\n")
        (size,) = re.findall(rb"content-length: (\d+)", answered, re.IGNORECASE)
        answered += await reader.readexactly(int(size))
        # A proxy that gets a reset now answers 502 and forgets the refusal.
        for _ in range(3):
            writer.write(b"x" * 1_000)
            await writer.drain()
        assert await reader.read() == b""
        assert code_of(answered) == (413, "BODY_TOO_LARGE")
    finally:
        writer.close()


async def test_pipelined_requests_are_answered_and_too_many_end_the_connection(stack: Stack) -> None:
    last = START + b"Connection: close\r\n\r\n"
    raw = await sent(stack.ports["PUBLIC"], (START + b"\r\n") * 5 + last)
    assert raw.count(b"HTTP/1.1 200") == 6
    assert (await sent(stack.ports["PUBLIC"], (START + b"\r\n") * 5_000 + last)).count(b"HTTP/1.1 200") < 5_000


@pytest.fixture
def limited_stack() -> Iterator[Stack]:
    """Run a service that takes few connections and trusts no proxy."""
    made = Stack(HTTP_CONNECTIONS="8", HTTP_CONNECTIONS_PER_ADDRESS="4", TRUSTED_PROXIES="192.0.2.1")
    yield made
    made.close()


async def test_connections_are_limited_per_address_and_in_total(
    limited_stack: Stack, http: aiohttp.ClientSession
) -> None:
    port = limited_stack.ports["PUBLIC"]
    held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(4)]
    refused = await sent(port, START + b"\r\n")
    assert code_of(refused) == (429, "RATE_LIMITED")
    assert b"retry-after: 1\r\n" in refused
    for n in range(2, 6):  # other loopback addresses
        held.append(await asyncio.open_connection("127.0.0.1", port, local_addr=(f"127.0.0.{n}", 0)))
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.9", 0))
    raw = await reader.read()
    assert code_of(raw) == (503, "UNAVAILABLE")
    assert b"retry-after: 1\r\n" in raw
    writer.close()
    for probe in ("/healthz", "/readyz", "/metrics"):  # of the same process, for which the public listener is full
        assert (await ask(http, limited_stack.addresses.internal + probe)).status == 200
    for _, one in held:
        one.close()

    async def answered() -> int:
        try:
            return (await ask(http, limited_stack.addresses.public + "/healthz")).status
        except (aiohttp.ClientError, AssertionError):
            return 0

    await World(limited_stack).until(answered, lambda status: status == 200)


# -- the log


async def test_request_is_logged_in_one_line_without_personal_data(
    stack: Stack, world: World, http: aiohttp.ClientSession
) -> None:
    customer: Device = await world.customer("Name of a person")
    url, names = stack.addresses.public, {kind: new_id() for kind in ("own", "missing", "denied", "internal")}
    secret = "a-secret-in-a-query"
    await ask(
        http,
        f"{url}/api/client/auth/me?q={secret}",
        token=customer.access_token,
        headers={"X-Request-Id": names["own"]},
    )
    await ask(http, f"{url}/nothing/{secret}", headers={"X-Request-Id": names["missing"]})
    await ask(http, f"{url}/api/mitra/auth/me", token=customer.access_token, headers={"X-Request-Id": names["denied"]})
    await ask(http, f"{stack.addresses.internal}/internal/auth/me", headers={"X-Request-Id": names["internal"]})

    def line_of(kind: str) -> dict[str, object]:
        [line] = [json.loads(line) for line in stack.log("api").splitlines() if names[kind] in line]
        assert line["event"] == "request"
        assert line["ms"] >= 0
        assert re.fullmatch(r"[0-9.:a-f]+", line["address"])
        return line

    own = line_of("own")
    assert (own["method"], own["route"], own["status"], own["user_id"]) == (
        "GET",
        "/api/client/auth/me",
        200,
        customer.user["id"],
    )
    assert own["user_type"] == "customer"
    assert own["auth_session_id"]
    assert own["bytes_out"]
    missing = line_of("missing")
    assert (missing["route"], missing["status"], missing["code"]) == ("unknown", 404, "NOT_FOUND")
    denied = line_of("denied")
    assert (denied["status"], denied["code"], denied["user_id"]) == (403, "FORBIDDEN", customer.user["id"])
    assert line_of("internal")["code"] == "UNAUTHENTICATED"
    assert secret not in stack.log("api")
    assert "Name of a person" not in stack.log("api")


@pytest.mark.parametrize(("level", "requests", "probes"), [("debug", 1, 1), ("info", 1, 0), ("warning", 0, 0)])
async def test_log_has_requests_at_info_and_successful_probes_at_debug(
    stack: Stack, http: aiohttp.ClientSession, level: str, requests: int, probes: int
) -> None:
    key, port = f"api {level}", free_port()
    ports = {"PUBLIC_PORT": str(free_port()), "INTERNAL_PORT": str(port)}
    stack.start("api", key=key, LOG_LEVEL=level, **ports)  # type: ignore[arg-type]  # no setting is called `wait`
    try:
        stack.wait_ready("api", port=port, key=key)
        request, probe = new_id(), new_id()
        for path, name in (("/internal/auth/me", request), ("/metrics", probe)):
            await ask(http, f"http://127.0.0.1:{port}{path}", headers={"X-Request-Id": name})
    finally:
        stack.stop(key)
        del stack.processes[key]
    assert (stack.log(key).count(request), stack.log(key).count(probe)) == (requests, probes)
