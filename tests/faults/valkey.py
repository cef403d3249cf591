"""A Valkey cluster, and a master with replicas and sentinels, on free ports of this machine."""

import contextlib
from collections.abc import AsyncIterator

from core.bus.channels import slot_of
from tests.faults import valkey_servers
from tests.faults.valkey_servers import HOST, Servers, until
from tools.driving.throwaway import free_port

SERVICE, SLOTS = "sesi", 16384
NOTICED_MS = 1_000  # silence after which the others take a server for dead
FAILOVER_MS = 4_000  # sentinels wait twice as long before they replace the next master
MIGRATE_MS = 1_000
DATA_OPTIONS = ("--repl-diskless-sync-delay", "0")


class Cluster:
    """Three primaries, each with one replica."""

    def __init__(self, servers: Servers, ports: list[int]) -> None:
        self.servers = servers
        self.ports = ports
        self.primaries, self.replicas = ports[:3], ports[3:]

    @property
    def url(self) -> str:
        """The REDIS_URL of a service on this cluster."""
        return "redis+cluster://" + ",".join(f"{HOST}:{port}" for port in self.ports)

    def slots_of(self, number: int) -> tuple[int, int]:
        """Return the first and last slot that a primary, 0 to 2, has at the start."""
        return SLOTS * number // 3, SLOTS * (number + 1) // 3 - 1

    async def ranges(self, *, by: int) -> list[tuple[int, int, list[int]]]:
        """Return (first, last, ports of the primary and its replicas) of all slots as one server knows them."""
        answer = await self.servers.ask(by, "CLUSTER", "SLOTS")
        return [(first, last, [int(place[1]) for place in places]) for first, last, *places in answer]

    async def primary(self, channel: str) -> int:
        """Return the port of the primary that has a channel."""
        slot = slot_of(channel)
        return next(ports[0] for first, last, ports in await self.ranges(by=self.ports[0]) if first <= slot <= last)

    async def replica(self, primary: int) -> int:
        """Return the port of a primary's replica."""
        return next(ports[1] for _, _, ports in await self.ranges(by=primary) if ports[0] == primary)

    async def fail_over(self, primary: int) -> None:
        """Let the replica of a primary take its slots over."""
        await self.servers.ask(await self.replica(primary), "CLUSTER", "FAILOVER")

    async def replaced(self, primary: int) -> None:
        """Wait until another server has the slots of a primary."""
        survivor = next(port for port in self.ports if port != primary)

        async def done() -> bool:
            return all(ports[0] != primary for _, _, ports in await self.ranges(by=survivor))

        await until(done)

    async def lost(self, *dead: int) -> None:
        """Wait until the others know that the slots of dead servers are lost."""
        survivor = next(port for port in self.ports if port not in dead)

        async def done() -> bool:
            return (await self.servers.fields(survivor, "CLUSTER", "INFO"))["cluster_slots_fail"] != "0"

        await until(done)

    async def restart(self, port: int) -> None:
        """Start a killed server again; it joins the cluster by its own file."""
        self.servers.restart(port)

    async def move_slot(self, slot: int, *, to: int) -> None:
        """Move a slot with its keys to another primary, as an operator does who adds a server."""
        ask, ranges = self.servers.ask, await self.ranges(by=to)
        source = next(ports[0] for first, last, ports in ranges if first <= slot <= last)
        await ask(to, "CLUSTER", "SETSLOT", slot, "IMPORTING", await ask(source, "CLUSTER", "MYID"))
        await ask(source, "CLUSTER", "SETSLOT", slot, "MIGRATING", await ask(to, "CLUSTER", "MYID"))
        while keys := await ask(source, "CLUSTER", "GETKEYSINSLOT", slot, 100):
            await ask(source, "MIGRATE", HOST, to, "", 0, MIGRATE_MS, "REPLACE", "KEYS", *keys)
        await self._assign(slot, to=to, to_all={ports[0] for _, _, ports in ranges})

    async def give_slot(self, slot: int, *, to: int) -> None:
        """Move a slot without keys to another primary.

        The new owner imports it, so that it gets a newer epoch: otherwise it would give the slot back to the earlier
        owner because of a message that this one had sent before.
        """
        ask = self.servers.ask
        source = next(ports[0] for first, last, ports in await self.ranges(by=to) if first <= slot <= last)
        await ask(to, "CLUSTER", "SETSLOT", slot, "IMPORTING", await ask(source, "CLUSTER", "MYID"))
        await self._assign(slot, to=to, to_all=set(self.primaries))

    async def _assign(self, slot: int, *, to: int, to_all: set[int]) -> None:
        """Tell all primaries, the new owner first, who has a slot."""
        name = await self.servers.ask(to, "CLUSTER", "MYID")
        for port in (to, *(to_all - {to})):
            await self.servers.ask(port, "CLUSTER", "SETSLOT", slot, "NODE", name)

    async def join(self) -> None:
        """Make one cluster of the started servers."""
        ask = self.servers.ask
        names = {port: await ask(port, "CLUSTER", "MYID") for port in self.ports}
        for number, port in enumerate(self.primaries):
            await ask(port, "CLUSTER", "ADDSLOTSRANGE", *self.slots_of(number))
            await ask(port, "CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        for port in self.ports[1:]:
            await ask(port, "CLUSTER", "MEET", HOST, self.ports[0], self.ports[0] + 100)
        for primary, replica in zip(self.primaries, self.replicas, strict=True):

            async def replicates(primary: int = primary, replica: int = replica) -> bool:
                return bool(await ask(replica, "CLUSTER", "REPLICATE", names[primary]))

            await until(replicates)
        await self.ready()

    async def ready(self) -> None:
        """Wait until all servers see a whole cluster in which each primary has a replica."""
        for port in self.ports:

            async def whole(port: int = port) -> bool:
                found = await self.servers.fields(port, "CLUSTER", "INFO")
                if (found["cluster_state"], found["cluster_known_nodes"]) != ("ok", str(len(self.ports))):
                    return False
                if found["cluster_slots_ok"] != str(SLOTS):
                    return False
                replication = await self.servers.fields(port, "INFO", "replication")
                return (
                    replication["master_link_status"] == "up"
                    if replication["role"] == "slave"
                    else (replication["connected_slaves"] == "1")
                )

            await until(whole)


@contextlib.asynccontextmanager
async def cluster(*, noticed_ms: int = NOTICED_MS) -> AsyncIterator[Cluster]:
    """Yield a running cluster, whose servers take another for dead after `noticed_ms` of silence."""
    async with valkey_servers.running() as servers:
        made = Cluster(servers, [_port_with_bus() for _ in range(6)])
        for port in made.ports:
            servers.start(
                port, "--cluster-enabled", "yes", "--cluster-node-timeout", str(noticed_ms), "--cluster-port",
                str(port + 100), "--cluster-replica-validity-factor", "0", "--cluster-require-full-coverage", "no",
                *DATA_OPTIONS,
            )  # fmt: skip
        for port in made.ports:
            await servers.answers(port)
        await made.join()
        yield made


class Watched:
    """A master with two replicas, and three sentinels that watch them."""

    def __init__(self, servers: Servers, data: list[int], sentinels: list[int]) -> None:
        self.servers = servers
        self._data = data
        self._sentinels = sentinels

    @property
    def url(self) -> str:
        """The REDIS_URL of a service behind these sentinels."""
        return "redis+sentinel://" + ",".join(f"{HOST}:{port}" for port in self._sentinels) + f"/{SERVICE}"

    async def primary(self, _channel: str) -> int:
        """Return the master's port, which has every channel."""
        return await self.master()

    async def replaced(self, primary: int) -> None:
        """Wait until all sentinels name another master."""

        async def done() -> bool:
            return all([await self._master_by(port) != primary for port in self._sentinels])

        await until(done)

    async def restart(self, port: int) -> None:
        """Start a killed server again, as a replica."""
        self.servers.restart(port, *DATA_OPTIONS, "--replicaof", f"{HOST} {await self.master()}")

    async def master(self) -> int:
        """Return the master's port, as a sentinel names it."""
        return await self._master_by(self._sentinels[0])

    async def _master_by(self, sentinel: int) -> int:
        found = await self.servers.ask(sentinel, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)
        return int(found[1])

    async def ready(self) -> None:
        """Wait until all sentinels know the same master, and its replicas follow it."""

        async def whole() -> bool:
            masters = {await self._master_by(port) for port in self._sentinels}
            if len(masters) > 1:
                return False
            found = await self.servers.fields(masters.pop(), "INFO", "replication")
            states = [found.get(f"slave{n}", "") for n in range(len(self._data) - 1)]
            return all("online" in state for state in states)

        await until(whole)

    async def fail_over(self, _primary: int = 0) -> None:
        """Have the sentinels promote a replica although the master works."""
        await self.servers.ask(self._sentinels[0], "SENTINEL", "FAILOVER", SERVICE)


@contextlib.asynccontextmanager
async def sentinels(*, noticed_ms: int = NOTICED_MS) -> AsyncIterator[Watched]:
    """Yield a master with replicas, and sentinels that take it for dead after `noticed_ms` of silence."""
    async with valkey_servers.running() as servers:
        master, *replicas = data = [free_port() for _ in range(3)]
        for port in data:
            following = [] if port == master else ["--replicaof", f"{HOST} {master}"]
            servers.start(port, *DATA_OPTIONS, *following)
        for port in data:
            await servers.answers(port)
        ports = [free_port() for _ in range(3)]
        for port in ports:
            path = servers.config_file(
                port, f"sentinel monitor {SERVICE} {HOST} {master} 2",
                f"sentinel down-after-milliseconds {SERVICE} {noticed_ms}",
                f"sentinel failover-timeout {SERVICE} {FAILOVER_MS}",
            )  # fmt: skip
            servers.start(port, path, "--sentinel")
        for port in ports:

            async def knows_all(port: int = port) -> bool:
                found = (await servers.ask(port, "INFO", "sentinel"))["master0"]
                return (found["slaves"], found["sentinels"]) == (len(replicas), len(ports))

            await until(knows_all)
        yield Watched(servers, data, ports)


def _port_with_bus() -> int:
    """Return a free port whose cluster port is valid too."""
    while (port := free_port()) > 65_000:
        pass
    return port
