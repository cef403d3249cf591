"""The bus on a Valkey cluster and behind sentinels, while servers are replaced, killed and frozen.

The last tests wait for the servers at the same time; each has its own servers. The first ones would fail if the others
delayed them for a second.
"""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator

import pytest

from core.base import ids
from core.bus import channels
from core.bus.bus import Bus
from core.bus.link import Link
from core.bus.subscription import Subscription
from tests.faults import valkey
from tests.faults.together import Part, Together
from tests.faults.valkey import Cluster
from tests.faults.valkey_servers import until
from tests.stack import within

pytestmark = pytest.mark.anyio
TOGETHER = Together()

RECOVERED_S = 15  # the servers take up to 3 s to replace one that is dead


class Pair:
    """A process that publishes, and one that listens to as many sessions and recipients as a small hub."""

    def __init__(self, url: str) -> None:
        self.names = [of(ids.new_id()) for of in (channels.of_session, channels.of_recipient) for _ in range(20)]
        self.subscriptions = 0
        self.heard: dict[str, list[bytes]] = {name: [] for name in self.names}
        self._came = asyncio.Event()
        self._buses = self.publishing, listening = Bus(url), Bus(url)
        self.subscription = Subscription(listening, self._take, self._subscribed, *self.names)
        runs = (self.publishing.run(), listening.run(), self.subscription.run())
        self._tasks = [asyncio.create_task(run) for run in runs]

    def _take(self, name: str, data: bytes) -> None:
        self.heard[name].append(data)
        self._came.set()

    def _subscribed(self) -> None:
        self.subscriptions += 1
        self._came.set()

    async def everything_arrives(self, *, timeout: float = RECOVERED_S) -> None:
        """Publish on each channel until a message of now has arrived on each."""
        mark = ids.new_id().encode()
        async with asyncio.timeout(within(timeout)):
            while missing := [name for name in self.names if mark not in self.heard[name]]:
                self.publishing.publish((name, mark) for name in missing)
                await asyncio.sleep(0.1)

    async def settled(self) -> int:
        """Wait until all connections have the subscriptions; return how many times `resubscribed` was called."""
        async with asyncio.timeout(within(RECOVERED_S)):
            while not all(link.connected for link in self.subscription._links.values()):
                self._came.clear()
                await self._came.wait()
        return self.subscriptions

    async def subscribes_again(self, before: int) -> None:
        """Wait for a new subscription, after which the process reads from the database what it may have missed."""
        async with asyncio.timeout(within(RECOVERED_S)):
            while self.subscriptions <= before:
                self._came.clear()
                await self._came.wait()

    async def have_arrived(self, number: int) -> None:
        """Wait until this many messages have arrived on each channel."""
        async with asyncio.timeout(within(RECOVERED_S)):
            while any(len(self.heard[name]) < number for name in self.names):
                self._came.clear()
                await self._came.wait()

    async def close(self) -> None:
        """Stop both processes."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for bus in self._buses:
            await bus.close()


@contextlib.asynccontextmanager
async def pair_on(url: str) -> AsyncIterator[Pair]:
    """Yield two processes that understand each other."""
    pair = Pair(url)
    try:
        await pair.everything_arrives()
        yield pair
    finally:
        await pair.close()


async def test_messages_of_all_channels_arrive_once_and_in_order_on_a_cluster() -> None:
    async with valkey.cluster() as cluster, pair_on(cluster.url) as pair:
        for heard in pair.heard.values():
            heard.clear()
        numbers = [str(number).encode() for number in range(200)]
        pair.publishing.publish((name, number) for number in numbers for name in pair.names)
        await pair.have_arrived(len(numbers))
        assert all(pair.heard[name] == numbers for name in pair.names)


async def test_channels_that_come_and_go_are_heard_only_while_they_are_wanted() -> None:
    async with valkey.cluster() as cluster, pair_on(cluster.url) as pair:
        gone, kept = pair.names[:10], pair.names[10:]
        before = await pair.settled()
        pair.subscription.remove(gone)
        pair.names = kept
        await pair.everything_arrives()
        heard = {name: len(pair.heard[name]) for name in gone}
        pair.publishing.publish((name, b"unheard") for name in gone)
        await pair.everything_arrives()
        assert {name: len(pair.heard[name]) for name in gone} == heard
        pair.subscription.add(gone)
        await pair.subscription.confirmed(gone)
        late = [name for name in gone if not pair.subscription.is_confirmed(name)]  # their server is slow
        pair.names = gone
        pair.publishing.publish((name, b"heard") for name in gone)
        await pair.everything_arrives()
        assert all(b"heard" in pair.heard[name] for name in gone if name not in late)
        # If nothing was missed, nothing need be read from the database.
        assert (pair.subscriptions > before) == bool(late)


async def test_channels_without_a_subscriber_are_known_on_all_servers_of_a_cluster() -> None:
    async with valkey.cluster() as cluster, pair_on(cluster.url) as pair:
        looking = Subscription(pair.publishing, pair._take, pair._subscribed)
        task = asyncio.create_task(looking.run())
        try:
            unheard = {channels.of_recipient(ids.new_id()) for _ in range(20)}

            async def are_known() -> bool:
                return await looking.unheard([*pair.names, *unheard]) == unheard

            await until(are_known, timeout=RECOVERED_S)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def on_primary(cluster: Cluster, number: int, names: list[str]) -> list[str]:
    """Return the channels that belong to one of the three primaries."""
    first, last = cluster.slots_of(number)
    return [name for name in names if first <= channels.slot_of(name) <= last]


async def test_frozen_server_delays_no_message_on_the_others() -> None:
    async with valkey.cluster() as cluster, pair_on(cluster.url) as pair:
        behind_frozen, working = (on_primary(cluster, number, pair.names)[0] for number in (0, 1))
        cluster.servers.send(cluster.primaries[0], signal.SIGSTOP)
        pair.publishing.publish([(behind_frozen, b"stuck")])
        await asyncio.sleep(0.05)  # its batch is under way
        pair.publishing.publish([(working, b"passes")])
        while b"passes" not in pair.heard[working]:
            assert not pair.publishing.degraded  # the frozen server has its whole timeout still
            await asyncio.sleep(0.005)


@pytest.fixture(scope="module")
async def plays(request: pytest.FixtureRequest) -> AsyncIterator[None]:
    """Run the tests that wait for the servers."""

    async def run(part: Part) -> None:
        await part.body()

    TOGETHER.start(run, request.session.items)
    yield
    await TOGETHER.stop()


@TOGETHER.test(cases=("failover", "kill", "freeze"))
async def test_listener_follows_a_cluster_whose_primary_is_replaced(case: str) -> None:
    async with valkey.cluster() as cluster, pair_on(cluster.url) as pair:
        before = await pair.settled()
        await _replace_primary(cluster, case)
        await pair.subscribes_again(before)
        await pair.everything_arrives()


async def _replace_primary(cluster: Cluster, fault: str) -> None:
    if fault == "failover":
        await cluster.servers.ask(cluster.replicas[0], "CLUSTER", "FAILOVER")
    else:
        cluster.servers.send(cluster.primaries[0], signal.SIGKILL if fault == "kill" else signal.SIGSTOP)

    async def promoted() -> bool:
        return (await cluster.servers.fields(cluster.replicas[0], "INFO", "replication"))["role"] == "master"

    await until(promoted)


@TOGETHER.test(lane=1, cases=("failover", "kill", "freeze"))
async def test_listener_follows_sentinels_to_a_new_master(case: str) -> None:
    async with valkey.sentinels() as watched, pair_on(watched.url) as pair:
        before, old = await pair.settled(), await watched.master()
        if case == "failover":
            await watched.fail_over()
        else:
            watched.servers.send(old, signal.SIGKILL if case == "kill" else signal.SIGSTOP)

        async def replaced() -> bool:
            return await watched.master() != old

        await until(replaced)
        await pair.subscribes_again(before)
        await pair.everything_arrives()


class FailsWhenStopped(Link):
    """A link whose probe fails while it is cancelled, as one does that is connecting just then."""

    async def _keep_probing(self) -> None:
        try:
            await super()._keep_probing()
        finally:
            raise ConnectionError


@TOGETHER.test(lane=2)
async def test_link_stops_even_if_its_connection_fails_just_then() -> None:
    async with valkey.sentinels() as watched:
        bus, subscribed = Bus(watched.url), asyncio.Event()
        await bus.find()
        (server,) = bus.present()
        link = FailsWhenStopped(bus, server, set(), lambda _channel, _data: None, subscribed.set)
        link.start()
        async with asyncio.timeout(within(RECOVERED_S)):
            await subscribed.wait()
            await link.stop()
        await bus.close()


@TOGETHER.test(step=1)
async def test_channel_whose_slot_leaves_and_comes_back_is_heard_again() -> None:
    async with valkey.cluster() as cluster, pair_on(cluster.url) as pair:
        name = on_primary(cluster, 0, pair.names)[0]
        here, there = cluster.primaries[:2]
        for owner in (there, here):  # faster than the processes ask for the map
            await cluster.give_slot(channels.slot_of(name), to=owner)
        await pair.everything_arrives()


@TOGETHER.test(step=1)
async def test_bus_stays_degraded_while_some_slots_have_no_server() -> None:
    async with valkey.cluster() as cluster, pair_on(cluster.url) as pair:
        for port in (cluster.replicas[0], cluster.primaries[0]):
            cluster.servers.send(port, signal.SIGKILL)
        lost = on_primary(cluster, 0, pair.names)
        async with asyncio.timeout(within(RECOVERED_S)):
            while not pair.publishing.degraded:
                pair.publishing.publish((name, b"lost") for name in lost)
                await asyncio.sleep(0.05)
        pair.names = [name for name in pair.names if name not in lost]
        for _ in range(3):
            await pair.everything_arrives()
            assert pair.publishing.degraded  # so hubs read the others' messages from the database at the faster pace
