"""A subscription behind a proxy that keeps its clients connected when the server behind it fails."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from core.bus.bus import Bus
from core.bus.link import PROBE_S, QUIET_S, RECONNECT_S
from core.bus.subscription import Subscription
from tests.faults.proxy import Mode, Proxy
from tests.stack import Stack, within

pytestmark = pytest.mark.anyio

CHANNEL = "sesi:signals"
NOTICED_S = 2 * QUIET_S + PROBE_S + RECONNECT_S


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """Yield the servers without any process."""
    made = Stack(only_database=True)
    yield made
    made.close()


class Listener:
    """A process that listens on the bus through a proxy, and one that publishes directly."""

    def __init__(self, stack: Stack) -> None:
        self.proxy = Proxy(stack.redis_url)
        self.subscriptions = 0
        self._received: set[bytes] = set()
        self._listening, self._publishing = Bus(self.proxy.url), Bus(stack.redis_url)
        self._tasks = [
            asyncio.create_task(Subscription(self._listening, self._take, self._subscribed, CHANNEL).run()),
            asyncio.create_task(self._publishing.run()),
        ]

    def _take(self, _: str, data: bytes) -> None:
        self._received.add(data)

    def _subscribed(self) -> None:
        self.subscriptions += 1

    async def receives(self, data: bytes, *, timeout: float) -> None:
        """Publish until this message arrives; earlier ones may still be on their way."""
        async with asyncio.timeout(timeout):
            while data not in self._received:
                self._publishing.publish([(CHANNEL, data)])
                await asyncio.sleep(0.1)

    async def close(self) -> None:
        """Stop both processes."""
        for task in self._tasks:
            task.cancel()
        await self._listening.close()
        await self._publishing.close()
        self.proxy.close()


@pytest.fixture
async def listener(stack: Stack) -> AsyncIterator[Listener]:
    """Yield a working subscription."""
    made = Listener(stack)
    await made.receives(b"before", timeout=within(5))
    yield made
    await made.close()


async def test_subscription_lost_behind_a_proxy_that_keeps_the_connection_is_renewed(listener: Listener) -> None:
    before = listener.subscriptions
    listener.proxy.replace_server()
    await listener.receives(b"after", timeout=within(NOTICED_S))
    assert listener.subscriptions > before  # so the process reads from the database what it has missed


async def test_subscription_to_a_server_frozen_behind_a_proxy_is_renewed(listener: Listener) -> None:
    before = listener.subscriptions
    listener.proxy.switch(Mode.HANG)
    accepted = listener.proxy.accepted
    async with asyncio.timeout(within(NOTICED_S)):
        while True:  # one connection for the probe, and one for the next subscription
            await asyncio.sleep(0.05)
            if listener.proxy.accepted >= accepted + 2:
                break
    listener.proxy.switch(Mode.PASS)
    await listener.receives(b"after", timeout=within(NOTICED_S))
    assert listener.subscriptions > before


async def test_silent_subscription_that_works_is_not_renewed(listener: Listener) -> None:
    before, accepted = listener.subscriptions, listener.proxy.accepted
    await asyncio.sleep(2 * QUIET_S + 1)  # two probes
    # one connection publishes the probes
    assert (listener.subscriptions, listener.proxy.accepted) == (before, accepted + 1)
