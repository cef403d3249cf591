"""Benchmarks of chat messages: stored, acknowledged after the commit, and delivered to the other party in order."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator

import asyncpg

from tools.bench import people
from tools.bench.chat_loads import Load
from tools.bench.chat_wire import ChatWire
from tools.bench.figures import percentile
from tools.bench.light_socket import SocketTally, clock
from tools.bench.running import BenchFailed, until
from tools.bench.target import Ports, ProcessorUse, Target

WARM_S = 1.5
CONNECT_AT_ONCE = 100
TICK_S = 0.001
BUSY = b'"code":"UNAVAILABLE"'
KEPT_UP = 0.9  # share of an offered load that a target must deliver in time
# Sessions of the service whose sequence of messages has holes. A peer leaves these rows as they are.
HOLES = """SELECT count(*) FROM chat_sessions s WHERE id = ANY($1::uuid[])
  AND last_seq <> (SELECT count(*) FROM chat_messages m WHERE m.session_id = s.id)"""


class Overloaded(BenchFailed):
    """The target got more messages than it could take, and refused some or took too long."""


async def run(load: Load, target: Target, seconds: float) -> dict[str, float]:
    """Run the load once, at full speed and then paced; return its figures. Raises BenchFailed.

    Between the two the kernel writes to disk what full speed has left in memory. Otherwise it does so half a minute
    later, and the commits of another run wait for up to 120 ms.
    """
    async with chatting(load, target) as (wires, tally):
        figures = await _full_speed(target, wires, tally, seconds)
        await asyncio.to_thread(os.sync)
        figures |= await paced(load.paced, wires, tally, seconds)
        return figures | await _proof(target, wires, tally)


async def full_speed(load: Load, target: Target, seconds: float) -> dict[str, float]:
    """Run the load once, at full speed; return its figures. Raises BenchFailed."""
    async with chatting(load, target) as (wires, tally):
        figures = await _full_speed(target, wires, tally, seconds)
        return figures | await _proof(target, wires, tally)


@contextlib.asynccontextmanager
async def chatting(load: Load, target: Target) -> AsyncIterator[tuple[list[ChatWire], SocketTally]]:
    """Connect new pairs; yield the sockets that send, and the counts of all. Raises BenchFailed."""
    connection = await asyncpg.connect(target.service.database_url)
    try:
        pairs = await people.pairs(connection, target.service, load.pairs)
    finally:
        await connection.close()
    tally = SocketTally()
    wires = await connect_pairs(load, pairs, tally, ports=target.ports, wire=target.wire)
    try:
        yield wires, tally
    finally:
        for wire in wires:
            wire.close()
            wire.other.close()


async def connect_pairs(
    load: Load, pairs: list[people.ChatPair], tally: SocketTally, *, ports: Ports, wire: type[ChatWire] = ChatWire
) -> list[ChatWire]:
    """Open both sockets of each pair; return those that send. `ports`: where a pair's customer and mitra connect."""
    loop = asyncio.get_running_loop()
    made: list[ChatWire] = []
    for start in range(0, len(pairs), CONNECT_AT_ONCE):
        for pair in pairs[start : start + CONNECT_AT_ONCE]:
            sides = [
                wire(person.token, pair.session_id, tally, window=load.in_flight, marks=load.both)
                for person in (pair.customer, pair.mitra)
            ]
            sides[0].other, sides[1].other = sides[1], sides[0]
            for side, port in zip(sides, ports(), strict=True):
                await loop.create_connection(lambda side=side: side, "127.0.0.1", port)
            made += sides
        count = len(made)
        await until(lambda count=count: tally.ready == count, f"{count} sockets are ready")
    return made if load.both else made[::2]


