"""Users who chat and pay while the database fails over, and the checks after it."""

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator, Iterator

import attrs

from tests.faults import people as app
from tests.faults.failover.cluster import Pair
from tests.stack import World
from tools.driving.device import Device

PAIRS = 2  # pairs of a customer and a mitra
PAUSE_S = 0.03
GAP_S = 5.0  # seconds without an acknowledgement after the promotion
REREAD_S = 1.0  # the phones of the tests read again sooner than real ones
MESSAGES = "SELECT id::text, client_message_id::text FROM chat_messages WHERE session_id = ANY($1::uuid[])"
CONFIRMED = "SELECT id::text FROM payment_requests WHERE confirmed_at IS NOT NULL"


@attrs.define(kw_only=True)
class Load:
    """The acknowledged messages and payments, with their moments (monotonic time)."""

    world: World
    pause_s: float  # after each message of a sender
    clients: list[Device] = attrs.field(factory=list)
    phones: list[Device] = attrs.field(factory=list)
    sessions: list[str] = attrs.field(factory=list)
    # by client_message_id: the message's id and the moment
    messages: dict[str, tuple[str, float]] = attrs.field(factory=dict)
    moments: dict[str, list[float]] = attrs.field(factory=dict)  # of the acknowledgements, by sender
    payments: list[str] = attrs.field(factory=list)
    going: bool = True
    tasks: list[asyncio.Task[None]] = attrs.field(factory=list)

    async def talk(self, phone: Device, session_id: str, name: str) -> None:
        """Send one message after the other."""
        n = 0
        while self.going:
            n += 1
            answer = await phone.say(session_id, f"{name} {n}")
            at = time.monotonic()
            self.messages[answer["client_message_id"]] = answer["id"], at
            self.moments.setdefault(name, []).append(at)
            await asyncio.sleep(self.pause_s)

    async def pay(self) -> None:
        """Let one new customer after the other pay."""
        while self.going:
            customer = await app.retry(self.world.customer)
            payment = await app.request(customer)
            assert await app.pay(self.world, payment) in ("confirmed", "duplicate")
            self.payments.append(payment["payment_request_id"])
            await asyncio.sleep(PAUSE_S * 5)

    async def end(self) -> None:
        """Let every user finish the current message or payment; the phones stay connected."""
        self.going = False
        for task in self.tasks:
            await task

    async def acknowledged(self, more: int, *, timeout: float = 30) -> None:
        """Wait for `more` further acknowledgements."""
        wanted = len(self.messages) + more
        async with asyncio.timeout(timeout):
            while len(self.messages) < wanted:  # noqa: ASYNC110
                await asyncio.sleep(0.02)

    def longest_gap(self, since: float) -> float:
        """Return the longest time without an acknowledged message since that moment."""
        moments = [since, *sorted(at for _, at in self.messages.values() if at > since)]
        return max(after - before for before, after in itertools.pairwise(moments))


@contextlib.asynccontextmanager
async def under_load(world: World, *, payments: bool = True, pause_s: float = PAUSE_S) -> AsyncIterator[Load]:
    """Run two chats in which both sides write, and customers who pay, until `end`."""
    load = Load(world=world, pause_s=pause_s)
    async with contextlib.AsyncExitStack() as ends:
        for n in range(PAIRS):
            customer, mitra = await world.customer(f"Dewi {n}"), await world.mitra(f"Ayu {n}")
            session_id = await world.session(customer, mitra)
            load.sessions.append(session_id)
            for client in (customer, mitra):
                phone = await client.start("chat")
                ends.push_async_callback(phone.stop)
                phone.chats.sync.reread_within_s = REREAD_S
                load.clients.append(client)
                load.phones.append(phone)
                load.tasks.append(asyncio.create_task(load.talk(phone, session_id, str(client.user["id"]))))
        if payments:
            load.tasks.append(asyncio.create_task(load.pay()))
        try:
            await load.acknowledged(40)
            yield load
        finally:
            for task in load.tasks:
                task.cancel()


async def check_all_stored(pair: Pair, load: Load, *, same_ids: bool) -> None:
    """Check that each acknowledged message and payment is stored; `same_ids`: under the acknowledged id."""
    messages, payments = dict(load.messages), list(load.payments)  # later acknowledgements are not part of the check
    stored = {row[1]: row[0] for row in await pair.stack.sql(MESSAGES, load.sessions)}
    assert messages.keys() <= stored.keys()
    if same_ids:
        assert {mine: stored[mine] for mine in messages} == {mine: its for mine, (its, _) in messages.items()}
    assert set(payments) <= {row[0] for row in await pair.stack.sql(CONFIRMED)}


async def phones_show_what_is_stored(load: Load) -> None:
    """Wait until all phones show what is stored."""
    for n, phone in enumerate(load.phones):
        await app.wait_for_transcript(load.world, phone, load.sessions[n // 2])


@contextlib.contextmanager
def no_process_restarts(pair: Pair) -> Iterator[None]:
    """Check that the same processes run before and after."""
    before = {name: process.pid for name, process in pair.stack.processes.items()}
    yield
    assert {name: process.pid for name, process in pair.stack.processes.items()} == before
    assert [process.poll() for process in pair.stack.processes.values()] == [None] * len(before)
