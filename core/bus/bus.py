"""The bus: Redis publish/subscribe, which wakes other processes (docs/architecture.md#signals).

Redis may be empty, frozen or away without any loss of data. Messages are published after the commit and outside the
request: a bounded queue, one writer, a short timeout. A message that Redis does not take is dropped, because its
receivers find the truth in the database (docs/invariants.md#rule-5).
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable

import redis.asyncio as redis_asyncio

from core.bus.link import Handler
from core.bus.nodes import LOST, Node, Nodes
from core.bus.subscription import Subscription
from core.bus.writer import Writer
from core.settings import redis_url
from core.telemetry import metrics

DEADLINE_S = 1.0


class Bus:
    """Publishes and receives messages over Redis."""

    def __init__(self, url: str) -> None:
        self.nodes = Nodes(redis_url.read(url), timeout_s=DEADLINE_S)
        self._writers: dict[Node, Writer] = {}
        self._changed = asyncio.Event()
        self.nodes.watch(self._reroute)

    @property
    def degraded(self) -> bool:
        """Whether messages may be lost, because a server does not take commands."""
        return self.nodes.degraded

    def client_of(self, key: str) -> redis_asyncio.Redis:
        """Return a client for short calls about a key, whose timeout the caller sets. Raises NoServer."""
        return self.nodes.client_of(key)

    def subscription(self, handle: Handler, resubscribed: Callable[[], None], *channels: str) -> Subscription:
        """Return a new set of channels, to be run; each of their messages is passed to `handle`.

        `resubscribed` is called at each new subscription to a server: earlier messages may have been missed.
        """
        made = Subscription(self.nodes, handle, resubscribed)
        made.add(channels)
        return made

    def publish(self, messages: Iterable[tuple[str, bytes]]) -> None:
        """Queue messages, as (channel, data), without waiting; drop those without a server or without room."""
        for channel, data in messages:
            node = self.nodes.of(channel)
            if node is None:
                metrics.SIGNALS_DROPPED.inc()
                self.nodes.look_soon()
                continue
            writer = self._writers.get(node)
            if writer is None:
                writer = self._writers[node] = Writer(self.nodes, node)
                self._changed.set()
            writer.add(channel, data)

    def _reroute(self) -> None:
        """Give what waits for a replaced server to its successor."""
        for node in set(self._writers) - self.nodes.present():
            self.publish(self._writers.pop(node).queue)
        self._changed.set()

    async def run(self) -> None:
        """Follow the servers and send queued messages until cancelled."""
        running: dict[Writer, asyncio.Task[None]] = {}
        async with asyncio.TaskGroup() as group:
            group.create_task(self.nodes.run())
            while True:
                self._changed.clear()
                wanted = set(self._writers.values())
                for gone in set(running) - wanted:
                    running.pop(gone).cancel()
                for new in wanted - set(running):
                    running[new] = group.create_task(new.run())
                await self._changed.wait()

    async def drain(self) -> None:
        """Wait until all queued messages have been sent, DEADLINE_S at most."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DEADLINE_S):
                for writer in list(self._writers.values()):
                    await writer.idle.wait()

    async def ping(self) -> bool:
        """Return whether all servers answer within DEADLINE_S."""
        async with asyncio.TaskGroup() as group:
            for node in self.nodes.present():
                group.create_task(self._ping(node))
        return not self.degraded

    async def _ping(self, node: Node) -> None:
        try:
            async with asyncio.timeout(DEADLINE_S):
                await node.client.ping()
        except LOST as error:
            self.nodes.look_soon()
            node.note(error)
        else:
            node.note()

    async def close(self) -> None:
        """Close all connections."""
        await self.nodes.close()
