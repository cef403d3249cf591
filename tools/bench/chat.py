"""Benchmarks of chat messages: stored, acknowledged after the commit, and delivered to the other party in order."""

import asyncio
from collections.abc import Callable

import asyncpg
import attrs

from tools.bench import people
from tools.bench.figures import Goal, percentile
from tools.bench.light_socket import ChatWire, Tally, clock
from tools.bench.machine import cpu_seconds
from tools.bench.running import BenchFailed, until
from tools.service import Service

WARM_S = 1.5
CONNECT_AT_ONCE = 100
TICK_S = 0.001
QUIET_RATE = 200
Ports = Callable[[], tuple[int, int]]


@attrs.frozen(kw_only=True)
class Load:
    """A chat load. `in_flight`: unacknowledged messages of each sender. `both`: both parties send, and mark messages as
    delivered and read. `paced`: the rate for measuring latency, in messages a second."""

    name: str
    words: str
    pairs: int
    in_flight: int
    both: bool
    hubs: int = 1
    paced: int
    goals: tuple[Goal, ...]


LOADS = (
    Load(
        name="chat-a",
        words="one direction, 200 pairs, 8 in flight a pair",
        pairs=200,
        in_flight=8,
        both=False,
        paced=3_700,
        goals=(
            Goal(figure="stored/s", at_least=20_000),
            Goal(figure="CPU s per 1,000", at_most=0.065),
            Goal(figure="delivered p99 ms at 3,700/s", at_most=10),
        ),
    ),
    Load(
        name="chat-b",
        words="both directions, 200 pairs, 8 in flight a socket, all marked delivered and read",
        pairs=200,
        in_flight=8,
        both=True,
        paced=10_000,
        goals=(
            Goal(figure="stored/s", at_least=25_000),
            Goal(figure="CPU s per 1,000", at_most=0.045),
            Goal(figure="delivered p99 ms at 10,000/s", at_most=40),
        ),
    ),
    Load(
        name="chat-c",
        words="both directions, 2,000 pairs, 1 in flight a socket, all marked delivered and read",
        pairs=2_000,
        in_flight=1,
        both=True,
        paced=2_500,
        goals=(
            Goal(figure="stored/s", at_least=10_000),
            Goal(figure="CPU s per 1,000", at_most=0.13),
            Goal(figure="delivered p99 ms at 2,500/s", at_most=15),
        ),
    ),
    Load(
        name="chat-d",
        words="as chat-b, two realtime processes, every message crossing them",
        pairs=200,
        in_flight=8,
        both=True,
        hubs=2,
        paced=10_000,
        goals=(Goal(figure="stored/s", at_least=20_000), Goal(figure="CPU s per 1,000", at_most=0.06)),
    ),
)
ALWAYS = (Goal(figure="out of order", at_most=0), Goal(figure="acknowledged and not stored", at_most=0))


@attrs.define(kw_only=True)
class Used:
    """Processor seconds used so far."""

    hub: float
    postgres: float
    redis: float

    @classmethod
    def now(cls, service: Service) -> "Used":
        """Read the processor time of the service's processes."""
        hubs = [process.pid for key, process in service.processes.items() if key.startswith("realtime")]
        return cls(
            hub=sum(cpu_seconds(pid) for pid in hubs),
            postgres=cpu_seconds(service.servers.pids["postgres"], children=True),
            redis=cpu_seconds(service.servers.pids["valkey"]),
        )


async def run(load: Load, service: Service, seconds: float) -> dict[str, float]:
    """Run the load once, at full speed and then paced; return its figures. Raises BenchFailed."""
    connection = await asyncpg.connect(service.database_url)
    try:
        pairs = await people.pairs(connection, service, load.pairs)
        tally = Tally()
        wires = await connect_pairs(load, pairs, tally, ports=hubs_of(load, service))
        try:
            figures = await _closed(load, service, wires, tally, seconds)
            figures |= await paced(load, wires, tally, seconds)
        finally:
            for wire in wires:
                wire.close()
        ids = [pair.session_id for pair in pairs]
        stored = await connection.fetchval("SELECT count(*) FROM chat_messages WHERE session_id = ANY($1::uuid[])", ids)
        holes = await connection.fetchval(
            """SELECT count(*) FROM chat_sessions s WHERE id = ANY($1::uuid[])
                 AND last_seq <> (SELECT count(*) FROM chat_messages m WHERE m.session_id = s.id)""",
            ids,
        )
    finally:
        await connection.close()
    return figures | {
        "out of order": float(tally.disordered + holes),
        "acknowledged and not stored": float(max(0, tally.acked - stored)),
    }


