"""Benchmarks of sockets: how fast they connect, what idle ones cost, and whether memory stays constant."""

import asyncio
import resource

import asyncpg

from tools.bench import people
from tools.bench.chat import chatting, paced
from tools.bench.chat_loads import Load
from tools.bench.light_socket import SocketTally, Wire, clock
from tools.bench.machine import cpu_seconds, own_kib, resident_kib
from tools.bench.running import until
from tools.bench.target import Target, of_service
from tools.driving.service import Service

FEW_SOCKETS = 2_000
COUNTS = (1_000, 5_000, 10_000)  # open sockets
MEASURED = 5_000  # sockets whose connecting is measured, and whose cost has goals
WARM_SOCKETS = 40
AT_ONCE = 256
REST_S = 2.0
PING_S = 25.0  # between two pings of an idle socket: shorter measurements would miss them
SAMPLE_S = 5.0
SOAK_RATE = 2_000
WARM_SHARE = 0.3  # share of a soak during which caches and pools fill


def allow_files(count: int) -> None:
    """Raise the limit of open files to `count`, or the hard limit, for this process and those that it starts."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count if hard == resource.RLIM_INFINITY else min(count, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class Crowd:
    """Sockets that connect and then send nothing."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._tally = SocketTally()
        self._wires: list[Wire] = []

    async def arrive(self, count: int) -> float:
        """Connect and authenticate `count` further sockets; return the seconds that it took."""
        connection = await asyncpg.connect(self._target.service.database_url)
        try:
            guests = await people.customers(connection, self._target.service, count)
        finally:
            await connection.close()
        loop, slots, port = asyncio.get_running_loop(), asyncio.Semaphore(AT_ONCE), self._target.ports()[0]

        async def come(person: people.SignedInPerson) -> None:
            await slots.acquire()
            wire = Wire("/ws/chat", person.token, self._tally)
            wire.on_ready = slots.release
            await loop.create_connection(lambda: wire, "127.0.0.1", port)
            self._wires.append(wire)

        expected, began = self._tally.ready + count, clock()
        async with asyncio.TaskGroup() as group:
            for person in guests:
                group.create_task(come(person))
        await until(lambda: self._tally.ready == expected, f"{expected} sockets are ready", seconds=60)
        return clock() - began

    def leave(self) -> None:
        """Abort all connections."""
        for wire in self._wires:
            wire.close()


async def connects(service: Service, _: float) -> dict[str, float]:
    """Measure how fast sockets connect and authenticate."""
    target = of_service(service)
    crowd = Crowd(target)
    used = target.used().hub
    took = await crowd.arrive(FEW_SOCKETS)
    used = target.used().hub - used
    crowd.leave()
    return {"connects/s": FEW_SOCKETS / took, "CPU s per 1,000 connects (hub)": used / FEW_SOCKETS * 1000}


async def idle(target: Target, _: float) -> dict[str, float]:
    """Measure connecting sockets, and the memory and processor time of idle ones.

    The target must have started just before: a process that has had many sockets keeps their memory.
    """
    (pid,) = target.pids
    crowd = Crowd(target)
    await crowd.arrive(WARM_SOCKETS)
    await asyncio.sleep(REST_S)
    empty = own_kib(pid)
    connecting: list[tuple[int, float, float]] = []
    found: dict[str, float] = {}
    for count, before in zip(COUNTS, (0, *COUNTS), strict=False):
        used = cpu_seconds(pid)
        took = await crowd.arrive(count - before)
        connecting.append((count, took, cpu_seconds(pid) - used))
        await asyncio.sleep(REST_S)
        used = cpu_seconds(pid)
        await asyncio.sleep(PING_S)
        found[f"hub CPU ms/s, {count:,} sockets"] = (cpu_seconds(pid) - used) / PING_S * 1000
        found[f"KiB a socket, {count:,} sockets"] = (own_kib(pid) - empty) / count
    crowd.leave()
    measured = [(took, used) for count, took, used in connecting if count <= MEASURED]
    return {
        "connects/s": MEASURED / sum(took for took, _ in measured),
        "CPU ms a connect (hub)": sum(used for _, used in measured) / MEASURED * 1000,
        **found,
    }


async def soak(service: Service, seconds: float) -> dict[str, float]:
    """Send at a steady rate and measure how much the memory of each process grows after the warm-up."""
    load = Load(name="soak", words="", pairs=200, in_flight=1, both=True, paced=SOAK_RATE, goals=())
    samples: dict[str, list[float]] = {key: [] for key in service.processes}

    async def watch() -> None:
        while True:
            for key, process in service.processes.items():
                samples[key].append(resident_kib(process.pid) / 1024)
            await asyncio.sleep(SAMPLE_S)

    async with chatting(load, of_service(service)) as (wires, tally):
        watcher = asyncio.create_task(watch())
        try:
            figures = await paced(SOAK_RATE, wires, tally, seconds)
        finally:
            watcher.cancel()
    for key, values in samples.items():
        warm = values[int(len(values) * WARM_SHARE) :]
        third = max(1, len(warm) // 3)
        figures[f"{key} MiB at the end"] = warm[-1]
        figures[f"{key} growth %"] = (sum(warm[-third:]) / sum(warm[:third]) - 1) * 100
    return figures
