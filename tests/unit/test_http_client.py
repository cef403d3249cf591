"""The HTTP client of the providers: shared connections, no redirects, no cookies, no starvation."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import aiohttp
import attrs
import pytest

from core.providers.http_client import CONNECTIONS_PER_HOST, HttpClient, Operation, read_json
from core.telemetry import metrics

pytestmark = pytest.mark.anyio


@attrs.define
class Provider:
    """A provider that keeps connections open. It answers when `may_answer` is set."""

    url: str = ""
    connections: int = 0
    requests: list[bytes] = attrs.field(factory=list)
    may_answer: asyncio.Event = attrs.field(factory=asyncio.Event)
    is_full: asyncio.Event = attrs.field(factory=asyncio.Event)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer each request with a redirect that sets a cookie."""
        self.connections += 1
        if self.connections == CONNECTIONS_PER_HOST:
            self.is_full.set()
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:  # until the client closes the connection
                self.requests.append(await reader.readuntil(b"\r\n\r\n"))
                await self.may_answer.wait()
                writer.write(b"HTTP/1.1 302 X\r\nLocation: /x\r\nSet-Cookie: a=b\r\nContent-Length: 2\r\n\r\n{}")
        writer.close()


@contextlib.asynccontextmanager
async def provider(*, is_slow: bool = False) -> AsyncIterator[Provider]:
    """Serve a provider on a free port."""
    made = Provider()
    if not is_slow:
        made.may_answer.set()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    try:
        yield made
    finally:
        server.close()


async def status(client: HttpClient, url: str, *, timeout_s: float = 5) -> int:
    """Return the status of a call."""
    async with client.request("GET", url, operation=Operation.READ_KEYS, timeout_s=timeout_s) as answer:
        assert await read_json(answer) == {}
        return answer.status


async def test_second_call_uses_the_connection_of_the_first_without_its_cookies(http_client: HttpClient) -> None:
    async with provider() as one:
        assert [await status(http_client, one.url) for _ in range(2)] == [302, 302]
        assert one.connections == 1
        assert len(one.requests) == 2  # a redirect is not followed
        assert b"cookie" not in b"".join(one.requests).lower()
        await http_client.close()


async def test_connection_idle_for_longer_than_the_limit_is_not_used_again() -> None:
    async with provider() as one:
        client = HttpClient(idle_s=0.01)
        try:
            await status(client, one.url)
            await asyncio.sleep(0.1)
            await status(client, one.url)
            assert one.connections == 2
        finally:
            await client.close()


async def test_request_after_close_fails_like_a_lost_connection() -> None:
    async with provider() as one:
        client = HttpClient()
        for _ in range(2):
            await client.close()
            with pytest.raises(aiohttp.ClientConnectionError):
                await status(client, one.url)
        assert one.connections == 0


async def test_slow_provider_delays_no_other(http_client: HttpClient) -> None:
    async with provider(is_slow=True) as slow, provider() as other:
        calls = [asyncio.create_task(status(http_client, slow.url)) for _ in range(CONNECTIONS_PER_HOST + 1)]
        async with asyncio.timeout(4):
            await slow.is_full.wait()
        assert await status(http_client, other.url, timeout_s=2) == 302
        slow.may_answer.set()
        assert [await call for call in calls] == [302] * len(calls)
        assert slow.connections == CONNECTIONS_PER_HOST
        await http_client.close()


def counted(operation: Operation, reason: str) -> float:
    """Return how many calls have failed for a reason."""
    labels = dict(zip(("provider", "operation"), operation.value, strict=True)) | {"reason": reason}
    return metrics.REGISTRY.get_sample_value("sesi_provider_errors_total", labels) or 0.0


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"HTTP/1.1 503 X\r\nContent-Length: 2\r\n\r\n{}", "server"),
        (b"HTTP/1.1 503 X\r\nContent-Length: 2\r\n\r\n{x", "server"),
        (b"HTTP/1.1 429 X\r\nContent-Length: 2\r\n\r\n{}", "limited"),
        (b"HTTP/1.1 401 X\r\nContent-Length: 2\r\n\r\n{}", "credentials"),
        (b"HTTP/1.1 403 X\r\nContent-Length: 2\r\n\r\n{}", "credentials"),
        (b"HTTP/1.1 200 X\r\nContent-Length: 2\r\n\r\n{x", "unreadable"),
        (b"", "connection"),
        (b"HTTP/1.1 200 X\r\n", "timeout"),
        (b"HTTP/1.1 404 X\r\nContent-Length: 2\r\n\r\n{}", None),
        (b"HTTP/1.1 200 X\r\nContent-Length: 2\r\n\r\n{}", None),
    ],
)
async def test_call_is_measured_and_its_failure_counted_by_reason(
    http_client: HttpClient, answer: bytes, reason: str | None
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        if reason == "timeout":
            await reader.read()  # until the client gives up
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    reasons = ("server", "limited", "credentials", "unreadable", "connection", "timeout")
    labels = {"provider": "identity", "operation": "keys"}
    count = "sesi_provider_seconds_count"
    before = {one: counted(Operation.READ_KEYS, one) for one in reasons}
    calls = metrics.REGISTRY.get_sample_value(count, labels) or 0.0
    with contextlib.suppress(aiohttp.ClientError, TimeoutError, ValueError):
        await status(http_client, url, timeout_s=0.2 if reason == "timeout" else 5)
    after = {one: counted(Operation.READ_KEYS, one) for one in reasons}
    assert {one for one in reasons if after[one] - before[one]} == ({reason} if reason else set())
    assert metrics.REGISTRY.get_sample_value(count, labels) == calls + 1
    server.close()
