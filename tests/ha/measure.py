"""A fault under load: what was acknowledged and lost, the longest gap, and the time to recover."""

import asyncio
import itertools
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping

from tests.faults.failover.load import CONFIRMED, MESSAGES, Load, phones_show_what_is_stored, under_load
from tests.ha.report import Outcome
from tests.stack import Stack, World

NOTICED_S = 1.0  # a shorter gap does not count as an interruption
PAUSE_S = 0.25  # between a sender's messages, so that no limit of messages or frames delays them
MORE = 8  # further acknowledgements of each sender, so that the load runs normally again
SERVED_S = 60.0
READ_AGAIN_S = 0.02

# Breaks something, and waits until the engine has failed over.
Fault = Callable[[Load], Awaitable[None]]


def gaps(moments: Mapping[str, list[float]], since: float) -> list[tuple[float, float]]:
    """Return (length, end) of the gaps between each sender's acknowledgements that ended after `since`, in seconds."""
    return [
        (after - before, after - since)
        for mine in moments.values()
        for before, after in itertools.pairwise(mine)
        if after > since
    ]


def recovery_s(found: list[tuple[float, float]]) -> float:
    """Return when the last of these gaps or waits that was noticed ended; 0 if none was."""
    return max((end for length, end in found if length > NOTICED_S), default=0.0)


class Displays:
    """When a message of the load was first shown by the phones of both parties, by its id (monotonic time)."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._shown = [0] * len(load.phones)
        self._moments: dict[str, float] = {}
        self._look()  # what is shown already counts as shown now, before the fault

    async def watch(self) -> None:
        """Look at the phones until cancelled."""
        while True:
            self._look()
            await asyncio.sleep(READ_AGAIN_S)

    def _look(self) -> None:
        for n, phone in enumerate(self._load.phones):
            transcript = phone.transcript(self._load.sessions[n // 2])
            for message in transcript[self._shown[n] :]:
                self._moments[message["id"]] = time.monotonic()  # the phone that shows it last counts
            self._shown[n] = len(transcript)

    def waits(self, since: float) -> list[tuple[float, float]]:
        """Return (length, end) of the times from acknowledgement to display that ended after `since`, in seconds."""
        self._look()
        return [
            (max(0.0, self._moments[message_id] - acknowledged), self._moments[message_id] - since)
            for message_id, acknowledged in self._load.messages.values()
            if self._moments.get(message_id, 0.0) > since
        ]


async def all_served(moments: Mapping[str, list[float]], senders: Iterable[str]) -> None:
    """Wait until each sender has MORE further acknowledgements. Raises TimeoutError after SERVED_S seconds."""
    wanted = {name: len(moments.get(name, ())) + MORE for name in senders}
    async with asyncio.timeout(SERVED_S):
        while any(len(moments.get(name, ())) < count for name, count in wanted.items()):  # noqa: ASYNC110
            await asyncio.sleep(READ_AGAIN_S)


async def lost(stack: Stack, load: Load) -> tuple[int, int]:
    """Return how many messages and payments were acknowledged, and how many of them are not stored."""
    messages, payments = dict(load.messages), list(load.payments)  # later acknowledgements are not part of the check
    stored = {row[1] for row in await stack.sql(MESSAGES, load.sessions)}
    confirmed = {row[0] for row in await stack.sql(CONFIRMED)}
    missing = [one for one in messages if one not in stored] + [one for one in payments if one not in confirmed]
    return len(messages) + len(payments), len(missing)


def violations(stack: Stack) -> int:
    """Run `sesi audit`; return how many violations it found."""
    said = stack.command("audit", check=False).stdout
    found = re.search(r"(\d+) violations", said)
    assert found is not None, said
    return int(found[1])


async def measure(
    world: World, fault: Fault, *, repaired: Callable[[], Awaitable[None]], engine: str, name: str, connection: str
) -> Outcome:
    """Run two chats and payments of new users, let the fault happen, and wait until all are served again.

    `repaired` repairs the engine and waits until it has its full redundancy again.
    """
    stack = world.stack
    async with under_load(world, pause_s=PAUSE_S) as load, asyncio.TaskGroup() as group:
        displays = Displays(load)
        watch = group.create_task(displays.watch())
        began = time.monotonic()
        await fault(load)
        await all_served(load.moments, list(load.moments))
        await repaired()
        await all_served(load.moments, list(load.moments))
        await load.end()
        found = gaps(load.moments, began)
        acknowledged, missing = await lost(stack, load)
        await phones_show_what_is_stored(load)
        watch.cancel()
        waits = displays.waits(began)
    await world.leave_searches()
    await world.close()
    return Outcome(
        engine=engine,
        fault=name,
        connection=connection,
        acknowledged=acknowledged,
        lost=missing,
        longest_gap_s=max(length for length, _ in found),
        latest_delivery_s=max(length for length, _ in waits),
        recovery_s=recovery_s(found + waits),
        violations=violations(stack),
    )
