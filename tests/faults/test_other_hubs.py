"""A realtime process publishes frames unless it is surely the only one, also while signs of another one are lost."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator

import pytest
import redis.asyncio as redis_asyncio

from core.base import ids
from core.bus import channels
from core.bus.bus import Bus
from core.bus.other_hubs import LEASES_S, LOOK_S, RENEW_S, SETTLED_S, OtherHubs
from core.bus.subscription import Subscription
from tests.faults import valkey
from tests.faults.proxy import Mode, Proxy
from tests.stack import Stack, within

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """Yield the servers without any process."""
    made = Stack(only_database=True)
    yield made
    made.close()


class Process:
    """What a realtime process has on the bus, with a clock that stands still until the test moves it."""

    def __init__(self, url: str) -> None:
        self.time = 0.0
        self.bus = Bus(url)
        self.resubscribed = 0
        self.heard = Subscription(self.bus, self._on_frames, self._on_resubscribe)
        self.signals = Subscription(self.bus, lambda _channel, _data: None, lambda: None, channels.SIGNALS)
        self.others = OtherHubs(self.bus, self.heard, node=ids.new_id(), now=lambda: self.time)
        runs = (self.bus.run(), self.heard.run(), self.signals.run(), self.others.run())
        self._tasks = [asyncio.create_task(run) for run in runs]

    def _on_frames(self, _channel: str, data: bytes) -> None:
        self.others.note_announcement(data)

    def _on_resubscribe(self) -> None:
        self.resubscribed += 1
        self.others.note_sign()

    async def subscribed(self) -> None:
        """Wait until the servers have this process's subscriptions: a later one counts as a sign of another process."""
        await until(lambda: self.heard.is_confirmed(channels.HUBS) and self.signals.is_confirmed(channels.SIGNALS))
        await until(lambda: all(link.connected for link in self.heard._links.values()))

    def passes(self, seconds: float, *, found: bool = False) -> None:
        """Let time pass, then read the leases, which name another realtime process if `found` is set."""
        self.time += seconds
        self.others.note_leases(found=found, began_at=self.time)

    async def looks(self) -> None:
        """Ask for a look at the bus, and wait until it is over."""
        self.others.absent()
        await until(lambda: not self.others._wanted.is_set())

    async def becomes_alone(self) -> None:
        """Read the leases and look at the bus until this is surely the only process."""
        await self.subscribed()
        async with asyncio.timeout(within(3)):
            while not self.others.absent():
                self.passes(SETTLED_S)
                await self.looks()

    async def close(self) -> None:
        """Stop."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.bus.close()


async def until(true: Callable[[], bool]) -> None:
    """Wait until this is true."""
    async with asyncio.timeout(within(3)):
        while True:
            if true():
                return
            await asyncio.sleep(0.001)


@contextlib.asynccontextmanager
async def process_on(url: str) -> AsyncIterator[Process]:
    """Yield a process."""
    made = Process(url)
    try:
        await made.bus.find()
        yield made
    finally:
        await made.close()


@pytest.fixture
async def alone(stack: Stack) -> AsyncIterator[Process]:
    """Yield a process that is surely the only one."""
    async with process_on(stack.redis_url) as made:
        await made.becomes_alone()
        yield made


async def test_announcement_is_obeyed_at_once(alone: Process, stack: Stack) -> None:
    async with process_on(stack.redis_url) as other:
        await other.others.announce()
        await until(lambda: not alone.others.absent())  # the clock stands, so it is not for want of a look
        alone.passes(SETTLED_S - 0.1)  # read before the other one's lease must be there
        assert not alone.others.absent()


async def test_own_announcement_is_no_sign_of_another_process(alone: Process) -> None:
    await alone.others.announce()
    await asyncio.sleep(0.01)
    assert alone.others.absent()


async def test_look_counts_for_its_time_only(alone: Process) -> None:
    alone.time += LOOK_S
    assert alone.others.absent()
    alone.time += 0.001
    assert not alone.others.absent()
    await alone.looks()
    assert alone.others.absent()


async def test_look_is_renewed_before_its_time_is_over(alone: Process) -> None:
    for _ in range(20):  # messages that are less than LOOK_S - RENEW_S apart
        alone.time += (LOOK_S - RENEW_S) * 0.9
        assert alone.others.absent()
        await until(lambda: not alone.others._wanted.is_set())


async def test_process_whose_announcement_and_lease_are_lost_is_seen_by_the_next_look(
    alone: Process, stack: Stack
) -> None:
    async with process_on(stack.redis_url) as other:
        await other.subscribed()
        for _ in range(3):  # two processes at one place have one lease, so neither ever sees the other's
            alone.passes(SETTLED_S)
            await alone.looks()
            assert not alone.others.absent()


async def test_process_of_an_older_release_is_seen_by_the_next_look(alone: Process, stack: Stack) -> None:
    old = Bus(stack.redis_url)
    signals = Subscription(old, lambda _channel, _data: None, lambda: None, channels.SIGNALS)
    task = asyncio.create_task(signals.run())
    try:
        await until(lambda: signals.is_confirmed(channels.SIGNALS))
        alone.passes(LOOK_S + 0.001)
        await alone.looks()
        assert not alone.others.absent()
        alone.passes(SETTLED_S, found=True)
        await alone.looks()
        assert not alone.others.absent()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await old.close()


async def test_process_publishes_while_it_cannot_read_the_leases(alone: Process) -> None:
    alone.time += LEASES_S + 0.001
    await alone.looks()
    assert not alone.others.absent()
    alone.passes(0)
    await alone.looks()
    assert alone.others.absent()


async def test_process_publishes_from_its_start_until_leases_and_bus_agree(stack: Stack) -> None:
    async with process_on(stack.redis_url) as made:
        assert not made.others.absent()
        await made.subscribed()
        made.passes(SETTLED_S - 0.001)
        await made.looks()
        assert not made.others.absent()
        await made.becomes_alone()


async def test_process_publishes_after_its_subscription_was_lost(stack: Stack) -> None:
    proxy = Proxy(stack.redis_url)
    try:
        async with process_on(proxy.url) as made:
            await made.becomes_alone()
            proxy.switch(Mode.CUT)
            made.passes(LOOK_S + 0.001)
            assert not made.others.absent()  # for want of a look, and the next one fails
            before = made.resubscribed
            proxy.switch(Mode.PASS)
            await until(lambda: made.resubscribed > before)
            made.passes(LOOK_S)
            assert not made.others.absent()  # an announcement may have been lost
            made.passes(SETTLED_S)
            await made.becomes_alone()
    finally:
        proxy.close()


async def test_process_whose_redis_user_may_not_look_always_publishes(stack: Stack) -> None:
    admin = redis_asyncio.Redis.from_url(stack.redis_url)
    await admin.execute_command("ACL", "SETUSER", "narrow", "on", ">secret", "~sesi:*", "&sesi:*", "+@all", "-pubsub")
    try:
        async with process_on(stack.redis_url.replace("redis://", "redis://narrow:secret@")) as made:
            await made.subscribed()
            for _ in range(3):
                made.passes(SETTLED_S)
                assert not made.others.absent()
                await asyncio.sleep(0.02)
    finally:
        await admin.execute_command("ACL", "DELUSER", "narrow")
        await admin.aclose()


async def test_processes_on_a_cluster_see_each_other() -> None:
    async with valkey.cluster() as cluster, process_on(cluster.url) as made:
        await made.becomes_alone()
        async with process_on(cluster.url) as other:
            await other.subscribed()
            made.passes(SETTLED_S)
            await made.looks()
            assert not made.others.absent()
            await other.others.announce()
        made.passes(SETTLED_S)
        await made.becomes_alone()
