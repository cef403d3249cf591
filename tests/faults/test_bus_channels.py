"""Channels that come and go fast, are confirmed late, or whose server stops: a process
receives the messages of each while it is subscribed."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
import redis.asyncio as redis_asyncio

from core.base import ids
from core.bus.bus import Bus
from core.bus.channels import of_session
from core.bus.link import SETTLED_S
from core.bus.subscription import Subscription
from tests.faults.proxy import Mode, Proxy
from tests.faults.valkey_servers import until
from tests.stack import Stack, within

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """Yield the servers without any process."""
    made = Stack(only_database=True)
    yield made
    made.close()


class Hub:
    """A subscription through a proxy, and a client of the server behind it."""

    def __init__(self, stack: Stack) -> None:
        self.proxy = Proxy(stack.redis_url)
        self.server = redis_asyncio.Redis.from_url(stack.redis_url, protocol=2)
        self.bus = Bus(self.proxy.url)
        self.subscriptions = 0
        self.heard: list[tuple[str, bytes]] = []
        self.subscription = Subscription(self.bus, lambda *message: self.heard.append(message), self._subscribed)
        self._task = asyncio.create_task(self.subscription.run())

    def _subscribed(self) -> None:
        self.subscriptions += 1

    async def subscribers(self, channel: str) -> int:
        """Return how many connections the server sends this channel's messages."""
        ((_, number),) = await self.server.pubsub_numsub(channel)
        return int(number)

    async def until_subscribed(self, channel: str, number: int) -> None:
        """Wait until the server has this number of subscribers."""

        async def has() -> bool:
            return await self.subscribers(channel) == number

        await until(has, timeout=3)

    async def until_new_subscriptions(self, number: int) -> None:
        """Wait until `resubscribed` was called this number of times."""

        async def has() -> bool:
            return self.subscriptions >= number

        await until(has, timeout=3)

    async def until_confirmed(self, channel: str) -> None:
        """Wait for the confirmation of a channel, also if it takes longer than a process waits for it."""
        async with asyncio.timeout(within(3)):
            while not self.subscription.is_confirmed(channel):
                await self.subscription.confirmed([channel])
                await asyncio.sleep(0)  # `confirmed` does not wait without a connection

    async def misses_confirmation(self, channel: str) -> None:
        """Subscribe to a channel while the server is silent."""
        self.proxy.switch(Mode.HANG)
        self.subscription.add([channel])
        await self.subscription.confirmed([channel])

    async def close(self) -> None:
        """Stop listening."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self.bus.close()
        await self.server.aclose()
        self.proxy.close()


@pytest.fixture
async def hub(stack: Stack) -> AsyncIterator[Hub]:
    """Yield a connected hub without channels."""
    made = Hub(stack)
    await made.until_new_subscriptions(1)
    yield made
    await made.close()


def channel() -> str:
    """Return a channel that no other test uses."""
    return of_session(ids.new_id())


@pytest.mark.parametrize("iterations", range(4))
async def test_channel_that_comes_back_at_once_is_heard_and_can_be_left(hub: Hub, iterations: int) -> None:
    name = channel()
    hub.subscription.add([name])
    await hub.until_confirmed(name)
    hub.subscription.remove([name])
    for _ in range(iterations):  # the command to unsubscribe is sent in one of them, long before its answer
        await asyncio.sleep(0)
    hub.subscription.add([name])
    await hub.until_confirmed(name)
    assert await hub.subscribers(name) == 1
    hub.subscription.remove([name])
    await hub.until_subscribed(name, 0)


async def test_channel_removed_before_its_confirmation_is_not_waited_for(hub: Hub) -> None:
    name = channel()
    hub.proxy.switch(Mode.HANG)
    hub.subscription.add([name])
    waiting = asyncio.create_task(hub.subscription.confirmed([name]))
    await asyncio.sleep(0)
    hub.subscription.remove([name])
    for _ in range(10):
        await asyncio.sleep(0)
    assert waiting.done()


async def test_channel_that_left_before_its_late_confirmation_hides_no_later_one(hub: Hub) -> None:
    left, stays = channel(), channel()
    await hub.misses_confirmation(left)
    hub.subscription.remove([left])
    hub.proxy.switch(Mode.PASS)
    await hub.until_subscribed(left, 0)
    assert hub.subscriptions == 1
    await hub.misses_confirmation(stays)
    hub.proxy.switch(Mode.PASS)
    await hub.until_new_subscriptions(2)  # so the process reads from the database what it has missed


async def test_channels_that_come_and_go_without_a_server_are_not_kept(hub: Hub) -> None:
    (link,) = hub.subscription._links.values()
    hub.proxy.switch(Mode.CUT)

    async def lost() -> bool:
        return not link.connected

    await until(lost)
    names = [channel() for _ in range(1_000)]
    hub.subscription.add(names)
    hub.subscription.remove(names[1:])
    assert not link._changes
    hub.proxy.switch(Mode.PASS)
    await hub.until_subscribed(names[0], 1)
    assert await hub.server.pubsub_channels("sesi:{*") == [names[0].encode()]


async def test_ten_thousand_channels_are_back_within_seconds_of_a_restart(hub: Hub) -> None:
    names = [channel() for _ in range(10_000)]
    hub.subscription.add(names)
    await hub.subscription.confirmed(names)
    (link,) = hub.subscription._links.values()

    async def all_confirmed() -> bool:
        return not link.late

    await until(all_confirmed)  # late confirmations count as a new subscription too
    before = hub.subscriptions
    hub.proxy.switch(Mode.CUT)
    hub.proxy.switch(Mode.PASS)
    async with asyncio.timeout(within(3)):
        await hub.until_new_subscriptions(before + 1)
    assert len(await hub.server.pubsub_channels("sesi:{*")) == len(names)


@pytest.mark.parametrize("iterations", range(8))
async def test_subscription_stops_while_it_sends_a_command(stack: Stack, iterations: int) -> None:
    made = Hub(stack)
    await made.until_new_subscriptions(1)
    made.subscription.add([channel()])
    for _ in range(iterations):  # the command is sent in one of them
        await asyncio.sleep(0)
    async with asyncio.timeout(within(2)):
        await made.close()


async def test_channel_is_unheard_only_while_that_is_sure(stack: Stack, hub: Hub) -> None:
    name, other = channel(), Hub(stack)
    try:

        async def is_unheard() -> bool:
            return await hub.subscription.unheard([name]) == {name}

        assert not await is_unheard()  # processes that listen to it may be about to connect
        await until(is_unheard, timeout=SETTLED_S + 3)
        other.subscription.add([name])
        await hub.until_subscribed(name, 1)
        assert not await is_unheard()
        other.subscription.remove([name])
        await until(is_unheard, timeout=3)
        hub.proxy.switch(Mode.HANG)
        assert not await is_unheard()
    finally:
        await other.close()
