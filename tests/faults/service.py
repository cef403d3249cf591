"""A service behind bad networks: each process has proxies of its own in front of PostgreSQL and Redis."""

import asyncio
import os
import signal
from collections.abc import Iterable

import attrs

from tests.faults.proxy import Mode, Proxy
from tests.stack import Stack
from tools.client import Addresses
from tools.service import TRIES
from tools.throwaway import free_port

PORTS = {"api": ("PUBLIC_PORT", "INTERNAL_PORT"), "realtime": ("REALTIME_PORT",), "jobs": ("JOBS_PORT",)}


@attrs.frozen(kw_only=True)
class Node:
    """A process: its kind, its ports, its proxies."""

    key: str
    kind: str
    ports: dict[str, str]
    postgres: Proxy
    redis: Proxy

    @property
    def probe(self) -> int:
        """The port of its probes."""
        return int(self.ports[PORTS[self.kind][-1]])


class Service(Stack):
    """Many processes of each kind, each behind proxies. The first of each kind has the kind's name as its key."""

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
        except BaseException:  # nobody else could stop what runs already
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
        """The processes of a kind."""
        return [node for node in self.nodes.values() if node.kind == kind]

    def begin(self, key: str) -> None:
        """Start a process, without waiting for it."""
        node = self.nodes[key]
        super().start(
            node.kind, wait=False, key=key, DATABASE_URL=node.postgres.url, REDIS_URL=node.redis.url, **node.ports
        )

    def await_ready(self, key: str, *, tries: int = 0) -> None:
        """Wait until a process answers its probe; one that has ended is started again so many times."""
        node = self.nodes[key]
        self.wait_ready(node.kind, port=node.probe, key=key, tries=tries)

    def revive(self, key: str) -> None:
        """Kill a process, if it lives, and start it again with nothing armed."""
        self.kill(key)
        self.nodes[key].postgres.forget_parks()
        self.begin(key)
        self.await_ready(key)

    def freeze(self, key: str) -> None:
        """Let a process do nothing until `thaw`."""
        os.kill(self.processes[key].pid, signal.SIGSTOP)

    def thaw(self, key: str) -> None:
        """Let a frozen process go on."""
        os.kill(self.processes[key].pid, signal.SIGCONT)

    def at(self, n: int) -> Addresses:
        """The addresses that the n-th client uses: clients are spread over the processes."""
        api, realtime = self.of("api"), self.of("realtime")
        ports = api[n % len(api)].ports
        return Addresses(
            public=f"http://127.0.0.1:{ports['PUBLIC_PORT']}",
            internal=f"http://127.0.0.1:{ports['INTERNAL_PORT']}",
            realtime=f"ws://127.0.0.1:{realtime[n % len(realtime)].ports['REALTIME_PORT']}",
        )

    async def network(self, server: str, mode: Mode, keys: Iterable[str] | None = None) -> None:
        """Switch the way of processes (all of them) to a server, `postgres` or `redis`."""
        for key in keys or self.nodes:
            await asyncio.to_thread(getattr(self.nodes[key], server).switch, mode)

    def close(self) -> None:
        """Stop everything; whoever is frozen is thawed, whatever hangs is let go."""
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
