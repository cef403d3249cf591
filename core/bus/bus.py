"""The bus: Redis publish/subscribe, which wakes other processes (docs/architecture.md#signals).

Redis may be empty, frozen or away without any loss of data. Messages are published after the commit and outside the
request: a bounded queue, one writer, a short timeout. A message that Redis does not take is dropped, because its
receivers find the truth in the database (docs/invariants.md#rule-5).
"""

import asyncio
import contextlib
import math
from collections import deque
from collections.abc import Callable, Iterable

import hiredis
import redis.asyncio as redis_asyncio
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ResponseError

from core.base import logs, metrics, redis_url
from core.bus.link import Handler
from core.bus.nodes import LOST, Node, Nodes, NoServer
from core.bus.subscription import Subscription

QUEUE_SIZE = 50_000  # messages; when the queue is full Redis is away, and the database has everything
DEADLINE_S = 1.0
AT_ONCE = 500  # messages

log = logs.get("bus")


class Bus:
    """Publishes and receives messages over Redis."""

    def __init__(self, url: str) -> None:
        self.nodes = Nodes(redis_url.read(url), timeout_s=DEADLINE_S)
        self._queue: deque[tuple[str, bytes]] = deque()
        self._queued = asyncio.Event()
        self._sent = asyncio.Event()
        self._sent.set()
        self._connections: dict[Node, AbstractConnection] = {}
        self.degraded = False

    def client_of(self, key: str) -> redis_asyncio.Redis:
        """Return a client for short calls about a key, which fail after DEADLINE_S. Raises NoServer."""
        return self.nodes.client_of(key)

    def subscription(self, handle: Handler, resubscribed: Callable[[], None], *channels: str) -> Subscription:
        """Return a new set of channels, to be run; each of their messages is passed to `handle`.

        `resubscribed` is called at each new subscription to a server: earlier messages may have been missed.
        """
        made = Subscription(self.nodes, handle, resubscribed)
        made.add(channels)
        return made

    def publish(self, messages: Iterable[tuple[str, bytes]]) -> None:
        """Queue messages, as (channel, data), without waiting; drop those that the queue has no room for."""
        for message in messages:
            if len(self._queue) >= QUEUE_SIZE:
                metrics.SIGNALS_DROPPED.inc()
            else:
                self._queue.append(message)
        if self._queue:
            self._sent.clear()
            self._queued.set()

    async def run(self) -> None:
        """Follow the servers and send queued messages until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.nodes.run())
            group.create_task(self._write())

    async def _write(self) -> None:
        """Send queued messages in batches."""
        while True:
            await self._queued.wait()
            batch = [self._queue.popleft() for _ in range(min(AT_ONCE, len(self._queue)))]
            if not self._queue:
                self._queued.clear()
            await self._send_all(batch)
            if not self._queue:
                self._sent.set()

    async def _send_all(self, batch: list[tuple[str, bytes]]) -> None:
        by_node: dict[Node | None, list[bytes]] = {}
        command = "SPUBLISH" if self.nodes.is_cluster else "PUBLISH"
        for channel, data in batch:
            packed = hiredis.pack_command((command, channel, data))  # pyright: ignore[reportArgumentType] - any length
            by_node.setdefault(self.nodes.of(channel), []).append(packed)
        async with asyncio.TaskGroup() as group:
            sends = [group.create_task(self._send(node, commands)) for node, commands in by_node.items()]
        self._healthy(all(send.result() for send in sends))

    async def _send(self, node: Node | None, commands: list[bytes]) -> bool:
        """Send commands to one server and return whether it took all of them."""
        taken = 0
        try:
            if node is None:
                raise NoServer
            async with asyncio.timeout(DEADLINE_S):
                connection = await self._connection(node)
                await connection.send_packed_command(b"".join(commands), check_health=False)
                for _ in commands:
                    taken += await self._was_taken(connection)
        except Exception as error:
            if not isinstance(error, LOST):
                log.exception("publishing on the bus failed")
            await self._disconnect(node)
        if taken < len(commands):
            metrics.SIGNALS_DROPPED.inc(len(commands) - taken)
            self.nodes.look_soon()
        return taken == len(commands)

    async def _was_taken(self, connection: AbstractConnection) -> bool:
        """Read the answer to one command; a server refuses a channel that has moved to another."""
        try:
            await connection.read_response(disable_decoding=True, timeout=math.inf)
        except ResponseError:
            return False
        return True

    async def _connection(self, node: Node) -> AbstractConnection:
        for other in set(self._connections) - self.nodes.present():
            await self._disconnect(other)
        connection = self._connections.get(node)
        if connection is None:
            connection = self._connections[node] = node.client.connection_pool.make_connection()
            await connection.connect()
        return connection

    async def _disconnect(self, node: Node | None) -> None:
        connection = self._connections.pop(node, None) if node is not None else None
        if connection is not None:
            with contextlib.suppress(*LOST):
                await connection.disconnect(nowait=True)

    def _healthy(self, well: bool) -> None:
        if self.degraded == well:
            log.warning("bus", available=well)
        self.degraded = not well

    async def drain(self) -> None:
        """Wait until all queued messages have been sent, DEADLINE_S at most."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DEADLINE_S):
                await self._sent.wait()

    async def ping(self) -> bool:
        """Return whether Redis answers within DEADLINE_S."""
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(self._answers(node)) for node in self.nodes.present()]
        self._healthy(bool(asked) and all(task.result() for task in asked))
        return not self.degraded

    async def _answers(self, node: Node) -> bool:
        try:
            async with asyncio.timeout(DEADLINE_S):
                await node.client.ping()
        except LOST:
            self.nodes.look_soon()
            return False
        return True

    async def close(self) -> None:
        """Close the writer's connections."""
        for node in list(self._connections):
            await self._disconnect(node)
        await self.nodes.close()
