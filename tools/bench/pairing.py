"""Benchmarks of pairing: how fast a paid request reaches the mitras, who are all online and all asked."""

import asyncio
from typing import Any

import aiohttp
import asyncpg

from tools.bench import people
from tools.bench.figures import percentile
from tools.bench.light_socket import SocketTally, Wire, client_frame, clock
from tools.bench.machine import cpu_seconds
from tools.bench.running import CALLBACK_TOKEN, BenchFailed, until
from tools.driving.device import Addresses
from tools.driving.service import Service

TRIALS = 25
ARRIVING = 50  # sockets that connect at the same time
EVENT_ID = b'"event_id":"'
REQUEST = {"duration_minutes": 12}


class Desks:
    """What the pairing sockets of all mitras have received in one trial."""

    def __init__(self) -> None:
        self.asked: list[float] = []  # when each chat request arrived
        self.closed = 0  # requests that were closed


class Desk(Wire):
    """A mitra's pairing socket. It acknowledges each event, as apps do."""

    def __init__(self, token: str, tally: SocketTally, desks: Desks) -> None:
        super().__init__("/ws/pairing", token, tally)
        self._desks = desks

    def take(self, buffer: bytes, start: int, end: int) -> None:
        """Record and acknowledge a `chat_request` or `chat_request_closed`."""
        if buffer.startswith(b'chat_request"', start + 9):
            self._desks.asked.append(clock())
        elif buffer.startswith(b'chat_request_closed"', start + 9):
            self._desks.closed += 1
        else:
            super().take(buffer, start, end)
            return
        at = buffer.find(EVENT_ID, start, end) + len(EVENT_ID)
        self.write(client_frame(b'{"type":"ack","event_id":"%b"}' % buffer[at : at + 36]))


async def pairing(service: Service, count: int, trials: int = TRIALS) -> dict[str, float]:
    """Measure the time from the gateway's call to the first and the last `chat_request`, with `count` mitras online."""
    connection = await asyncpg.connect(service.database_url)
    try:
        mitras = await people.mitras(connection, service, count, online=True)
        customers = await people.customers(connection, service, trials + 1)
        # Keep mitras online without heartbeats, which this load does not send.
        await connection.execute(
            "UPDATE app_config SET value = '{\"value\": false}', updated_at = now() WHERE key = 'require_mitra_ping'"
        )
        await connection.execute("ANALYZE")
        tally, desks = SocketTally(), Desks()
        sockets = [Desk(one.token, tally, desks) for one in mitras]
        try:
            await _connect(service, sockets, tally)
            first, last, used = await _trials(service, connection, customers, desks, count)
        finally:
            for socket in sockets:
                socket.close()
            await connection.execute("UPDATE mitra_online_status SET is_online = false")
    finally:
        await connection.close()
    return {
        "first frame p50 ms": percentile(first, 0.5) * 1000,
        "first frame p99 ms": percentile(first, 0.99) * 1000,
        "last frame p50 ms": percentile(last, 0.5) * 1000,
        "last frame p99 ms": percentile(last, 0.99) * 1000,
        **{f"CPU ms of a blast ({name})": seconds / len(first) * 1000 for name, seconds in used.items()},
    }


async def _connect(service: Service, sockets: list[Desk], tally: SocketTally) -> None:
    loop = asyncio.get_running_loop()
    for number, socket in enumerate(sockets, start=1):
        await loop.create_connection(lambda socket=socket: socket, "127.0.0.1", service.ports["REALTIME"])
        if number % ARRIVING == 0 or number == len(sockets):
            await until(lambda number=number: tally.ready == number, f"{number} mitras are ready")


async def _trials(
    service: Service, connection: asyncpg.Connection, customers: list[people.SignedInPerson], desks: Desks, count: int
) -> tuple[list[float], list[float], dict[str, float]]:
    """Return the seconds to the first and to the last frame of each trial, and the processor time of all trials."""
    first, last, pids = list[float](), list[float](), {name: one.pid for name, one in service.processes.items()}
    before = dict.fromkeys(pids, 0.0)
    async with aiohttp.ClientSession() as http_session:
        for number, customer in enumerate(customers):
            desks.asked.clear()
            desks.closed = 0
            if number == 1:  # the first one was a warm-up
                before = {name: cpu_seconds(pid) for name, pid in pids.items()}
            payment = await _call(http_session, service.addresses, customer, "payment/requests", REQUEST)
            began = await _pay(http_session, service.addresses, payment)
            await until(lambda: len(desks.asked) >= count, f"{count} mitras are asked")
            if number:
                first.append(min(desks.asked) - began)
                last.append(max(desks.asked) - began)
            cancelled = {"payment_request_id": payment["payment_request_id"]}
            await _call(http_session, service.addresses, customer, "chat/cancel", cancelled)
            await until(lambda: desks.closed >= count, f"the requests of {count} mitras are closed")
            await _settled(connection)
    return first, last, {name: cpu_seconds(pid) - before[name] for name, pid in pids.items()}


async def _pay(session: aiohttp.ClientSession, addresses: Addresses, payment: dict[str, Any]) -> float:
    """Let the gateway report a payment; return when its call began. Raises BenchFailed if it is refused."""
    body = {
        "id": f"bench-{payment['payment_request_id']}",
        "external_id": payment["payment_request_id"],
        "status": "PAID",
        "amount": payment["amount"],
        "currency": "IDR",
        "metadata": {"app": "sesi"},
    }
    began = clock()
    url, headers = addresses.public + "/api/shared/payment/webhooks/gateway", {"X-Callback-Token": CALLBACK_TOKEN}
    async with session.post(url, json=body, headers=headers) as answer:
        if answer.status != 200:
            raise BenchFailed(f"the webhook: {answer.status} {await answer.text()}")
    return began


async def _settled(connection: asyncpg.Connection) -> None:
    """Wait until the mitras' acknowledgements are stored, so that no trial works on the rest of the one before."""
    unacknowledged = "SELECT count(*) FROM deliveries WHERE recipient_type = 'mitra'"
    try:
        async with asyncio.timeout(30):
            while await connection.fetchval(unacknowledged):
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise BenchFailed("not within 30 s: all acknowledgements are stored") from None


async def _call(
    session: aiohttp.ClientSession, addresses: Addresses, person: people.SignedInPerson, path: str, body: dict[str, Any]
) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {person.token}"}
    async with session.post(f"{addresses.public}/api/client/{path}", json=body, headers=headers) as answer:
        found = await answer.json()
        if answer.status >= 400:
            raise BenchFailed(f"{path}: {answer.status} {found}")
        return found
