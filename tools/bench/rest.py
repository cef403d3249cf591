"""Benchmarks of REST: the two requests that apps send most, and how fast a paid request reaches the mitras."""

import asyncio
from typing import Any

import aiohttp
import asyncpg

from tools.bench import http, people
from tools.bench.figures import percentile
from tools.bench.light_socket import Tally, Wire, clock
from tools.bench.machine import cpu_seconds
from tools.bench.running import CALLBACK_TOKEN, BenchFailed, until
from tools.client import Addresses
from tools.service import Service

PARTIES = 64
WATCHERS = 2_000  # many, because each may poll the availability only 60 times a minute
TRIALS = 25


async def session_view(service: Service, seconds: float) -> dict[str, float]:
    """Measure `GET` of a session by its parties."""
    connection = await asyncpg.connect(service.database_url)
    try:
        pairs = await people.pairs(connection, service, PARTIES)
    finally:
        await connection.close()
    asked = [
        (f"/api/shared/chat/sessions/{pair.session_id}", person.token)
        for pair in pairs
        for person in (pair.customer, pair.mitra)
    ]
    return await _with_cost(service, asked, seconds)


async def availability(service: Service, seconds: float) -> dict[str, float]:
    """Measure `GET` of the availability, which every app polls."""
    connection = await asyncpg.connect(service.database_url)
    try:
        watchers = await people.customers(connection, service, WATCHERS)
        await people.mitras(connection, service, 50, online=True)
    finally:
        await connection.close()
    return await _with_cost(service, [("/api/client/mitras/availability", one.token) for one in watchers], seconds)


async def _with_cost(service: Service, asked: list[tuple[str, str]], seconds: float) -> dict[str, float]:
    pids = [process.pid for key, process in service.processes.items() if key.startswith("api")]
    ports = [port for name, port in service.ports.items() if name.startswith("PUBLIC")]
    used, began = sum(map(cpu_seconds, pids)), clock()
    found = await http.ask(ports, asked, seconds)
    took = clock() - began
    cost = (sum(map(cpu_seconds, pids)) - used) / (found["answers/s"] * took) * 1000
    return {**found, "CPU s per 1,000 (api)": cost}


class Desk(Wire):
    """A mitra's pairing socket, which records when a chat request arrives."""

    def __init__(self, token: str, tally: Tally, heard: list[float]) -> None:
        super().__init__("/ws/pairing", token, tally)
        self._heard = heard

    def take(self, buffer: bytes, start: int, end: int) -> None:
        """Record the time of a `chat_request`."""
        if buffer.startswith(b'chat_request"', start + 9):
            self._heard.append(clock())
        else:
            super().take(buffer, start, end)


async def pairing(service: Service, count: int) -> dict[str, float]:
    """Measure the time from the gateway's call to the first and the last `chat_request`, with `count` mitras online."""
    connection = await asyncpg.connect(service.database_url)
    try:
        mitras = await people.mitras(connection, service, count, online=True)
        customers = await people.customers(connection, service, TRIALS + 1)
        # Keep mitras online without heartbeats, which this load does not send.
        await connection.execute(
            "UPDATE app_config SET value = '{\"value\": false}', updated_at = now() WHERE key = 'require_mitra_ping'"
        )
        tally, heard = Tally(), list[float]()
        loop = asyncio.get_running_loop()
        desks = [Desk(one.token, tally, heard) for one in mitras]
        try:
            for number, desk in enumerate(desks, start=1):
                await loop.create_connection(lambda desk=desk: desk, "127.0.0.1", service.ports["REALTIME"])
                if number % 50 == 0 or number == count:
                    await until(lambda number=number: tally.ready == number, f"{number} mitras are ready")
            first, last = await _trials(service, customers, heard, count)
        finally:
            for desk in desks:
                desk.close()
            await connection.execute("UPDATE mitra_online_status SET is_online = false")
    finally:
        await connection.close()
    return {
        "first frame p50 ms": percentile(first, 0.5) * 1000,
        "first frame p99 ms": percentile(first, 0.99) * 1000,
        "last frame p50 ms": percentile(last, 0.5) * 1000,
        "last frame p99 ms": percentile(last, 0.99) * 1000,
    }


async def _trials(
    service: Service, customers: list[people.Person], heard: list[float], count: int
) -> tuple[list[float], list[float]]:
    addresses, first, last = service.addresses, list[float](), list[float]()
    async with aiohttp.ClientSession() as http_session:
        for number, customer in enumerate(customers):
            heard.clear()
            payment = await _call(http_session, addresses, customer, "payment/requests", {"duration_minutes": 12})
            body = {
                "id": f"bench-{payment['payment_request_id']}",
                "external_id": payment["payment_request_id"],
                "status": "PAID",
                "amount": payment["amount"],
                "currency": "IDR",
                "metadata": {"app": "sesi"},
            }
            began = clock()
            async with http_session.post(
                addresses.public + "/api/shared/payment/webhooks/gateway",
                json=body, headers={"X-Callback-Token": CALLBACK_TOKEN},
            ) as answer:  # fmt: skip
                if answer.status != 200:
                    raise BenchFailed(f"the webhook: {answer.status} {await answer.text()}")
            await until(lambda: len(heard) >= count, f"{count} mitras are asked")
            if number:  # the first one is a warm-up
                first.append(min(heard) - began)
                last.append(max(heard) - began)
            cancelled = {"payment_request_id": payment["payment_request_id"]}
            await _call(http_session, addresses, customer, "chat/cancel", cancelled)
    return first, last


async def _call(
    session: aiohttp.ClientSession, addresses: Addresses, person: people.Person, path: str, body: dict[str, Any]
) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {person.token}"}
    async with session.post(f"{addresses.public}/api/client/{path}", json=body, headers=headers) as answer:
        found = await answer.json()
        if answer.status >= 400:
            raise BenchFailed(f"{path}: {answer.status} {found}")
        return found
