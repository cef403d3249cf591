"""Faults of Valkey, as a master with sentinels or as a cluster, under a service with two realtime processes."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Callable, Mapping

import attrs

from core.bus import channels
from tests.faults import valkey
from tests.faults.failover.load import Load
from tests.faults.valkey import Cluster, Watched
from tests.ha.measure import measure
from tests.ha.report import Outcome
from tests.stack import Stack, World
from tools.driving.device import Device
from tools.driving.throwaway import free_port

ENGINE = "Valkey"
SENTINELS, CLUSTER = "sentinels", "cluster"
NOTICED_MS = 5_000  # many deployments set this; Sentinel's default is 30 s, a cluster's 15 s

# Begins with the fault of a primary and ends with its repair.
Fault = Callable[..., contextlib.AbstractAsyncContextManager[None]]


@contextlib.asynccontextmanager
async def failed_over(engine: Cluster | Watched, primary: int) -> AsyncIterator[None]:
    """Replace the primary although it works."""
    await engine.fail_over(primary)
    await engine.replaced(primary)
    yield


@contextlib.asynccontextmanager
async def killed(engine: Cluster | Watched, primary: int) -> AsyncIterator[None]:
    """Kill the primary."""
    engine.servers.send(primary, signal.SIGKILL)
    await engine.replaced(primary)
    yield
    await engine.restart(primary)


@contextlib.asynccontextmanager
async def frozen(engine: Cluster | Watched, primary: int) -> AsyncIterator[None]:
    """Freeze the primary: connections stay open, nothing answers."""
    engine.servers.send(primary, signal.SIGSTOP)
    await engine.replaced(primary)
    yield
    engine.servers.send(primary, signal.SIGCONT)


@contextlib.asynccontextmanager
async def emptied(cluster: Cluster, primary: int) -> AsyncIterator[None]:
    """Move all slots of our channels that the primary has to another one, and back."""
    ranges = await cluster.ranges(by=primary)
    other = next(ports[0] for _, _, ports in ranges if ports[0] != primary)
    ours = {channels.slot_of(f"sesi:{{{tag}}}") for tag in range(channels.TAGS)}
    moved = [slot for slot in ours if any(a <= slot <= b for a, b, ports in ranges if ports[0] == primary)]
    for slot in moved:
        await cluster.move_slot(slot, to=other)
    yield
    for slot in moved:
        await cluster.move_slot(slot, to=primary)


@contextlib.asynccontextmanager
async def lost_with_replica(cluster: Cluster, primary: int) -> AsyncIterator[None]:
    """Kill the primary and its replica, so that a third of the slots has no server."""
    dead = await cluster.replica(primary), primary
    for port in dead:
        cluster.servers.send(port, signal.SIGKILL)
    await cluster.lost(*dead)
    yield
    for port in dead:
        await cluster.restart(port)


BOTH: Mapping[str, Fault] = {
    "planned failover": failed_over,
    "primary killed (SIGKILL)": killed,
    "primary frozen (SIGSTOP)": frozen,
}
FAULTS: Mapping[str, Mapping[str, Fault]] = {
    SENTINELS: BOTH,
    CLUSTER: {**BOTH, "slots moved": emptied, "primary and its replica killed": lost_with_replica},
}


class TwoHubs(World):
    """Mitras connect to the second realtime process, so all that the parties of a chat see crosses the bus."""

    async def mitra(self, name: str = "Ayu", *, online: bool = True) -> Device:
        """Create a mitra."""
        made = await super().mitra(name, online=online)
        made.addresses = attrs.evolve(made.addresses, realtime=f"ws://127.0.0.1:{self.stack.ports['REALTIME2']}")
        return made


class Deployment:
    """A service on a Valkey cluster or behind sentinels. `connection` is one of FAULTS."""

    def __init__(self, connection: str, engine: Cluster | Watched) -> None:
        self._connection, self._engine = connection, engine
        self.stack = Stack(only_database=True, REDIS_URL=engine.url)
        try:
            self.stack.start_all()
            port = self.stack.ports["REALTIME2"] = free_port()
            self.stack.start("realtime", key="realtime2", REALTIME_PORT=str(port))
            self.stack.wait_ready("realtime", key="realtime2", port=port)
        except BaseException:
            self.stack.close()
            raise

    async def measure(self, name: str) -> Outcome:
        """Let a fault happen under load to the primary that has the channel of a chat."""
        repairs = contextlib.AsyncExitStack()

        async def happen(load: Load) -> None:
            primary = await self._engine.primary(channels.of_session(load.sessions[0]))
            await repairs.enter_async_context(FAULTS[self._connection][name](self._engine, primary))

        async def repaired() -> None:
            await repairs.aclose()
            await self._engine.ready()

        return await measure(
            TwoHubs(self.stack), happen, repaired=repaired, engine=ENGINE, name=name, connection=self._connection
        )


@contextlib.asynccontextmanager
async def deployed(connection: str, *, noticed_ms: int = valkey.NOTICED_MS) -> AsyncIterator[Deployment]:
    """Run a service whose servers take another for dead after `noticed_ms` of silence."""
    engines = valkey.sentinels if connection == SENTINELS else valkey.cluster
    async with engines(noticed_ms=noticed_ms) as engine:
        made = await asyncio.to_thread(Deployment, connection, engine)
        try:
            yield made
        finally:
            await asyncio.to_thread(made.stack.close)


def _noticed_ms(*, quick: bool) -> int:
    return valkey.NOTICED_MS if quick else NOTICED_MS


def note(*, quick: bool) -> str:
    """Return how Valkey is set up."""
    noticed_ms = _noticed_ms(quick=quick)
    return (
        f"Valkey: a master with two replicas and three sentinels (`down-after-milliseconds {noticed_ms}`), or three "
        f"primaries with a replica each (`cluster-node-timeout {noticed_ms}`, `cluster-require-full-coverage no`). The "
        "parties of each chat were connected to different realtime processes, and the faults met the server that had "
        "the channel of a chat."
    )


async def run(*, quick: bool) -> AsyncIterator[Outcome]:
    """Yield the outcome of each fault; `quick` has the servers notice a dead one sooner."""
    for connection, faults in FAULTS.items():
        async with deployed(connection, noticed_ms=_noticed_ms(quick=quick)) as deployment:
            for name in faults:
                yield await deployment.measure(name)
