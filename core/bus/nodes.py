"""The servers behind REDIS_URL that take writes now, and which of them has which channel or key.

A single server never changes. Sentinels and the nodes of a cluster are asked each LOOK_S, and at once when a server
fails, because neither tells its clients of every failover: after a planned one they stay connected to the old master.

Callers of a client set the timeouts. On Python 3.11 the client's own costs a task for each command, and that task may
swallow the cancellation of its caller.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

import redis.asyncio as redis_asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from core.base.clock import monotonic, real_sleep
from core.bus import channels
from core.settings.redis_url import Address, Layout, RedisServers
from core.telemetry import logs

SLOTS = 16384
LOOK_S = 1.0
LOOK_AGAIN_S = 0.1  # at least this long between two looks
ANSWER_S = 0.5  # for one sentinel or node
LOST = (RedisError, OSError, TimeoutError)
log = logs.get("bus")
# The slots of each server that takes writes, as (first, last, address).
SlotMap = tuple[tuple[int, int, Address], ...]


class NoServer(OSError):
    """No server is known that has this channel or key."""


class Node:
    """One server. `well` is whether it took the last commands.

    `client` is for short calls, whose timeout the caller sets.
    """

    def __init__(self, servers: RedisServers, address: Address | None, *, timeout_s: float) -> None:
        self.address = address
        self.client = _client(servers, address, timeout_s=timeout_s)
        self.well = True

    def note(self, problem: object = None) -> None:
        """Note that the server took commands, or why it did not. A change is logged."""
        well = problem is None
        if well != self.well:
            server = {} if self.address is None else {"server": str(self.address)}
            log.warning("bus", available=well, **server, **({} if well else {"problem": repr(problem)}))
        self.well = well

    async def close(self) -> None:
        """Close the connections."""
        with contextlib.suppress(*LOST):
            async with asyncio.timeout(ANSWER_S):
                await self.client.aclose()


class Nodes:
    """The servers that take writes, by slot."""

    def __init__(self, servers: RedisServers, *, timeout_s: float) -> None:
        """Connecting to a node fails after `timeout_s` real seconds."""
        self.is_cluster = servers.layout is Layout.CLUSTER
        self._servers = servers
        self._timeout_s = timeout_s
        self._nodes: dict[Address | None, Node] = {}
        self._owners: dict[int, Node] = {}
        self._slots: SlotMap = ()
        self._present: frozenset[Node] = frozenset()
        self._addresses = set(servers.seeds)
        self._gone: set[Node] = set()  # without slots; the next look closes them
        self._asked: dict[Address, redis_asyncio.Redis] = {}
        self._look = asyncio.Event()
        self._watchers: list[Callable[[], None]] = []
        if servers.layout is Layout.SINGLE:
            self._owners = {0: self._node(None)}
            self._present = frozenset(self._owners.values())

    def of(self, name: str) -> Node | None:
        """Return the server that has a channel or key, or None while it is not known."""
        return self._owners.get(self.slot_of(name))

    def slot_of(self, name: str) -> int:
        """Return the slot of a channel or key; it is 0 unless the servers are a cluster."""
        return channels.slot_of(name) if self.is_cluster else 0

    def client_of(self, name: str) -> redis_asyncio.Redis:
        """Return a client of the server that has a key. Raises NoServer."""
        node = self.of(name)
        if node is None:
            self.look_soon()
            raise NoServer(name)
        return node.client

    def present(self) -> frozenset[Node]:
        """Return the servers that have slots."""
        return self._present

    @property
    def degraded(self) -> bool:
        """Whether a server does not take commands, or a slot has no server."""
        whole = len(self._owners) == (SLOTS if self.is_cluster else 1)
        return not (whole and all(node.well for node in self._present))

    def watch(self, changed: Callable[[], None]) -> None:
        """Call `changed` whenever a slot has another server."""
        self._watchers.append(changed)

    def look_soon(self) -> None:
        """Ask again which server has what, because one has failed or refused a command."""
        self._look.set()

    async def find(self) -> None:
        """Look once, so that the first commands find a server."""
        if self._servers.layout is not Layout.SINGLE:
            await self._look_once()

    async def run(self) -> None:
        """Follow failovers until cancelled."""
        if self._servers.layout is Layout.SINGLE:
            return
        while True:
            began = monotonic()
            try:
                await self._look_once()
            except Exception:
                log.exception("asking for the servers of the bus failed")
            await real_sleep(max(0.0, LOOK_AGAIN_S - (monotonic() - began)))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._look.wait()
            self._look.clear()

    async def close(self) -> None:
        """Close all connections."""
        for node in (*self._nodes.values(), *self._gone):
            await node.close()
        for client in self._asked.values():
            with contextlib.suppress(*LOST):
                async with asyncio.timeout(ANSWER_S):
                    await client.aclose()

    # -- asking

    async def _look_once(self) -> None:
        while self._gone:
            await self._gone.pop().close()
        if self.is_cluster:
            answers = [answer for answer in await self._ask_all(self._slots_by) if answer is not None]
            slots = _most_frequent(slots for slots, _ in answers)
            if slots is not None:
                self._addresses = set(self._servers.seeds).union(*(nodes for _, nodes in answers))
                self._take(slots)
        else:
            master = _most_frequent(await self._ask_all(self._master_by))
            if master is not None:
                self._take(((0, 0, master),))

    async def _ask_all(self, ask: Callable[[Address], Coroutine[Any, Any, Any]]) -> list[Any]:
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(ask(address)) for address in sorted(self._addresses)]
        return [task.result() for task in asked]

    async def _slots_by(self, address: Address) -> tuple[SlotMap, frozenset[Address]] | None:
        """Return the slots and the addresses of all nodes as one node knows them, or None if it does not answer."""
        answer = await self._answer(address, _client, "CLUSTER", "SLOTS")
        if not answer:
            return None
        slots, nodes = [], set()
        for first, last, *places in answer:
            members = [Address((place[0] or address.host.encode()).decode(), int(place[1])) for place in places]
            slots.append((int(first), int(last), members[0]))
            nodes.update(members)
        return tuple(sorted(slots)), frozenset(nodes)

    async def _master_by(self, address: Address) -> Address | None:
        """Return what one sentinel says, or None if it does not answer or does not know the service."""
        name = self._servers.service
        answer = await self._answer(address, _sentinel, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", name)
        return Address(answer[0].decode(), int(answer[1])) if answer else None

    async def _answer(self, address: Address, client: Callable[..., redis_asyncio.Redis], *command: str) -> Any:
        if address not in self._asked:
            self._asked[address] = client(self._servers, address, timeout_s=ANSWER_S)
        connection = None
        pool = self._asked[address].connection_pool
        try:
            async with asyncio.timeout(ANSWER_S):
                connection = await pool.get_connection()
                await connection.send_command(*command)
                return await connection.read_response()
        except LOST:
            if connection is not None:
                await connection.disconnect(nowait=True)
            return None
        finally:
            if connection is not None:
                await pool.release(connection)

    def _take(self, slots: SlotMap) -> None:
        """Adopt a map of slots."""
        if slots == self._slots:
            return
        self._slots = slots
        self._owners = {slot: self._node(address) for first, last, address in slots for slot in range(first, last + 1)}
        before, self._present = self._present, frozenset(self._owners.values())
        log.info("bus servers", servers=sorted(str(node.address) for node in self._present))
        for changed in self._watchers:
            changed()
        for node in before - self._present:
            self._nodes.pop(node.address, None)
            self._gone.add(node)

    def _node(self, address: Address | None) -> Node:
        if address not in self._nodes:
            self._nodes[address] = Node(self._servers, address, timeout_s=self._timeout_s)
        return self._nodes[address]


def _most_frequent(answers: Iterable[Any]) -> Any:
    """Return the most frequent answer; the majority outvotes a node that lost its network. None: no answer."""
    counted = Counter(answer for answer in answers if answer is not None)
    return counted.most_common(1)[0][0] if counted else None


def _client(servers: RedisServers, address: Address | None, *, timeout_s: float) -> redis_asyncio.Redis:
    """Return a client of one data server; None: the only one. Connecting fails after `timeout_s`, a call never."""
    if address is None:
        return redis_asyncio.Redis.from_url(servers.url, **_limits(timeout_s))
    return redis_asyncio.Redis(host=address.host, port=address.port, **servers.options, **_limits(timeout_s))


def _sentinel(servers: RedisServers, address: Address, *, timeout_s: float) -> redis_asyncio.Redis:
    """Return a client of a sentinel. Connecting fails after `timeout_s`, a call never."""
    return redis_asyncio.Redis(host=address.host, port=address.port, **servers.sentinel_options, **_limits(timeout_s))


def _limits(timeout_s: float) -> dict[str, Any]:
    return {
        "socket_timeout": None,
        "socket_connect_timeout": timeout_s,
        "retry": Retry(NoBackoff(), 0),
        "protocol": 2,  # messages of a subscription are replies like others
    }
