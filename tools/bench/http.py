"""An HTTP load generator: each connection sends its next request when it has its answer.

It uses little processor time.
"""

import asyncio
import itertools
import time
from typing import cast

from tools.bench.figures import percentile

clock = time.perf_counter
CONNECTIONS = 32
WARM_S = 1.0


class _Asker(asyncio.Protocol):
    """One connection, which sends its requests in turn, repeatedly."""

    def __init__(self, requests: list[bytes], load: "_Load") -> None:
        self._requests = itertools.cycle(requests)
        self._load = load
        self._buffer = b""
        self._began = 0.0
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's class differs
        self._ask()

    def _ask(self) -> None:
        assert self._transport is not None
        self._began = clock()
        self._transport.write(next(self._requests))

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer + data if self._buffer else data
        head = buffer.find(b"\r\n\r\n")
        if head < 0:
            self._buffer = buffer
            return
        at = buffer.lower().find(b"content-length:", 0, head) + 15
        size = int(buffer[at : buffer.find(b"\r\n", at)])
        if len(buffer) < head + 4 + size:
            self._buffer = buffer
            return
        self._buffer = b""
        load = self._load
        load.seconds.append(clock() - self._began)
        if not buffer.startswith(b"HTTP/1.1 200"):
            load.refused.append(buffer[: head + 200])
        if load.running:
            self._ask()
        elif self._transport is not None:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._load.open -= 1


class _Load:
    def __init__(self) -> None:
        self.running = True
        self.open = 0
        self.seconds: list[float] = []
        self.refused: list[bytes] = []


class RequestRefused(Exception):
    """The service did not answer 200; the message is its answer."""


async def ask(ports: list[int], asked: list[tuple[str, str]], seconds: float) -> dict[str, float]:
    """Send GET requests for (path, token) pairs over connections to these ports; return rate and latencies.

    Raises RequestRefused.
    """
    load = _Load()
    loop = asyncio.get_running_loop()
    requests = [
        f"GET {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {token}\r\n\r\n".encode() for path, token in asked
    ]
    for number in range(CONNECTIONS):
        share = requests[number::CONNECTIONS]
        await loop.create_connection(lambda share=share: _Asker(share, load), "127.0.0.1", ports[number % len(ports)])
        load.open += 1
    await asyncio.sleep(WARM_S)
    load.seconds.clear()
    began = clock()
    await asyncio.sleep(seconds)
    took, answers = clock() - began, list(load.seconds)
    load.running = False
    async with asyncio.timeout(10):
        while load.open:
            await asyncio.sleep(0.01)
    if load.refused:
        raise RequestRefused(load.refused[0].decode(errors="replace"))
    return {
        "answers/s": len(answers) / took,
        "p50 ms": percentile(answers, 0.5) * 1000,
        "p99 ms": percentile(answers, 0.99) * 1000,
    }
