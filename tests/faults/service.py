"""A service behind bad networks: each process has its own proxies in front of PostgreSQL and Redis."""

import asyncio
import os
import signal
from collections.abc import Iterable

import attrs

from tests.faults.proxy import Mode, Proxy
from tests.stack import Stack
from tools.driving.device import Addresses
from tools.driving.service import TRIES
from tools.driving.throwaway import free_port

PORTS = {"api": ("PUBLIC_PORT", "INTERNAL_PORT"), "realtime": ("REALTIME_PORT",), "jobs": ("JOBS_PORT",)}


@attrs.frozen(kw_only=True)
class Node:
    """One process: its kind, its ports and its proxies."""

    key: str
    kind: str
    ports: dict[str, str]
    postgres: Proxy
    redis: Proxy

    @property
    def probe(self) -> int:
        """Return the port of the process's probes."""
        return int(self.ports[PORTS[self.kind][-1]])


class Service(Stack):
    """Several processes of each kind, each behind proxies. The first process of a kind has the kind as its key."""

    def __init__(self, *, scale: float = 1, counts: dict[str, int] | None = None, **env: str) -> None:
        super().__init__(scale=scale, only_database=True, **env)
        self.nodes: dict[str, Node] = {}
        for kind in PORTS:
            for n in range((counts or {}).get(kind, 1)):
                self._add(kind, kind if n == 0 else f"{kind}{n + 1}")
        try:
            for key in self.nodes:
                self.begin(key)
            for key in self.nodes:
                self.await_ready(key, tries=TRIES)
        except BaseException:  # no fixture could stop what is already running
            self._stop_all()
            raise

    def _add(self, kind: str, key: str) -> None:
        ports = {}
        for name in PORTS[kind]:
            own = self.ports[name.removesuffix("_PORT")] if key == kind else free_port()
            ports[name] = str(own)
        self.nodes[key] = Node(
            key=key,
            kind=kind,
            ports=ports,
            postgres=Proxy(self.database_url, knows_statements=True),
            redis=Proxy(self.redis_url),
        )

    def of(self, kind: str) -> list[Node]:
        """Return the processes of a kind."""
        return [node for node in self.nodes.values() if node.kind == kind]

    def begin(self, key: str) -> None:
        """Start a process without waiting for it."""
        node = self.nodes[key]
        super().start(
            node.kind, wait=False, key=key, DATABASE_URL=node.postgres.url, REDIS_URL=node.redis.url, **node.ports
        )

    def await_ready(self, key: str, *, tries: int = 0) -> None:
        """Wait until a process answers its probe; restart it up to `tries` times if it has exited."""
        node = self.nodes[key]
        self.wait_ready(node.kind, port=node.probe, key=key, tries=tries)

    def restart_cleanly(self, key: str) -> None:
        """Kill a process if it runs, and start it again with no parks."""
        self.kill(key)
        self.nodes[key].postgres.remove_parks()
        self.begin(key)
        self.await_ready(key)

    def freeze(self, key: str) -> None:
        """Stop a process with SIGSTOP until `thaw`."""
        os.kill(self.processes[key].pid, signal.SIGSTOP)

    def thaw(self, key: str) -> None:
        """Resume a frozen process."""
        os.kill(self.processes[key].pid, signal.SIGCONT)

    def at(self, n: int) -> Addresses:
        """Return the addresses for the n-th client: clients are spread over the processes."""
        api, realtime = self.of("api"), self.of("realtime")
        ports = api[n % len(api)].ports
        return Addresses(
            public=f"http://127.0.0.1:{ports['PUBLIC_PORT']}",
            internal=f"http://127.0.0.1:{ports['INTERNAL_PORT']}",
            realtime=f"ws://127.0.0.1:{realtime[n % len(realtime)].ports['REALTIME_PORT']}",
        )

    async def network(self, server: str, mode: Mode, keys: Iterable[str] | None = None) -> None:
        """Set the mode of the proxies (all, or those of `keys`) in front of `postgres` or `redis`."""
        for key in keys or self.nodes:
            await asyncio.to_thread(getattr(self.nodes[key], server).switch, mode)

    def close(self) -> None:
        """Stop everything, after resuming frozen processes and releasing held connections."""
        for key, node in self.nodes.items():
            for proxy in (node.postgres, node.redis):
                proxy.switch(Mode.PASS)
            if key in self.processes and self.processes[key].poll() is None:
                self.thaw(key)
        try:
            super().close()
        finally:
            for node in self.nodes.values():
                node.postgres.close()
                node.redis.close()
