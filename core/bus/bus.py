"""Redis: wakes other processes up. It may be empty, frozen or away at any moment; nothing is lost by that.

Publishing happens after the commit, off the request's path: a bounded queue, one writer, a short deadline. What the bus
does not take is dropped, because whoever misses a signal finds the truth in the database.
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
TAG = 8  # characters of a process's id that name its channel
QUEUE_SIZE = 10_000  # signals; beyond this the bus is away, and the database has it all
DEADLINE_S = 1.0
RECONNECT_S = 0.25
QUIET_S = 3.0  # silence after which a subscription is probed
PIPELINE = 200

log = logs.get("bus")
Handler = Callable[[str, bytes], Awaitable[None] | None]


def frames_of(node: str) -> str:
    """Return the channel on which a process tells the others what it has committed."""
    return f"{FRAMES}:{node[-TAG:]}"


def frames_of_others(node: str) -> list[str]:
    """Return the patterns that match every process's channel but this one's: nobody hears his own news again.

    One pattern for each character: the same up to there, and then another one.
    """
    own = node[-TAG:]
    return [f"{FRAMES}:{own[:place]}[^{own[place]}]*" for place in range(TAG)]


class Bus:
    """Sends and hears signals."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._client = self._connect(DEADLINE_S)
        self._queue: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue(QUEUE_SIZE)
        self.degraded = False

    def _connect(self, timeout: float | None) -> redis_asyncio.Redis:
        return redis_asyncio.Redis.from_url(
            self._url, socket_timeout=timeout, socket_connect_timeout=DEADLINE_S, retry=Retry(NoBackoff(), 0)
        )

    def publish(self, channel: str, data: bytes) -> None:
        """Send without waiting."""
        try:
            self._queue.put_nowait((channel, data))
        except asyncio.QueueFull:
            metrics.SIGNALS_DROPPED.inc()

    async def run_writer(self) -> None:
        """Send what is queued, many at a time, until cancelled."""
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
                    log.exception("publishing failed")
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
        """Wait until what is queued has been sent, for one deadline at most."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DEADLINE_S):
                await self._queue.join()

    async def listen(
        self, channels: list[str], handle: Handler, resubscribed: Callable[[], None], *, patterns: bool = False
    ) -> None:
        """Hand each message on these channels, or on those that match these patterns, to `handle`, until cancelled.

        `resubscribed` is called at each new subscription: whatever was sent before it may have been missed.
        """
        while True:
            client = self._connect(None)
            probe = f"{PROBES}:{ids.new_id()}"
            try:
                pubsub = client.pubsub(ignore_subscribe_messages=False)
                await pubsub.subscribe(probe)
                await (pubsub.psubscribe if patterns else pubsub.subscribe)(*channels)
                await self._hear(pubsub, probe, handle, resubscribed)
            except (RedisError, OSError, TimeoutError):
                await real_sleep(RECONNECT_S)
            except Exception:
                log.exception("the subscription broke")
                await real_sleep(RECONNECT_S)
            finally:
                with contextlib.suppress(RedisError, OSError, TimeoutError):
                    await client.aclose()

    async def _hear(self, pubsub: PubSub, probe: str, handle: Handler, resubscribed: Callable[[], None]) -> None:
        """Read one subscription. After a silence, send a message to the channel `probe`, which is subscribed to.

        A proxy may keep the connection and answer a PING when the server behind it has been replaced and knows nothing of
        the subscription. Only a message that arrives proves that others would. Raises TimeoutError when it does not.
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
            log.exception("a signal could not be handled", channel=channel.decode())

    async def ping(self) -> bool:
        """Whether the bus answers within the deadline."""
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
