"""Every answer of every listener carries the service's time and the request id, whatever the outcome."""

import asyncio
import re

import pytest

from tests.each import for_each
from tests.raw_http import sent
from tests.stack import Stack, new_id

pytestmark = pytest.mark.anyio
LISTENERS = ("PUBLIC", "INTERNAL", "REALTIME", "JOBS")
KEY = b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
UPGRADE = b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"


def request(line: str, *fields: bytes, body: bytes = b"") -> bytes:
    """Return a request after which the connection closes."""
    length = b"Content-Length: %d\r\n" % len(body) if body else b""
    return b"%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%s%s\r\n%s" % (
        line.encode(),
        b"".join(fields),
        length,
        body,
    )


REQUESTS = {
    "health": request("GET /healthz"),
    "readiness": request("GET /readyz"),
    "figures": request("GET /metrics"),
    "documents": request("GET /openapi.json"),
    "asyncapi": request("GET /asyncapi.json"),
    "unknown address": request("GET /nothing"),
    "unknown method": request("BREW /healthz"),
    "wrong method": request("POST /healthz", body=b"{}"),
    "no token": request("GET /internal/auth/me"),
    "head": request("HEAD /healthz"),
    "large body": request("POST /api/shared/auth/anonymous", body=b"x" * 70_000),
    "expectation": request("GET /healthz", b"Expect: the-unexpected\r\n"),
    "no http": b"\x16\x03\x01 hello\r\n\r\n",
    "bad field": b"GET /healthz HTTP/1.1\r\nHost: x\r\nbad header\r\n\r\n",
    "long field": request("GET /healthz", b"X-Long: " + b"a" * 70_000 + b"\r\n"),
    "many fields": request("GET /healthz", *[b"X-%d: 1\r\n" % n for n in range(140)]),
    "socket without an upgrade": request("GET /ws/chat"),
    "socket without a key": request("GET /ws/pairing", UPGRADE),
}


def head_of(raw: bytes) -> bytes:
    """Return the head of an answer."""
    head, end, _ = raw.partition(b"\r\n\r\n")
    assert end, raw
    return head.lower() + b"\r\n"


def check(raw: bytes) -> None:
    """Check that each header of every answer is present exactly once."""
    head = head_of(raw)
    assert len(re.findall(rb"\r\nx-server-time: \d{4}-\d\d-\d\dt[\d:.]+z\r\n", head)) == 1, raw
    assert len(re.findall(rb"\r\nx-request-id: [a-z0-9._-]+\r\n", head)) == 1, raw
    if int(head.split()[1]) >= 400 and b"\r\ncontent-type: application/json" in head and b'"ready"' not in raw:
        assert re.search(rb"\r\ncontent-language: (id|en)\r\n", head), raw
        assert re.search(rb"\r\nvary: accept-language", head), raw


@for_each("listener", LISTENERS)
@for_each("name", REQUESTS)
async def test_every_answer_has_the_time_and_the_request_id(stack: Stack, listener: str, name: str) -> None:
    check(await sent(stack.ports[listener], REQUESTS[name]))


async def test_upgrade_that_succeeds_has_the_time_and_the_request_id(stack: Stack) -> None:
    given = new_id().encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", stack.ports["REALTIME"])
    writer.write(b"GET /ws/chat HTTP/1.1\r\nHost: x\r\nX-Request-Id: %s\r\n%s%s\r\n" % (given, UPGRADE, KEY))
    async with asyncio.timeout(10):
        raw = await reader.readuntil(b"\r\n\r\n")
    writer.close()
    assert raw.startswith(b"HTTP/1.1 101 ")
    check(raw)
    assert b"X-Request-Id: " + given in raw


@pytest.mark.slow
async def test_request_that_times_out_has_the_time_and_the_request_id(stack: Stack) -> None:
    listeners = ("PUBLIC", "INTERNAL", "REALTIME")  # the jobs process closes without an answer
    unfinished = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"
    for raw in await asyncio.gather(*(sent(stack.ports[one], unfinished) for one in listeners)):
        assert head_of(raw).startswith(b"http/1.1 408")
        check(raw)
