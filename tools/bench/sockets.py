"""Benchmarks of sockets: how fast they connect, how much memory each takes, and whether memory stays constant."""

import asyncio
import resource

import asyncpg

from tools.bench import people
from tools.bench.chat import Load, connect_pairs, hubs_of, paced
from tools.bench.light_socket import Tally, Wire, clock
from tools.bench.machine import cpu_seconds, resident_kib
from tools.bench.running import until
from tools.service import Service

SOCKETS, FEW_SOCKETS = 10_000, 2_000
AT_ONCE = 256
SAMPLE_S = 5.0
SOAK_RATE = 2_000
WARM_SHARE = 0.3  # share of a soak during which caches and pools fill


def allow_files(count: int) -> None:
    """Raise the limit of open files to `count`, or the hard limit, for this process and those that it starts."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count if hard == resource.RLIM_INFINITY else min(count, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


async def _arrive(service: Service, count: int) -> tuple[list[Wire], float]:
    """Connect and authenticate `count` sockets; return them and the seconds that took."""
    connection = await asyncpg.connect(service.database_url)
    try:
        guests = await people.customers(connection, service, count)
    finally:
        await connection.close()
    tally, loop, slots = Tally(), asyncio.get_running_loop(), asyncio.Semaphore(AT_ONCE)
    wires: list[Wire] = []

    async def come(person: people.Person) -> None:
        await slots.acquire()
        wire = Wire("/ws/chat", person.token, tally)
        wire.on_ready = slots.release
        await loop.create_connection(lambda: wire, "127.0.0.1", service.ports["REALTIME"])
        wires.append(wire)

    began = clock()
    async with asyncio.TaskGroup() as group:
        for person in guests:
            group.create_task(come(person))
    await until(lambda: tally.ready == count, f"{count} sockets are ready", seconds=60)
    return wires, clock() - began


async def connects(service: Service, _: float) -> dict[str, float]:
    """Measure how fast sockets connect and authenticate."""
    hub = service.processes["realtime"].pid
    used = cpu_seconds(hub)
    wires, took = await _arrive(service, FEW_SOCKETS)
    used = cpu_seconds(hub) - used
    for wire in wires:
        wire.close()
    return {"connects/s": FEW_SOCKETS / took, "CPU s per 1,000 connects (hub)": used / FEW_SOCKETS * 1000}


async def idle(service: Service, _: float) -> dict[str, float]:
    """Measure connected sockets that send nothing."""
    hub = service.processes["realtime"].pid
    before, used = resident_kib(hub), cpu_seconds(hub)
    wires, took = await _arrive(service, SOCKETS)
    used = cpu_seconds(hub) - used
    await asyncio.sleep(2)
    held = resident_kib(hub) - before
    quiet = cpu_seconds(hub)
    await asyncio.sleep(5)
    quiet = (cpu_seconds(hub) - quiet) / 5
    for wire in wires:
        wire.close()
    return {
        "connects/s": SOCKETS / took,
        "CPU s per 1,000 connects (hub)": used / SOCKETS * 1000,
        "KiB a socket": held / SOCKETS,
        "CPU of the hub while all are idle": quiet,
    }


async def soak(service: Service, seconds: float) -> dict[str, float]:
    """Send at a steady rate and measure how much the memory of each process grows after the warm-up."""
    load = Load(name="soak", words="", pairs=200, in_flight=1, both=True, paced=SOAK_RATE, goals=())
    connection = await asyncpg.connect(service.database_url)
    try:
        pairs = await people.pairs(connection, service, load.pairs)
    finally:
        await connection.close()
    tally = Tally()
    wires = await connect_pairs(load, pairs, tally, ports=hubs_of(load, service))
    samples: dict[str, list[float]] = {key: [] for key in service.processes}

    async def watch() -> None:
        while True:
            for key, process in service.processes.items():
                samples[key].append(resident_kib(process.pid) / 1024)
            await asyncio.sleep(SAMPLE_S)

    watcher = asyncio.create_task(watch())
    try:
        figures = await paced(load, wires, tally, seconds)
    finally:
        watcher.cancel()
        for wire in wires:
            wire.close()
    for key, values in samples.items():
        warm = values[int(len(values) * WARM_SHARE) :]
        third = max(1, len(warm) // 3)
        figures[f"{key} MiB at the end"] = warm[-1]
        figures[f"{key} growth %"] = (sum(warm[-third:]) / sum(warm[:third]) - 1) * 100
    return figures
