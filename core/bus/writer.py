"""The messages that a process publishes on one server: a bounded queue, one connection, a short timeout."""

import asyncio
import contextlib
import math
from collections import deque

import hiredis
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ResponseError

from core.bus.nodes import LOST, Node, Nodes
from core.telemetry import logs, metrics

QUEUE_SIZE = 50_000  # messages; when the queue is full the server is away, and the database has everything
DEADLINE_S = 1.0  # real seconds for a batch
AT_ONCE = 500  # messages in a batch

log = logs.get("bus")


class Writer:
    """Publishes on one server. Each server has its own, so that one that is frozen does not delay the others."""

    def __init__(self, nodes: Nodes, node: Node) -> None:
        self.queue: deque[tuple[str, bytes]] = deque()
        self.idle = asyncio.Event()
        self.idle.set()
        self._nodes = nodes
        self._node = node
        self._command = "SPUBLISH" if nodes.is_cluster else "PUBLISH"
        self._queued = asyncio.Event()
        self._connection: AbstractConnection | None = None

    def add(self, channel: str, data: bytes) -> None:
        """Queue a message, or drop it if there is no room."""
        if len(self.queue) >= QUEUE_SIZE:
            metrics.SIGNALS_DROPPED.inc()
            return
        self.queue.append((channel, data))
        self.idle.clear()
        self._queued.set()

    async def run(self) -> None:
        """Send queued messages in batches until cancelled."""
        try:
            while True:
                await self._queued.wait()
                batch = [self.queue.popleft() for _ in range(min(AT_ONCE, len(self.queue)))]
                if not self.queue:
                    self._queued.clear()
                await self._send(batch)
                if not self.queue:
                    self.idle.set()
        finally:
            await self._disconnect()

    async def _send(self, batch: list[tuple[str, bytes]]) -> None:
        """Send messages. Those that the server does not take are lost: their receivers look into the database."""
        taken, problem = 0, None
        try:
            async with asyncio.timeout(DEADLINE_S):
                connection = await self._connected()
                await connection.send_packed_command(self._packed(batch), check_health=False)
                for _ in batch:
                    taken += await self._was_taken(connection)
        except LOST as error:
            problem = error
        except Exception as error:
            log.exception("publishing on the bus failed")
            problem = error
        if problem is not None:
            await self._disconnect()
        if taken < len(batch):
            metrics.SIGNALS_DROPPED.inc(len(batch) - taken)
            self._nodes.look_soon()
        self._node.note(problem)

    def _packed(self, batch: list[tuple[str, bytes]]) -> bytes:
        return b"".join(
            hiredis.pack_command((self._command, *message))  # pyright: ignore[reportArgumentType] - any length
            for message in batch
        )

    async def _was_taken(self, connection: AbstractConnection) -> bool:
        """Read the answer to one command; a server refuses a channel that has moved to another."""
        try:
            await connection.read_response(disable_decoding=True, timeout=math.inf)
        except ResponseError:
            return False
        return True

    async def _connected(self) -> AbstractConnection:
        if self._connection is None:
            self._connection = self._node.client.connection_pool.make_connection()
            await self._connection.connect()
        return self._connection

    async def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(*LOST):
                await connection.disconnect(nowait=True)
