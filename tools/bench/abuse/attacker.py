"""The attackers' process: reads its plan as JSON from standard input and writes what it did to standard output.

It runs at a lower priority than the service and the measuring process, and each attack has a rate limit, because all of
them share the machine: an attack that only took the processors would show nothing about the service.
"""

import asyncio
import collections
import contextlib
import itertools
import json
import os
import random
import secrets
import sys
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import attrs
import uvloop

from tools.bench.light_socket import UPGRADE, client_frame, connected

NICENESS = 5
ANSWER_S = 20.0  # how long an attacker waits for an answer
DEVICE_S = 60.0  # how long a refreshing device waits, also after the attack
CHAT, PAIRING = "/ws/chat", "/ws/pairing"
SOCKETS_EACH = 8  # on each of the two paths, all of one account
FRAMES_PER_SECOND, PINGS_PER_SECOND = 4_000, 20_000  # over all sockets of a flood
BODIES_PER_SECOND, BODY_LINES = 40, 8
WEBHOOKS_PER_SECOND, WEBHOOK_LINES, WEBHOOK_BYTES = 200, 16, 65_536
SIGN_UPS, SIGN_UPS_PER_SECOND = 1_000, 200
CONNECTIONS, CONNECTIONS_PER_SECOND = 1_000, 200
HEADER_BYTES, CHUNK = 16 * 2**20, 65_536
REOPEN_S = 0.05
DEEP, LONG, WIDE = 20_000, 30_000, 3_500  # nested arrays, numbers, unknown fields; each body has up to 60 KB
PING = b"\x89\x80\0\0\0\0"


@attrs.define(kw_only=True)
class AttackPlan:
    """The plan of the attackers: the service's ports, their tokens, and the duration."""

    kinds: list[str]
    seconds: float
    public: int
    realtime: int
    tokens: list[str]  # access tokens of anonymous accounts
    refresh: list[str]  # refresh tokens, each of another device
    share: float = 1.0  # factor for every count and rate


@attrs.define(kw_only=True)
class Done:
    """The results of one attack: what it sent, which statuses and close codes it got, how often it was disconnected."""

    sent: int = 0
    answers: collections.Counter[str] = attrs.field(factory=collections.Counter)
    cut_off: int = 0
    seconds: float = 0.0


Attack = Callable[[AttackPlan, Done], Awaitable[None]]


