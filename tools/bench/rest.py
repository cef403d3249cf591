"""Benchmarks of REST: the two requests that apps send most."""

import asyncpg

from tools.bench import http, people
from tools.bench.light_socket import clock
from tools.bench.machine import cpu_seconds
from tools.driving.service import Service

PARTIES = 64
WATCHERS = 2_000  # many, because each may poll the availability only 60 times a minute


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
