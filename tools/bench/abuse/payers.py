"""Legitimate traffic that attacks must not affect: pairs that chat, the gateway's calls, a load balancer's probes."""

import asyncio
import contextlib
import itertools
import json
import time
from typing import Any

import aiohttp
import asyncpg
import attrs

from tools.bench import people
from tools.bench.chat_wire import ChatWire
from tools.bench.light_socket import SocketTally, connected
from tools.bench.running import CALLBACK_TOKEN, BenchFailed, until
from tools.driving.service import Service

PAIRS, MESSAGES_PER_SECOND = 50, 100  # one message a second for each user
WEBHOOKS_PER_SECOND, PROBES_PER_SECOND = 10, 10
ANSWER_S = 10.0  # a call without an answer within this time has failed, and counts as this long
SETTLE_S = 20.0
TICK_S, LAG_TICK_S = 0.002, 0.01
PAIRS_FROM, GATEWAY_FROM, BALANCER_FROM = "127.0.1.1", "127.0.1.2", "127.0.1.3"
PAYERS_FROM = "127.0.4."  # several, because anonymous accounts behind one address share a limit
clock = time.perf_counter


@attrs.define(kw_only=True)
class SeenByPayers:
    """Latencies in seconds, one for each sample, and the number of failures."""

    acks: list[float] = attrs.field(factory=list)
    webhooks: list[float] = attrs.field(factory=list)
    probes: list[float] = attrs.field(factory=list)
    hub_probes: list[float] = attrs.field(factory=list)
    lags: list[float] = attrs.field(factory=list)  # how late the measuring process wakes up
    failed: int = 0  # calls and probes without the right answer, messages without an acknowledgement

    def add(self, other: "SeenByPayers") -> None:
        """Add the samples of another phase."""
        for name in ("acks", "webhooks", "probes", "hub_probes", "lags"):
            getattr(self, name).extend(getattr(other, name))
        self.failed += other.failed


@attrs.frozen(kw_only=True)
class Payment:
    """An unpaid payment request."""

    customer: people.SignedInPerson
    address: str
    call: bytes
    id: str


