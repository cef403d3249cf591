"""The bus: Redis publish/subscribe, which wakes other processes (docs/architecture.md#signals).

Redis may be empty, frozen or away without any loss of data. Messages are published after the commit and outside the
request: a bounded queue, one writer, a short timeout. A message that Redis does not take is dropped, because its
receivers find the truth in the database (docs/invariants.md#rule-5).
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import redis.asyncio as redis_asyncio
from redis.asyncio.client import PubSub
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from core.base import ids, logs, metrics
from core.base.clock import real_sleep

SIGNALS = "sesi:signals"
FRAMES = "sesi:frames"
PROBES = "sesi:probes"
TAG = 8  # last characters of a process's id, which name its channel
QUEUE_SIZE = 10_000  # messages; when the queue is full Redis is away, and the database has everything
DEADLINE_S = 1.0
RECONNECT_S = 0.25
QUIET_S = 3.0  # real seconds of silence after which a subscription is probed
PIPELINE = 200

log = logs.get("bus")
Handler = Callable[[str, bytes], Awaitable[None] | None]


def frames_of(node: str) -> str:
    """Return the channel on which a process publishes the frames of its commits."""
    return f"{FRAMES}:{node[-TAG:]}"


def frames_of_others(node: str) -> list[str]:
    """Return patterns that match every process's channel except this one's, so that no process receives its own frames.

    There is one pattern for each character of the tag: equal before that character, different there.
    """
    own = node[-TAG:]
    return [f"{FRAMES}:{own[:place]}[^{own[place]}]*" for place in range(TAG)]


class Bus:
    """Publishes and receives messages over Redis."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._client = self._connect(DEADLINE_S)
        self._queue: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue(QUEUE_SIZE)
        self.degraded = False

    @property
    def client(self) -> redis_asyncio.Redis:
        """Return the client for short calls, which fail after DEADLINE_S."""
        return self._client

    def _connect(self, timeout: float | None) -> redis_asyncio.Redis:
        return redis_asyncio.Redis.from_url(
            self._url, socket_timeout=timeout, socket_connect_timeout=DEADLINE_S, retry=Retry(NoBackoff(), 0)
        )

    def publish(self, channel: str, data: bytes) -> None:
        """Queue a message without waiting; drop it if the queue is full."""
        try:
            self._queue.put_nowait((channel, data))
        except asyncio.QueueFull:
            metrics.SIGNALS_DROPPED.inc()

    async def run_writer(self) -> None:
        """Send queued messages in batches until cancelled."""
        while True:
            batch = [await self._queue.get()]
            while len(batch) < PIPELINE and not self._queue.empty():
                batch.append(self._queue.get_nowait())
            try:
                async with asyncio.timeout(DEADLINE_S):
                    pipeline = self._client.pipeline(transaction=False)
                    for channel, data in batch:
                        pipeline.publish(channel, data)
                    await pipeline.execute()
                self._healthy(True)
            except Exception as error:
                if not isinstance(error, RedisError | OSError | TimeoutError):
                    log.exception("publishing on the bus failed")
                metrics.SIGNALS_DROPPED.inc(len(batch))
                self._healthy(False)
                with contextlib.suppress(RedisError, OSError):
                    await self._client.connection_pool.disconnect()
            finally:
                for _ in batch:
                    self._queue.task_done()

    def _healthy(self, well: bool) -> None:
        if self.degraded == well:
            log.warning("bus", available=well)
        self.degraded = not well

    async def drain(self) -> None:
        """Wait until all queued messages have been sent, DEADLINE_S at most."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DEADLINE_S):
                await self._queue.join()

    async def listen(
        self, channels: list[str], handle: Handler, resubscribed: Callable[[], None], *, patterns: bool = False
    ) -> None:
        """Pass each message on `channels` (with `patterns`, on matching channels) to `handle` until cancelled.

        `resubscribed` is called at each new subscription: earlier messages may have been missed.
        """
        while True:
            client = self._connect(None)
            probe = f"{PROBES}:{ids.new_id()}"
            try:
                pubsub = client.pubsub(ignore_subscribe_messages=False)
                await pubsub.subscribe(probe)
                await (pubsub.psubscribe if patterns else pubsub.subscribe)(*channels)
                await self._receive(pubsub, probe, handle, resubscribed)
            except (RedisError, OSError, TimeoutError):
                await real_sleep(RECONNECT_S)
            except Exception:
                log.exception("bus subscription failed")
                await real_sleep(RECONNECT_S)
            finally:
                with contextlib.suppress(RedisError, OSError, TimeoutError):
                    await client.aclose()

    async def _receive(self, pubsub: PubSub, probe: str, handle: Handler, resubscribed: Callable[[], None]) -> None:
        """Read one subscription. After QUIET_S of silence, publish a message to the subscribed channel `probe`.

        A proxy may keep the connection and answer a PING although the server behind it was replaced and does not have
        the subscription. Only a message that arrives proves that others would. Raises TimeoutError if it does not
        arrive.
        """
        probed = False
        while True:
            message = await pubsub.get_message(timeout=QUIET_S)
            if message is None:
                if probed:
                    raise TimeoutError
                probed = True
                async with asyncio.timeout(DEADLINE_S):
                    await self._client.publish(probe, b"")
                continue
            probed = False
            if message["channel"] == probe.encode():
                continue
            if message["type"] in ("subscribe", "psubscribe"):
                resubscribed()
            elif message["type"] in ("message", "pmessage"):
                await self._hand_over(handle, message)

    async def _hand_over(self, handle: Handler, message: dict[str, object]) -> None:
        channel, data = message["channel"], message["data"]
        assert isinstance(channel, bytes)
        assert isinstance(data, bytes)
        try:
            result = handle(channel.decode(), data)
            if result is not None:
                await result
        except Exception:
            log.exception("handling a signal failed", channel=channel.decode())

    async def ping(self) -> bool:
        """Return whether Redis answers within DEADLINE_S."""
        try:
            async with asyncio.timeout(DEADLINE_S):
                await self._client.ping()
        except (RedisError, OSError, TimeoutError):
            self._healthy(False)
            return False
        self._healthy(True)
        return True

    async def close(self) -> None:
        """Close the writer's connections."""
        with contextlib.suppress(RedisError, OSError, TimeoutError):
            async with asyncio.timeout(DEADLINE_S):
                await self._client.aclose()