async def quiet(service: Service, seconds: float) -> dict[str, float]:
    """Measure the cost and latency of a message at a low rate."""
    load = Load(name="quiet", words="", pairs=50, in_flight=1, both=True, paced=QUIET_RATE, goals=())
    connection = await asyncpg.connect(service.database_url)
    try:
        pairs = await people.pairs(connection, service, load.pairs)
    finally:
        await connection.close()
    tally = Tally()
    wires = await connect_pairs(load, pairs, tally, ports=hubs_of(load, service))
    try:
        used, acked = Used.now(service), tally.acked
        figures = await paced(load, wires, tally, seconds)
        after, count = Used.now(service), tally.acked - acked
    finally:
        for wire in wires:
            wire.close()
    cost = sum(getattr(after, name) - getattr(used, name) for name in ("hub", "postgres", "redis"))
    return {**figures, "CPU s per 1,000": cost / max(1, count) * 1000}


def hubs_of(load: Load, service: Service) -> Ports:
    """Return where the customer and the mitra of each pair connect: with several hubs, to different ones."""
    ports = service.ports["REALTIME"], service.ports["REALTIME2" if load.hubs > 1 else "REALTIME"]
    return lambda: ports


async def connect_pairs(load: Load, pairs: list[people.Pair], tally: Tally, *, ports: Ports) -> list[ChatWire]:
    """Open both sockets of each pair; return those that send. `ports`: where a pair's customer and mitra connect."""
    loop = asyncio.get_running_loop()
    made: list[ChatWire] = []
    for start in range(0, len(pairs), CONNECT_AT_ONCE):
        for pair in pairs[start : start + CONNECT_AT_ONCE]:
            sides = [
                ChatWire(person.token, pair.session_id, tally, window=load.in_flight, marks=load.both)
                for person in (pair.customer, pair.mitra)
            ]
            sides[0].other, sides[1].other = sides[1], sides[0]
            for side, port in zip(sides, ports(), strict=True):
                await loop.create_connection(lambda side=side: side, "127.0.0.1", port)
            made += sides
        count = len(made)
        await until(lambda count=count: tally.ready == count, f"{count} sockets are ready")
    return made if load.both else made[::2]


async def _closed(
    load: Load, service: Service, wires: list[ChatWire], tally: Tally, seconds: float
) -> dict[str, float]:
    """Send at full speed: each acknowledgement is followed by the next message."""
    for wire in wires:
        wire.begin()
    await asyncio.sleep(WARM_S)
    tally.ack_s.clear()
    tally.delivered_s.clear()
    acked, used, began = tally.acked, Used.now(service), clock()
    await asyncio.sleep(seconds)
    count, after, took = tally.acked - acked, Used.now(service), clock() - began
    ack_s, delivered_s = list(tally.ack_s), list(tally.delivered_s)
    for wire in wires:
        wire.running = False
    await _settle(wires, tally)
    cost = {
        name: (getattr(after, name) - getattr(used, name)) / max(1, count) * 1000
        for name in ("hub", "postgres", "redis")
    }
    return {
        "stored/s": count / took,
        "CPU s per 1,000": sum(cost.values()),
        "of it hub": cost["hub"],
        "of it PostgreSQL": cost["postgres"],
        "of it Redis": cost["redis"],
        "ack p50 ms": percentile(ack_s, 0.5) * 1000,
        "ack p99 ms": percentile(ack_s, 0.99) * 1000,
        "delivered p50 ms": percentile(delivered_s, 0.5) * 1000,
        "delivered p99 ms": percentile(delivered_s, 0.99) * 1000,
    }


async def _settle(wires: list[ChatWire], tally: Tally) -> None:
    """Wait until every message is acknowledged and delivered. Raises BenchFailed, at once after an error frame."""
    await until(lambda: tally.trouble() or not any(wire.in_flight for wire in wires), "every message is acknowledged")
    await until(lambda: tally.trouble() or tally.delivered >= tally.acked, "every message is delivered")
    if trouble := tally.trouble():
        raise BenchFailed(trouble)


async def paced(load: Load, wires: list[ChatWire], tally: Tally, seconds: float) -> dict[str, float]:
    """Send at the paced rate, to measure the latency that users get.

    Earlier messages are acknowledged and delivered first, and the first WARM_S seconds are not measured.
    """
    await _settle(wires, tally)
    began, sent, size, warm = clock(), 0, len(wires), True
    while (passed := clock() - began) < WARM_S + seconds:
        if warm and passed >= WARM_S:
            warm = False
            tally.ack_s.clear()
            tally.delivered_s.clear()
        due = int(passed * load.paced)
        while sent < due:
            wires[sent % size].fire(1)
            sent += 1
        await asyncio.sleep(TICK_S)
    await _settle(wires, tally)
    at = f"at {load.paced:,}/s"
    return {
        f"delivered p50 ms {at}": percentile(tally.delivered_s, 0.5) * 1000,
        f"delivered p99 ms {at}": percentile(tally.delivered_s, 0.99) * 1000,
        f"ack p99 ms {at}": percentile(tally.ack_s, 0.99) * 1000,
    }
