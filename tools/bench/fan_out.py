"""Benchmark of several realtime processes: what one more of them costs, when each party is connected to any of them.

The load is fixed: a process that receives what concerns only others would make all of them together busier.
"""

import random
import urllib.request

import asyncpg
import attrs
from prometheus_client.parser import text_string_to_metric_families

from tools.bench import chat, people
from tools.bench.chat_loads import Load
from tools.bench.chat_wire import ChatWire
from tools.bench.light_socket import SocketTally
from tools.bench.machine import cpu_seconds
from tools.bench.running import BenchFailed
from tools.driving.service import Service

COUNTS = (1, 2, 4, 8)
PAIRS = 400
RATE = 2_000  # messages a second of all pairs
LOAD = Load(name="fan-out", words="", pairs=PAIRS, in_flight=1, both=True, paced=RATE, goals=())
PUBLISHED = "sesi_bus_envelopes_published_total"
DECODED = "sesi_bus_envelopes_decoded_total"


@attrs.frozen(kw_only=True)
class HubProcess:
    """A realtime process: where it listens, and its id."""

    port: int
    pid: int

    def so_far(self) -> "Spent":
        """Return what the process has used and done since its start."""
        return Spent(
            cpu=cpu_seconds(self.pid), published=_total(self.port, PUBLISHED), decoded=_total(self.port, DECODED)
        )


@attrs.frozen(kw_only=True)
class Spent:
    """Processor seconds, and envelopes published and decoded."""

    cpu: float
    published: float
    decoded: float


async def fan_out(service: Service, seconds: float) -> dict[str, float]:
    """Run the load on 1, 2, 4 and 8 realtime processes in turn. Raises BenchFailed."""
    every = [
        HubProcess(
            port=service.ports["REALTIME" if number == 1 else f"REALTIME{number}"],
            pid=service.processes["realtime" if number == 1 else f"realtime{number}"].pid,
        )
        for number in range(1, COUNTS[-1] + 1)
    ]
    figures: dict[str, float] = {}
    for count in COUNTS:
        figures |= await _measure(service, every[:count], seconds)
    few, many = COUNTS[0], COUNTS[-1]
    figures["hub CPU, 8 to 1"] = figures[_cpu(many)] / figures[_cpu(few)]
    return figures


async def _measure(service: Service, hubs: list[HubProcess], seconds: float) -> dict[str, float]:
    connection = await asyncpg.connect(service.database_url)
    try:
        pairs = await people.pairs(connection, service, PAIRS)
    finally:
        await connection.close()
    chosen, tally, count = random.Random(len(hubs)), SocketTally(), len(hubs)
    wires: list[ChatWire] = []
    try:
        wires = await chat.connect_pairs(
            LOAD, pairs, tally, ports=lambda: (chosen.choice(hubs).port, chosen.choice(hubs).port)
        )
        acked, before = tally.acked, [hub.so_far() for hub in hubs]
        latencies = await chat.paced(RATE, wires, tally, seconds)
        messages, after = tally.acked - acked, [hub.so_far() for hub in hubs]
    finally:
        for wire in wires:
            wire.close()
    if tally.disordered:
        raise BenchFailed(f"{tally.disordered} out of order")
    cpu = sum(now.cpu - then.cpu for then, now in zip(before, after, strict=True))
    share = sum(now.published - then.published for then, now in zip(before, after, strict=True)) / count
    most = max(now.decoded - then.decoded for then, now in zip(before, after, strict=True))
    named = "1 hub" if count == 1 else f"{count} hubs"
    return {
        _cpu(count): cpu / messages * 1000,
        f"most decoded, times the share, {named}": most / share,
        **{f"{name}, {named}": value for name, value in latencies.items()},
    }


def _cpu(count: int) -> str:
    return f"hub CPU s per 1,000, {count} hub{'s' if count > 1 else ''}"


def _total(port: int, name: str) -> float:
    """Return the sum over all labels of a metric, as /metrics on `port` gives it; 0 if there is no such metric."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        text = answer.read().decode()
    return sum(
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name
    )