class Payers:
    """All legitimate traffic of one service. `share`: factor for every rate, for a quick run."""

    def __init__(self, service: Service, connection: asyncpg.Connection, *, share: float = 1.0) -> None:
        self._service = service
        self._connection = connection
        self._share = share
        self._tally = SocketTally()
        self._wires: list[ChatWire] = []

    async def begin(self) -> None:
        """Connect the pairs."""
        loop = asyncio.get_running_loop()
        for pair in await people.pairs(self._connection, self._service, max(2, round(PAIRS * self._share))):
            sides = [
                ChatWire(one.token, pair.session_id, self._tally, window=1, marks=True)
                for one in (pair.customer, pair.mitra)
            ]
            sides[0].other, sides[1].other = sides[1], sides[0]
            for side in sides:
                sock = await connected(PAIRS_FROM, self._service.ports["REALTIME"])
                await loop.create_connection(lambda side=side: side, sock=sock)
            self._wires += sides
        await until(lambda: self._tally.ready == len(self._wires), "every pair is connected")

    def end(self) -> None:
        """Close the connections."""
        for wire in self._wires:
            wire.close()

    async def payments(self, seconds: float) -> list[Payment]:
        """Create payment requests: as many as the gateway will report in `seconds`."""
        count = max(1, round(seconds * WEBHOOKS_PER_SECOND * self._share)) + 1
        customers = await people.customers(self._connection, self._service, count)
        slots = asyncio.Semaphore(4)

        async def ask(number: int, customer: people.SignedInPerson) -> Payment:
            async with slots:
                address = f"{PAYERS_FROM}{number % 200 + 1}"
                asked = await self._post(address, customer, "payment/requests", {"duration_minutes": 12})
                call = {
                    "id": f"bench-{asked['payment_request_id']}",
                    "external_id": asked["payment_request_id"],
                    "status": "PAID",
                    "amount": asked["amount"],
                    "currency": "IDR",
                    "metadata": {"app": "sesi"},
                }
                return Payment(
                    customer=customer, address=address, call=json.dumps(call).encode(), id=asked["payment_request_id"]
                )

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(ask(*one)) for one in enumerate(customers)]
        return [task.result() for task in tasks]

    async def forget(self, payments: list[Payment]) -> None:
        """Cancel the searches that the paid requests started, so that they don't run during the next phase."""
        for payment in payments:
            with contextlib.suppress(BenchFailed, OSError, TimeoutError):
                await self._post(payment.address, payment.customer, "chat/cancel", {"payment_request_id": payment.id})

    async def _post(
        self, address: str, customer: people.SignedInPerson, path: str, body: dict[str, Any]
    ) -> dict[str, Any]:
        """Send a customer's request and return its answer. Raises BenchFailed if it is refused."""
        connector = aiohttp.TCPConnector(local_addr=(address, 0))
        headers = {"Authorization": f"Bearer {customer.token}"}
        url = f"{self._service.addresses.public}/api/client/{path}"
        async with (
            aiohttp.ClientSession(connector=connector) as session,
            session.post(url, json=body, headers=headers) as answer,
        ):
            found = await answer.json()
            if answer.status >= 400:
                raise BenchFailed(f"{path}: {answer.status} {found}")
            return found

    async def watch(self, seconds: float, payments: list[Payment]) -> SeenByPayers:
        """Chat, call and probe for `seconds`; return the measurements."""
        seen, over = SeenByPayers(), clock() + seconds
        async with asyncio.TaskGroup() as group:
            group.create_task(self._chat(over, seen))
            group.create_task(self._lag(over, seen))
            group.create_task(self._gateway(over, seen, payments, group))
            public, realtime = self._service.ports["PUBLIC"], self._service.ports["REALTIME"]
            group.create_task(self._probe(over, seen, public, seen.probes, group))
            group.create_task(self._probe(over, seen, realtime, seen.hub_probes, group))
        return seen

    async def _chat(self, over: float, seen: SeenByPayers) -> None:
        """Send at a steady rate, then wait for the last messages, whose latencies count too."""
        tally, wires = self._tally, self._wires
        tally.ack_s.clear()
        began, sent, closed = clock(), 0, tally.closed
        turns = itertools.cycle(wires)
        while clock() < over:
            due = int((clock() - began) * MESSAGES_PER_SECOND * self._share)
            while sent < due:
                next(turns).fire(1)
                sent += 1
            await asyncio.sleep(TICK_S)
        with contextlib.suppress(BenchFailed):
            await until(
                lambda: not any(wire.in_flight for wire in wires), "every message is acknowledged", seconds=SETTLE_S
            )
        seen.acks = list(tally.ack_s)
        seen.failed += sum(wire.in_flight for wire in wires) + (tally.closed - closed) + len(tally.errors)
        tally.errors.clear()

    async def _lag(self, over: float, seen: SeenByPayers) -> None:
        while (before := clock()) < over:
            await asyncio.sleep(LAG_TICK_S)
            seen.lags.append(max(0.0, clock() - before - LAG_TICK_S))

    async def _gateway(
        self, over: float, seen: SeenByPayers, payments: list[Payment], group: asyncio.TaskGroup
    ) -> None:
        head = "POST /api/shared/payment/webhooks/gateway HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"
        head += f"X-Callback-Token: {CALLBACK_TOKEN}\r\nConnection: close\r\nContent-Length: "
        for payment in payments:
            if clock() >= over:
                return
            request = f"{head}{len(payment.call)}\r\n\r\n".encode() + payment.call
            group.create_task(_timed(self._service.ports["PUBLIC"], GATEWAY_FROM, request, seen.webhooks, seen))
            await asyncio.sleep(1 / (WEBHOOKS_PER_SECOND * self._share))

    async def _probe(
        self, over: float, seen: SeenByPayers, port: int, latencies: list[float], group: asyncio.TaskGroup
    ) -> None:
        request = b"GET /healthz HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n"
        while clock() < over:
            group.create_task(_timed(port, BALANCER_FROM, request, latencies, seen))
            await asyncio.sleep(1 / (PROBES_PER_SECOND * self._share))


async def _timed(port: int, address: str, request: bytes, latencies: list[float], seen: SeenByPayers) -> None:
    """Send a request over a new connection, as gateways and load balancers do; record its latency."""
    began, writer, status = clock(), None, b""
    try:
        async with asyncio.timeout(ANSWER_S):
            reader, writer = await asyncio.open_connection(sock=await connected(address, port))
            writer.write(request)
            status = (await reader.readuntil(b"\r\n\r\n"))[9:12]
    except (OSError, asyncio.IncompleteReadError, TimeoutError):
        pass
    finally:
        if writer is not None:
            writer.close()
    latencies.append(clock() - began)
    seen.failed += status != b"200"
