"""HTTP connections of the realtime listener that send too little, too slowly or too much, never read, or are too many."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.faults.together import Part, Together
from tests.raw_http import START, TOO_LARGE, code_of, sent
from tests.sockets.plain_socket import at, bare_and_known
from tests.stack import Stack, World
from tools.driving.throwaway import free_port

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
TOGETHER = Together()

LAST = START + b"Connection: close\r\n\r\n"
UPGRADE = (
    b"GET /ws/chat HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)


@pytest.fixture
def port(stack: Stack) -> int:
    """Return the port of the realtime process."""
    return stack.ports["REALTIME"]


@pytest.mark.parametrize("data", TOO_LARGE.values(), ids=TOO_LARGE)
async def test_headers_over_a_limit_get_431(port: int, data: bytes) -> None:
    assert code_of(await sent(port, data)) == (431, "HEADERS_TOO_LARGE")


async def test_headers_of_72_kb_in_nine_fields_get_431(port: int) -> None:
    fields = [b"X-%d: %s\r\n" % (n, b"a" * 8_000) for n in range(9)]
    assert code_of(await sent(port, START, *fields, b"\r\n", pause=0.05)) == (431, "HEADERS_TOO_LARGE")


async def test_invalid_http_gets_400_without_a_traceback_in_the_log(stack: Stack, port: int) -> None:
    assert code_of(await sent(port, b"\x16\x03\x01 hello\r\n\r\n")) == (400, "MALFORMED")
    assert code_of(await sent(port, LAST[:-4] + b"\r\nbad header\r\n\r\n")) == (400, "MALFORMED")
    assert "Error handling request" not in stack.log("realtime")


@pytest.fixture(scope="module")
async def plays(stack: Stack, request: pytest.FixtureRequest) -> AsyncIterator[None]:
    """Run the two tests that wait for time limits at the same time."""

    async def run(part: Part) -> None:
        await part.body(stack.ports["REALTIME"])

    TOGETHER.start(run, request.session.items)
    yield
    await TOGETHER.stop()


@TOGETHER.test()
async def test_unfinished_requests_are_closed_within_ten_seconds(port: int) -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    silent, half, trickle, newlines, later, body = await asyncio.gather(
        sent(port),
        sent(port, START[:-5]),
        sent(port, b"GET /healthz HTTP/1.1\r\n", *[b"X: 1\r\n"] * 60, pause=0.5),
        sent(port, *[b"\r\n"] * 60, pause=0.5),
        sent(port, START + b"\r\n", b"GET /heal", pause=0.5),
        sent(port, START + b"Content-Length: 50\r\n\r\n", *[b"x"] * 40, pause=0.5),
    )
    assert silent == b""
    assert code_of(half) == code_of(trickle) == code_of(newlines) == (408, "REQUEST_TIMEOUT")
    assert later.startswith(b"HTTP/1.1 200")
    assert b"HTTP/1.1 408 " in later
    assert body.count(b"HTTP/1.1 200") == 1
    assert loop.time() - began < 20


async def ask_on(sock: socket.socket, path: str) -> None:
    """Send requests until the connection ends."""
    while True:
        await asyncio.get_running_loop().sock_sendall(sock, f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode() * 1_000)


@TOGETHER.test()
async def test_client_that_does_not_read_its_answers_is_disconnected(port: int) -> None:
    async def ask_without_reading(path: str) -> None:
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        sock.connect(("127.0.0.1", port))
        sock.setblocking(False)
        with sock, pytest.raises(ConnectionError):
            async with asyncio.timeout(60):
                await ask_on(sock, path)

    await asyncio.gather(ask_without_reading("/asyncapi.json"), ask_without_reading("/healthz"))


async def test_pipelined_requests_and_long_bodies_are_still_read(port: int) -> None:
    assert (await sent(port, (START + b"\r\n") * 50 + LAST)).count(b"HTTP/1.1 200") == 51
    body = START + b"Content-Length: 200000\r\n\r\n" + b"x" * 200_000
    assert (await sent(port, body + LAST)).count(b"HTTP/1.1 200") == 2


@pytest.fixture
def few(stack: Stack) -> Iterator[int]:
    """Yield the port of a realtime process that accepts few connections and trusts no proxy."""
    port = free_port()
    env = {
        "REALTIME_PORT": str(port),
        "HTTP_CONNECTIONS": "8",
        "HTTP_CONNECTIONS_PER_ADDRESS": "4",
        "TRUSTED_PROXIES": "192.0.2.1",
    }
    stack.start("realtime", key="few", **env)  # type: ignore[arg-type]  # no setting is called `wait`
    stack.wait_ready("realtime", port=port)
    yield port
    stack.stop("few")
    del stack.processes["few"]


async def test_connections_without_upgrade_are_limited_per_address_and_in_total(world: World, few: int) -> None:
    customer = at(await world.customer(), few)
    known = [(await bare_and_known(customer))[0] for _ in range(5)]
    upgraded = [await _upgraded(few) for _ in range(10)]  # upgraded sockets do not count, whether authenticated or not
    held = [await asyncio.open_connection("127.0.0.1", few) for _ in range(4)]
    refused = await sent(few, LAST)
    assert code_of(refused) == (429, "RATE_LIMITED")
    assert b"Retry-After: 1\r\n" in refused
    for number in range(2, 6):  # other loopback addresses
        held.append(await asyncio.open_connection("127.0.0.1", few, local_addr=(f"127.0.0.{number}", 0)))
    reader, writer = await asyncio.open_connection("127.0.0.1", few, local_addr=("127.0.0.9", 0))
    raw = await reader.read()
    writer.close()
    assert code_of(raw) == (503, "UNAVAILABLE")
    assert b"Retry-After: 1\r\n" in raw
    for each in known:
        await each.say({"type": "ping"})
        await each.next_frame_of("pong")
    for one in (*upgraded, *(writer for _, writer in held)):
        one.close()

    async def answered() -> bytes:
        return await sent(few, LAST)

    await world.until(answered, lambda raw: b" 200 " in raw)


async def _upgraded(port: int) -> asyncio.StreamWriter:
    """Upgrade a connection and send nothing."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(UPGRADE)
    assert b" 101 " in await reader.readuntil(b"\r\n")
    return writer
