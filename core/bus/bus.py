"""The bus: Redis publish/subscribe, which wakes other processes (docs/architecture.md#signals).

Redis may be empty, frozen or away without any loss of data. Messages are published after the commit and outside the
request. A message that Redis does not take is dropped, because its receivers find the truth in the database
(docs/invariants.md#rule-5).

redis-py finds the servers: its Sentinel names the master, its RedisCluster the servers of all slots
(docs/decisions/0021-what-redis-py-does-for-the-bus.md). Sentinels do not tell of a planned failover, so they are asked
each LOOK_S. A server of a cluster refuses the messages and ends the subscriptions of a slot that has left it, so a
cluster is asked each CALM_S. Both are asked at once when a server fails.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from typing import Any

import redis.asyncio as redis_asyncio
from redis.asyncio.cluster import ClusterNode, RedisCluster
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import NoBackoff
from redis.exceptions import RedisClusterException

from core.base.clock import monotonic, real_sleep
from core.bus import channels
from core.bus.server import LOST, BusServer
from core.settings import redis_url
from core.settings.redis_url import Address, Layout
from core.telemetry import logs, metrics

SLOTS = 16384
DEADLINE_S = 1.0
LOOK_S = 1.0
CALM_S = 10.0  # for a cluster all of whose servers take commands
LOOK_AGAIN_S = 0.25  # at least this long between two looks
ANSWER_S = 0.5  # for one sentinel or server
log = logs.get("bus")


class NoServer(OSError):
    """No server is known that has this channel or key."""


class Bus:
    """The servers that take writes, by slot, and what is published there. Unless they are a cluster, all is slot 0."""

    def __init__(self, url: str) -> None:
        self._servers = redis_url.read(url)
        self.is_cluster = self._servers.layout is Layout.CLUSTER
        self._owners: dict[int, BusServer] = {}
        self._places: dict[int, Address] = {}  # of the owners
        self._present: frozenset[BusServer] = frozenset()
        self._look = asyncio.Event()
        self._watchers: list[Callable[[], None]] = []
        self._sentinel: Sentinel | None = None
        self._cluster: RedisCluster | None = None
        if self._servers.layout is Layout.SINGLE:
            client = redis_asyncio.Redis.from_url(url, **_limits(DEADLINE_S))
            self._owners = {0: BusServer(client, self.look_soon, address=None, sharded=False)}
            self._present = frozenset(self._owners.values())
        elif self._servers.layout is Layout.SENTINEL:
            limits = _limits(ANSWER_S, answer_s=ANSWER_S)
            self._sentinel = Sentinel(self._servers.seeds, sentinel_kwargs={**self._servers.sentinel_options, **limits})

    # -- the servers

    def of(self, name: str) -> BusServer | None:
        """Return the server that has a channel or key, or None while it is not known."""
        return self._owners.get(self.slot_of(name))

    def slot_of(self, name: str) -> int:
        """Return the slot of a channel or key."""
        return channels.slot_of(name) if self.is_cluster else 0

    def client_of(self, name: str) -> redis_asyncio.Redis:
        """Return a client for short calls about a key, whose timeout the caller sets. Raises NoServer."""
        server = self.of(name)
        if server is None:
            self.look_soon()
            raise NoServer(name)
        return server.client

    def present(self) -> frozenset[BusServer]:
        """Return the servers that have slots."""
        return self._present

    @property
    def degraded(self) -> bool:
        """Whether messages may be lost, because a server does not take commands or a slot has no server."""
        whole = len(self._owners) == (SLOTS if self.is_cluster else 1)
        return not (whole and all(server.well for server in self._present))

    def watch(self, changed: Callable[[], None]) -> None:
        """Call `changed` whenever a slot has another server."""
        self._watchers.append(changed)

    def look_soon(self) -> None:
        """Ask again which server has what, because one has failed or refused a command."""
        self._look.set()

    async def run(self) -> None:
        """Follow failovers until cancelled."""
        task = asyncio.current_task()
        while task is not None and not task.cancelling():  # on Python 3.11 redis-py's timeouts may swallow it
            began = monotonic()
            await self.find()
            await real_sleep(max(0.0, LOOK_AGAIN_S - (monotonic() - began)))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CALM_S if self.is_cluster and not self.degraded else LOOK_S):
                    await self._look.wait()
            self._look.clear()

    async def find(self) -> None:
        """Look once which server has what. Without an answer, all stays as it was."""
        try:
            if self._sentinel is not None:
                await self._take({0: Address(*await self._sentinel.discover_master(self._servers.service))})
            elif self.is_cluster:
                await self._take(await self._ask_cluster())
        except (*LOST, RedisClusterException) as error:
            log.debug("no answer about the servers of the bus", problem=repr(error))
        except Exception:
            log.exception("asking for the servers of the bus failed")

    async def _ask_cluster(self) -> dict[int, Address]:
        """Return where the slots are, as the first server knows them that answers."""
        if self._cluster is None:
            self._cluster = RedisCluster(
                startup_nodes=[ClusterNode(*seed) for seed in self._servers.seeds],
                require_full_coverage=False,
                **{**self._servers.options, **_limits(ANSWER_S, answer_s=ANSWER_S)},
            )
        manager = self._cluster.nodes_manager
        try:
            await manager.initialize()
        except BaseException:
            await self._forget_cluster()  # it asks only the servers of its last answer; begin with the seeds again
            raise
        return {slot: Address(owner.host, int(owner.port)) for slot, (owner, *_) in manager.slots_cache.items()}

    async def _forget_cluster(self) -> None:
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            await cluster.aclose()

    async def _take(self, places: dict[int, Address]) -> None:
        """Adopt a map of slots."""
        if places == self._places:
            return
        self._places = places
        known = {server.address: server for server in self._present}
        servers = {address: known.get(address) or self._new_server(address) for address in set(places.values())}
        self._owners = {slot: servers[address] for slot, address in places.items()}
        before, self._present = self._present, frozenset(servers.values())
        log.info("bus servers", servers=sorted(str(address) for address in servers))
        for changed in self._watchers:
            changed()
        for server in before - self._present:
            await server.close()

    def _new_server(self, address: Address) -> BusServer:
        options = {**self._servers.options, **_limits(DEADLINE_S)}
        client = redis_asyncio.Redis(host=address.host, port=address.port, **options)
        return BusServer(client, self.look_soon, address=address, sharded=self.is_cluster)

    # -- the messages

    def publish(self, messages: Iterable[tuple[str, bytes]]) -> None:
        """Queue messages, as (channel, data), without waiting; drop those without a server or without room."""
        for channel, data in messages:
            server = self.of(channel)
            if server is None:
                metrics.SIGNALS_DROPPED.inc()
                self.look_soon()
            else:
                server.publish(channel, data)

    async def drain(self) -> None:
        """Wait until all queued messages have been sent, DEADLINE_S at most."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DEADLINE_S):
                for server in self._present:
                    await server.idle()

    async def ping(self) -> bool:
        """Return whether all servers answer within DEADLINE_S."""
        async with asyncio.TaskGroup() as group:
            for server in self._present:
                group.create_task(server.ping())
        return not self.degraded

    async def close(self) -> None:
        """Close all connections."""
        for server in self._present:
            await server.close()
        with contextlib.suppress(*LOST):
            async with asyncio.timeout(DEADLINE_S):
                if self._sentinel is not None:
                    await self._sentinel.aclose()
                await self._forget_cluster()


def _limits(connect_s: float, *, answer_s: float | None = None) -> dict[str, Any]:
    """Return options of a client. Connecting fails after `connect_s`, a command after `answer_s` or never."""
    return {
        "socket_timeout": answer_s,
        "socket_connect_timeout": connect_s,
        "retry": Retry(NoBackoff(), 0),
        "protocol": 2,  # messages of a subscription are replies like others
    }