async def _full_speed(target: Target, wires: list[ChatWire], tally: SocketTally, seconds: float) -> dict[str, float]:
    """Send at full speed: each acknowledgement is followed by the next message."""
    for wire in wires:
        wire.begin()
    await asyncio.sleep(WARM_S)
    tally.ack_s.clear()
    tally.delivered_s.clear()
    acked, used, began = tally.acked, target.used(), clock()
    await asyncio.sleep(seconds)
    count, after, took = tally.acked - acked, target.used(), clock() - began
    ack_s, delivered_s = list(tally.ack_s), list(tally.delivered_s)
    for wire in wires:
        wire.running = False
    await settle(wires, tally)
    return {
        "stored/s": count / took,
        **after.cost(used, count),
        "ack p50 ms": percentile(ack_s, 0.5) * 1000,
        "ack p99 ms": percentile(ack_s, 0.99) * 1000,
        "delivered p50 ms": percentile(delivered_s, 0.5) * 1000,
        "delivered p99 ms": percentile(delivered_s, 0.99) * 1000,
    }


async def _proof(target: Target, wires: list[ChatWire], tally: SocketTally) -> dict[str, float]:
    """Return how many messages were out of order, and how many acknowledged ones are not stored."""
    ids = [wire.session_id for wire in wires]
    connection = await asyncpg.connect(target.service.database_url)
    try:
        stored = await connection.fetchval(target.stored, ids)
        holes = await connection.fetchval(HOLES, ids)
    finally:
        await connection.close()
    return {
        "out of order": float(tally.disordered + holes),
        "acknowledged and not stored": float(max(0, tally.acked - stored)),
    }


async def settle(wires: list[ChatWire], tally: SocketTally) -> None:
    """Wait until every message is acknowledged and delivered. Raises BenchFailed, at once after an error frame."""
    await until(lambda: tally.trouble() or not any(wire.in_flight for wire in wires), "every message is acknowledged")
    await until(lambda: tally.trouble() or tally.delivered >= tally.acked, "every message is delivered")
    if trouble := tally.trouble():
        raise Overloaded(trouble) if any(BUSY in error for error in tally.errors) else BenchFailed(trouble)


async def offer(
    rate: int,
    wires: list[ChatWire],
    tally: SocketTally,
    seconds: float,
    target: Target | None = None,
    *,
    settle_s: float = 0.0,
) -> tuple[dict[str, float], bool]:
    """Send at a rate, whether or not earlier messages have arrived; return the figures, and whether the target kept up.

    Earlier messages are acknowledged and delivered first, and the first WARM_S and `settle_s` seconds are not measured.
    With a target, the figures include what the messages cost. Raises BenchFailed; Overloaded if the target did not keep
    up, and lost or refused messages.
    """
    await settle(wires, tally)
    began, sent, size = clock(), 0, len(wires)
    acked, warm, used = tally.acked, True, ProcessorUse(hub=0, postgres=0, redis=0)
    warm_s = WARM_S + settle_s
    while (passed := clock() - began) < warm_s + seconds:
        if warm and passed >= warm_s:
            warm, acked = False, tally.acked
            used = used if target is None else target.used()
            tally.ack_s.clear()
            tally.delivered_s.clear()
        due = int(passed * rate)
        while sent < due:
            wires[sent % size].fire(1)
            sent += 1
        await asyncio.sleep(TICK_S)
    kept_up = tally.acked - acked >= KEPT_UP * rate * seconds
    try:
        await settle(wires, tally)
    except BenchFailed as error:
        raise error if kept_up else Overloaded(str(error)) from error
    figures = {
        "delivered p50 ms": percentile(tally.delivered_s, 0.5) * 1000,
        "delivered p99 ms": percentile(tally.delivered_s, 0.99) * 1000,
        "ack p99 ms": percentile(tally.ack_s, 0.99) * 1000,
    }
    if target is not None:
        figures |= target.used().cost(used, tally.acked - acked)
    return figures, kept_up


async def paced(rate: int, wires: list[ChatWire], tally: SocketTally, seconds: float) -> dict[str, float]:
    """Send at a rate, to measure the latency that users get."""
    figures, _ = await offer(rate, wires, tally, seconds)
    return {f"{name} at {rate:,}/s": value for name, value in figures.items()}
