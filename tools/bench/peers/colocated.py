"""Peers that use the service's servers and users, and are measured in turn with the service in one run."""

import asyncio
import os
import pathlib
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Coroutine
from typing import Any

import asyncpg
import attrs

from tools.bench import http, people
from tools.bench.figures import percentile
from tools.bench.machine import cpu_seconds
from tools.bench.peers.socketio_wire import Figures, Pair
from tools.bench.running import BenchFailed
from tools.service import Service
from tools.throwaway import free_port

HOME = pathlib.Path(__file__).parents[3] / ".venv-bench"
PAIRS, IN_FLIGHT = 200, 8  # as in chat-a
PARTIES = 64  # as in session
WARM_UP_S = 3.0  # the peer opens Redis connections on demand
READY_S = 20.0
STOP_S = 10.0
MS = 1e-6  # milliseconds in a nanosecond


def program(name: str) -> pathlib.Path:
    """Return the path of a program in .venv-bench. Raises BenchFailed, with the fix, if it is not installed."""
    path = HOME / "bin" / name
    if not path.exists():
        raise BenchFailed("the peers and the profiler are not installed: run `make bench-install`, or use --no-peers")
    return path


@attrs.define(kw_only=True)
class ColocatedPeer:
    """A running peer."""

    name: str
    service: Service
    process: subprocess.Popen[bytes]
    port: int
    measure: Callable[["ColocatedPeer", float], Coroutine[Any, Any, dict[str, float]]]

    async def run(self, seconds: float) -> dict[str, float]:
        """Run the benchmark's load on the peer once; return its figures."""
        return await self.measure(self, seconds)

    def close(self) -> None:
        """Stop the peer."""
        self.process.terminate()
        try:
            self.process.wait(timeout=STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


async def _pairs_of(peer: ColocatedPeer, count: int) -> list[people.Pair]:
    """Create pairs with a running chat, for the peer's service."""
    connection = await asyncpg.connect(peer.service.database_url)
    try:
        return await people.pairs(connection, peer.service, count)
    finally:
        await connection.close()


async def _chat(peer: ColocatedPeer, seconds: float) -> dict[str, float]:
    """Run the load of chat-a."""
    guests = await _pairs_of(peer, PAIRS)
    figures = Figures()
    pairs = [
        await Pair.open(
            peer.port,
            session_id=guest.session_id,
            tokens=(guest.customer.token, guest.mitra.token),
            figures=figures,
            refill=True,
        )
        for guest in guests
    ]
    for pair in pairs:
        pair.customer.send(IN_FLIGHT)
    await asyncio.sleep(WARM_UP_S)
    figures.clear()
    used, began = _cpu(peer), time.perf_counter()
    await asyncio.sleep(seconds)
    took, used, stored, delivered = time.perf_counter() - began, _cpu(peer) - used, figures.acked, figures.delivered
    found = {
        "stored/s": stored / took,
        "CPU s per 1,000": used / max(1, stored) * 1000,
        "delivered p50 ms": percentile([float(ns) for ns in figures.delivery_ns], 0.5) * MS,
        "delivered p99 ms": percentile([float(ns) for ns in figures.delivery_ns], 0.99) * MS,
        "out of order %": 100 * figures.out_of_order / max(1, delivered),
    }
    for pair in pairs:
        pair.close()
    if figures.lost:
        raise BenchFailed(f"{peer.name}: {len(figures.lost)} sockets were lost, the first one by {figures.lost[0]}")
    return found


def _cpu(peer: ColocatedPeer) -> float:
    servers = peer.service.servers.pids
    return (
        cpu_seconds(peer.process.pid) + cpu_seconds(servers["postgres"], children=True) + cpu_seconds(servers["valkey"])
    )


async def _sessions(peer: ColocatedPeer, seconds: float) -> dict[str, float]:
    """Run the load of session."""
    pairs = await _pairs_of(peer, PARTIES)
    asked = [(f"/sessions/{pair.session_id}", person.token) for pair in pairs for person in (pair.customer, pair.mitra)]
    return await http.ask([peer.port], asked, seconds)


PEERS = {
    "socketio": ("python-socketio", "socketio_chat.py", _chat),
    "fastapi": ("FastAPI + SQLAlchemy", "fastapi_sessions.py", _sessions),
}


def start(name: str, service: Service) -> ColocatedPeer:
    """Start a peer on the service's servers and wait until it accepts connections. Raises BenchFailed."""
    shown, script, measure = PEERS[name]
    port = free_port()
    env = {
        **os.environ,
        "DATABASE_URL": service.database_url,
        "REDIS_URL": service.redis_url,
        "JWT_SECRETS": service.env["JWT_SECRETS"],
    }
    log = open(service.root / f"{name}.log", "ab")  # noqa: SIM115 - it is the child's
    command = [str(program("python")), str(pathlib.Path(__file__).with_name(script)), str(port)]
    process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    log.close()
    made = ColocatedPeer(name=shown, service=service, process=process, port=port, measure=measure)
    deadline = time.monotonic() + READY_S
    while process.poll() is None and time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=2):
                return made
        except urllib.error.HTTPError:
            return made
        except OSError:
            time.sleep(0.05)
    made.close()
    print((service.root / f"{name}.log").read_text()[-2000:], file=sys.stderr)
    raise BenchFailed(f"{shown} does not start")
