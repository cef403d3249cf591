"""One server of the bus: a client for short calls, and the messages that this process publishes there.

The messages wait in a bounded queue and are sent in batches, over one connection, with a short timeout. Each server has
its own queue, so that one that is frozen does not delay the others. redis-py's own pipeline takes three times the
processor time for a message (docs/decisions/0021-what-redis-py-does-for-the-bus.md).

Callers of the client set the timeouts. On Python 3.11 the client's own costs a task for each command, and that task may
swallow the cancellation of its caller.
"""

import asyncio
import contextlib
import math
from collections import deque
from collections.abc import Callable, Sequence

import hiredis
import redis.asyncio as redis_asyncio
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import RedisError, ResponseError

from core.settings.redis_url import Address
from core.telemetry import logs, metrics

QUEUE_SIZE = 50_000  # messages; when the queue is full the server is away, and the database has everything
DEADLINE_S = 1.0  # real seconds for a batch, or for an answer to a ping
AT_ONCE = 500  # messages in a batch
CLOSE_S = 0.5  # real seconds
LOST = (RedisError, OSError, TimeoutError)
log = logs.get("bus")


class BusServer:
    """One server. `well` is whether it took the last commands.

    `look_soon` asks for the servers again, because this one has failed or refused a command. `sharded` means that it is
    a part of a cluster.
    """

    def __init__(
        self, client: redis_asyncio.Redis, look_soon: Callable[[], None], *, address: Address | None, sharded: bool
    ) -> None:
        self.address = address
        self.client = client
        self.well = True
        self._look_soon = look_soon
        self._command = "SPUBLISH" if sharded else "PUBLISH"
        self._queue: deque[tuple[str, bytes]] = deque()
        self._queued, self._idle = asyncio.Event(), asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._connection = self.connection()

    def note(self, problem: object = None) -> None:
        """Note that the server took commands, or why it did not. A change is logged."""
        well = problem is None
        if well != self.well:
            server = {} if self.address is None else {"server": str(self.address)}
            log.warning("bus", available=well, **server, **({} if well else {"problem": repr(problem)}))
        self.well = well
        if not well:
            self._look_soon()

    def connection(self) -> AbstractConnection:
        """Return a new connection that is not in the client's pool."""
        return self.client.connection_pool.make_connection()

    async def ping(self) -> None:
        """Note whether the server answers within DEADLINE_S."""
        try:
            async with asyncio.timeout(DEADLINE_S):
                await self.client.ping()
        except (*LOST, RuntimeError) as error:  # uvloop raises RuntimeError for a connection that is closed
            self.note(error)
        else:
            self.note()

    async def publish_now(self, channel: str) -> None:
        """Publish an empty message, without the queue."""
        await self.client.execute_command(self._command, channel, b"")

    def publish(self, channel: str, data: bytes) -> None:
        """Queue a message, or drop it if there is no room."""
        if len(self._queue) >= QUEUE_SIZE:
            metrics.SIGNALS_DROPPED.inc()
            return
        if not self._queue:
            self._queued.set()
            self._idle.clear()
        self._queue.append((channel, data))
        if self._task is None:
            self._task = asyncio.create_task(self._send_all())

    async def idle(self) -> None:
        """Wait until all queued messages have been sent."""
        if self._task is not None:
            await self._idle.wait()

    async def close(self) -> None:
        """Drop what is queued, and close the connections."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        metrics.SIGNALS_DROPPED.inc(len(self._queue))
        self._queue.clear()
        with contextlib.suppress(*LOST):
            async with asyncio.timeout(CLOSE_S):
                await self._connection.disconnect(nowait=True)
                await self.client.aclose()

    async def _send_all(self) -> None:
        while True:
            await self._queued.wait()
            self._queued.clear()
            while self._queue:
                await self._send([self._queue.popleft() for _ in range(min(AT_ONCE, len(self._queue)))])
            self._idle.set()

    async def _send(self, batch: Sequence[tuple[str, bytes]]) -> None:
        """Send messages. Those that the server does not take are lost: their receivers look into the database."""
        taken, problem = 0, None
        try:
            async with asyncio.timeout(DEADLINE_S):
                if not self._connection.is_connected:
                    await self._connection.connect()
                await self._connection.send_packed_command(self._packed(batch), check_health=False)
                for _ in batch:
                    taken += await _was_taken(self._connection)
        except LOST as error:
            problem = error
        except Exception as error:
            log.exception("publishing on the bus failed")
            problem = error
        if taken < len(batch):
            metrics.SIGNALS_DROPPED.inc(len(batch) - taken)
            self._look_soon()
        self.note(problem)

    def _packed(self, batch: Sequence[tuple[str, bytes]]) -> bytes:
        return b"".join(
            hiredis.pack_command((self._command, *message))  # pyright: ignore[reportArgumentType] - any length
            for message in batch
        )


async def _was_taken(connection: AbstractConnection) -> bool:
    """Read the answer to one command; a server refuses a channel that has moved to another."""
    try:
        await connection.read_response(disable_decoding=True, timeout=math.inf)
    except ResponseError:
        return False
    return True