async def _connect(kind: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect from the loopback address of an attack. Each has its own, so that limits by address affect no other."""
    sock = await connected(f"127.0.2.{1 + list(ATTACKS).index(kind)}", port)
    return await asyncio.open_connection(sock=sock)


# -- HTTP


def _request(path: str, body: bytes, token: str | None = None) -> bytes:
    bearer = f"Authorization: Bearer {token}\r\n" if token else ""
    return (
        f"POST {path} HTTP/1.1\r\nHost: bench\r\n{bearer}Content-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode() + body


async def _answer(reader: asyncio.StreamReader) -> str:
    """Read one answer; return its status. Raises ConnectionError or IncompleteReadError if the service disconnects."""
    return (await _answer_and_wait(reader))[0]


async def _answer_and_wait(reader: asyncio.StreamReader) -> tuple[str, int]:
    """Read one answer; return (status, seconds of its Retry-After or 1). Raises as `_answer` does."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    if size := _number(head, b"content-length:"):
        await reader.readexactly(size)
    return head[9:12].decode(), _number(head, b"retry-after:") or 1


def _number(head: bytes, name: bytes) -> int:
    """Return the number in a header, or 0 if it is missing."""
    at = head.find(name)
    return 0 if at < 0 else int(head[at + len(name) : head.find(b"\r\n", at)])


async def _asks(kind: str, port: int, requests: "asyncio.Queue[bytes]", done: Done) -> None:
    """Send requests over one connection; open a new one whenever the service disconnects."""
    while True:
        writer = None
        try:
            reader, writer = await _connect(kind, port)
            while True:
                request = await requests.get()
                done.sent += 1
                writer.write(request)
                async with asyncio.timeout(ANSWER_S):
                    done.answers[await _answer(reader)] += 1
        except (OSError, asyncio.IncompleteReadError, TimeoutError):
            done.cut_off += 1
            await asyncio.sleep(REOPEN_S)
        finally:
            if writer is not None:
                writer.close()


async def _paced(
    kind: str,
    port: int,
    made: "itertools.cycle[bytes]",
    done: Done,
    *,
    rate: float,
    lines: int,
    count: int | None = None,
) -> None:
    """Hand requests to connections at a rate; drop a request if no connection is free."""
    requests: asyncio.Queue[bytes] = asyncio.Queue(maxsize=lines)
    async with asyncio.TaskGroup() as group:
        for _ in range(lines):
            group.create_task(_asks(kind, port, requests, done))
        began, handed = time.monotonic(), 0
        while count is None or handed < count:
            if handed <= (time.monotonic() - began) * rate:
                handed += 1
                with contextlib.suppress(asyncio.QueueFull):
                    requests.put_nowait(next(made))
            else:
                await asyncio.sleep(0.005)
            if handed % 100 == 0:
                await asyncio.sleep(0)


def _bodies(kind: str, body: bytes) -> Attack:
    async def attack(plan: AttackPlan, done: Done) -> None:
        requests = itertools.cycle([_request("/api/client/payment/requests", body, token) for token in plan.tokens])
        await _paced(kind, plan.public, requests, done, rate=BODIES_PER_SECOND * plan.share, lines=BODY_LINES)

    return attack


async def _webhooks(plan: AttackPlan, done: Done) -> None:
    """Call the webhook without a token."""
    noise = itertools.cycle(
        [_request("/api/shared/payment/webhooks/gateway", secrets.token_bytes(WEBHOOK_BYTES)) for _ in range(20)]
    )
    rate = WEBHOOKS_PER_SECOND * plan.share
    await _paced("webhook", plan.public, noise, done, rate=rate, lines=WEBHOOK_LINES)


async def _sign_ups(plan: AttackPlan, done: Done) -> None:
    """Create anonymous accounts."""
    requests = itertools.cycle([_request("/api/shared/auth/anonymous", b"{}")])
    await _paced(
        "sign-ups", plan.public, requests, done,
        rate=SIGN_UPS_PER_SECOND * plan.share, lines=BODY_LINES, count=round(SIGN_UPS * plan.share),
    )  # fmt: skip


async def _refreshes(plan: AttackPlan, done: Done) -> None:
    """Let all devices behind one address refresh at once, each over a new connection.

    They are legitimate, not attackers.
    """
    began = time.monotonic()

    async def device(token: str) -> None:
        request = _request("/api/shared/auth/refresh", json.dumps({"refresh_token": token}).encode())
        try:
            async with asyncio.timeout(DEVICE_S):
                status, wait_s = await ask(request)
                while status in ("503", "429"):  # an app retries after the time in Retry-After
                    done.answers[status] += 1
                    await asyncio.sleep(wait_s + random.random())
                    status, wait_s = await ask(request)
                done.answers[status] += 1
        except (OSError, asyncio.IncompleteReadError, TimeoutError):
            done.cut_off += 1
        done.seconds = time.monotonic() - began

    async def ask(request: bytes) -> tuple[str, int]:
        reader, writer = await _connect("refresh", plan.public)
        try:
            writer.write(request)
            done.sent += 1
            return await _answer_and_wait(reader)
        finally:
            writer.close()

    async with asyncio.TaskGroup() as group:
        for token in plan.refresh:
            group.create_task(device(token))


async def _silent(plan: AttackPlan, done: Done) -> None:
    """Keep connections open that send nothing, and as many that stop in the middle of a header."""
    await _held("silent", plan, done, (b"", b"GET /healthz HTTP/1.1\r\nHost: bench\r\nX-Half: a"))


async def _held(kind: str, plan: AttackPlan, done: Done, says: tuple[bytes, ...]) -> None:
    """Keep connections open after they have sent their bytes; replace those that the service closes."""
    free = asyncio.Semaphore(round(CONNECTIONS * plan.share))

    async def hold(said: bytes) -> None:
        writer = None
        try:
            reader, writer = await _connect(kind, plan.public)
            writer.write(said)
            done.sent += 1
            head = await reader.read(12)
            if head:
                done.answers[head[9:12].decode()] += 1
            done.cut_off += 1
        except OSError:
            done.cut_off += 1
        finally:
            if writer is not None:
                writer.close()
            free.release()

    async with asyncio.TaskGroup() as group:
        for said in itertools.cycle(says):
            await free.acquire()
            group.create_task(hold(said))
            await asyncio.sleep(1 / CONNECTIONS_PER_SECOND)


async def _header(plan: AttackPlan, done: Done) -> None:
    """Send a request with one header of 16 MiB, each second."""
    size = round(HEADER_BYTES * plan.share)
    while True:
        writer = None
        try:
            reader, writer = await _connect("header", plan.public)
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: bench\r\nX-Long: ")
            done.sent += 1
            for _ in range(max(1, size // CHUNK)):
                writer.write(b"a" * CHUNK)
                await writer.drain()
            writer.write(b"\r\n\r\n")
            async with asyncio.timeout(ANSWER_S):
                done.answers[await _answer(reader)] += 1
        except (OSError, asyncio.IncompleteReadError, TimeoutError):
            done.cut_off += 1
        finally:
            if writer is not None:
                writer.close()
        await asyncio.sleep(1)


# -- sockets


def _flood(kind: str, frame: Callable[[str], bytes], rate: int, batch: int) -> Attack:
    """Return an attack by 16 sockets of one account, which together send `rate` frames a second."""

    async def attack(plan: AttackPlan, done: Done) -> None:
        pause = batch * 2 * SOCKETS_EACH / (rate * plan.share)
        async with asyncio.TaskGroup() as group:
            for path in (CHAT, PAIRING):
                for _ in range(SOCKETS_EACH):
                    group.create_task(_socket(kind, path, plan, done, frame, batch, pause))

    return attack


async def _socket(
    kind: str, path: str, plan: AttackPlan, done: Done, frame: Callable[[str], bytes], batch: int, pause: float
) -> None:
    """Flood over one socket, and over a new one when it is closed. Each attack has its own account."""
    token = plan.tokens[list(ATTACKS).index(kind) % len(plan.tokens)]
    auth = _auth(token)
    while True:
        writer = listener = None
        try:
            reader, writer = await _connect(kind, plan.realtime)
            writer.write(UPGRADE.format(path=path).encode())
            status = (await reader.readuntil(b"\r\n\r\n"))[9:12].decode()
            if status == "101":
                writer.write(auth)
                listener = asyncio.create_task(_listen(reader, done))
                while not listener.done():
                    writer.write(b"".join(frame(token) for _ in range(batch)))
                    done.sent += batch
                    await writer.drain()
                    await asyncio.sleep(pause)
            else:
                done.answers[status] += 1
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            if listener is not None:
                listener.cancel()
            if writer is not None:
                writer.close()
        done.cut_off += 1
        await asyncio.sleep(REOPEN_S)


async def _listen(reader: asyncio.StreamReader, done: Done) -> None:
    """Read frames until the service closes the socket; record the close code."""
    with contextlib.suppress(OSError, asyncio.IncompleteReadError):
        while True:
            first, size = await reader.readexactly(2)
            if size == 126:
                size = int.from_bytes(await reader.readexactly(2), "big")
            elif size == 127:
                size = int.from_bytes(await reader.readexactly(8), "big")
            payload = await reader.readexactly(size)
            if first == 0x88:
                done.answers[str(int.from_bytes(payload[:2], "big"))] += 1
                return


def _sync(_: str) -> bytes:
    return client_frame(b'{"type":"sync","session_id":"%s","after":0}' % str(uuid.UUID(bytes=os.urandom(16))).encode())


def _ack(_: str) -> bytes:
    return client_frame(b'{"type":"ack","event_id":"%s"}' % str(uuid.UUID(bytes=os.urandom(16))).encode())


def _auth(token: str) -> bytes:
    return client_frame(b'{"type":"auth","token":"%s"}' % token.encode())


async def _neighbour(_plan: AttackPlan, _done: Done) -> None:
    """Keep a processor busy and send nothing, to show the effect of the generator's share of the machine."""
    while True:
        for _ in range(20_000):
            pass
        await asyncio.sleep(0)


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


ATTACKS: dict[str, Attack] = {
    "neighbour": _neighbour,
    "lists": _bodies("lists", _json({"mode": "chat", "topics": [1] * LONG})),
    "deep": _bodies("deep", b'{"topics":' + b"[" * DEEP + b"]" * DEEP + b"}"),
    "large": _bodies("large", _json({f"field{n}": n for n in range(WIDE)})),
    "sync": _flood("sync", _sync, FRAMES_PER_SECOND, 8),
    "ack": _flood("ack", _ack, FRAMES_PER_SECOND, 8),
    "auth": _flood("auth", _auth, FRAMES_PER_SECOND, 8),
    "ping": _flood("ping", lambda _: PING, PINGS_PER_SECOND, 64),
    "silent": _silent,
    "header": _header,
    "webhook": _webhooks,
    "refresh": _refreshes,
    "sign-ups": _sign_ups,
}


async def attack(plan: AttackPlan) -> dict[str, Done]:
    """Run the attacks of a plan until it is over and every device is answered; return their results."""
    done = {kind: Done() for kind in plan.kinds}

    async def until_over(kind: str) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(plan.seconds + (DEVICE_S if kind == "refresh" else 0)):
                await ATTACKS[kind](plan, done[kind])

    async with asyncio.TaskGroup() as group:
        for kind in plan.kinds:
            group.create_task(until_over(kind))
    return done


def main() -> None:
    """Read the plan, report the start, attack, and write the results."""
    os.nice(NICENESS)
    plan = AttackPlan(**json.loads(sys.stdin.readline()))
    print("begun", flush=True)
    done = uvloop.run(attack(plan))
    cpu = time.process_time()
    print(
        json.dumps({"cpu_seconds": cpu, "kinds": {kind: attrs.asdict(one) for kind, one in done.items()}}), flush=True
    )


if __name__ == "__main__":
    main()
