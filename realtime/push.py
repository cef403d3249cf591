"""The timers of the push fallback: events that no device acknowledges in time are pushed (docs/protocol.md#pushes)."""

import asyncio
from collections.abc import Awaitable, Callable

from core.base.clock import real_sleep
from core.base.errors import Unavailable
from core.bus import channels
from core.bus.subscription import Subscription
from core.runtime.container import Runtime
from core.sessions import push_fallback
from core.sessions.push_fallback import Outcome, Push
from core.telemetry import logs

TICK_S = 0.5
CHATS_S = 1.0  # less often than TICK_S, because each look at all open chats costs more
SENDS = 16  # at the same time; only as many pushes are claimed as can be sent now, so that no claim waits
GATHER_S = 0.005  # real time in which ended sends are gathered, for one claim and one statement with their results
log = logs.get("push")


async def run(runtime: Runtime, heard: Subscription) -> None:
    """Plan and send due pushes until cancelled. Several processes may do so at the same time.

    Every realtime process listens to its users over the bus as `heard` does.
    """

    async def unheard(user_ids: set[str]) -> set[str]:
        by_channel = {channels.of_recipient(user_id): user_id for user_id in user_ids}
        return {by_channel[name] for name in await heard.unheard(by_channel)}

    many = push_fallback.PLAN_AT_ONCE
    planner = push_fallback.UnheardPlanner(unheard)
    async with asyncio.TaskGroup() as group:  # separate tasks, so that a slow provider does not delay planning
        group.create_task(_again_and_again(runtime, planner.plan, many=many, every_s=TICK_S))
        group.create_task(_again_and_again(runtime, push_fallback.plan_events, many=many, every_s=TICK_S))
        group.create_task(_again_and_again(runtime, push_fallback.plan_chats, many=many, every_s=CHATS_S))
        group.create_task(_keep_sending(runtime))


async def _again_and_again(
    runtime: Runtime, work: Callable[[Runtime], Awaitable[int]], *, many: int, every_s: float
) -> None:
    while True:
        await real_sleep(every_s)
        try:
            while await work(runtime) >= many:
                continue
        except Unavailable:
            continue
        except Exception:
            log.exception("planning pushes failed")


class Sends:
    """The sends under way, and the results that are not stored yet."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._tasks: set[asyncio.Task[None]] = set()
        self._results: list[tuple[Push, Outcome]] = []
        self._ended = asyncio.Event()

    @property
    def free(self) -> int:
        """How many more sends may begin."""
        return SENDS - len(self._tasks)

    def begin(self, pushes: list[Push], group: asyncio.TaskGroup) -> None:
        """Send these pushes in the background."""
        for push in pushes:
            task = group.create_task(self._send(push))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _send(self, push: Push) -> None:
        outcome = await push_fallback.send(self._runtime, push)
        self._results.append((push, outcome))
        self._ended.set()

    async def some_ended(self) -> None:
        """Wait until a send has ended, and GATHER_S longer, so that several pushes are claimed together."""
        await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        await real_sleep(GATHER_S)

    async def keep_storing(self) -> None:
        """Until cancelled, store the results of GATHER_S together."""
        while True:
            await self._ended.wait()
            await real_sleep(GATHER_S)
            self._ended.clear()
            results, self._results = self._results, []
            await push_fallback.settle(self._runtime, results)


async def _keep_sending(runtime: Runtime) -> None:
    """Keep up to SENDS sends under way, so that a slow send holds up no other."""
    sends = Sends(runtime)
    async with asyncio.TaskGroup() as group:
        group.create_task(sends.keep_storing())
        while True:
            free = sends.free
            taken = await _claimed(runtime, free)
            sends.begin(taken, group)
            if len(taken) == free:
                await sends.some_ended()
            else:  # nothing else is due
                await real_sleep(TICK_S)


async def _claimed(runtime: Runtime, free: int) -> list[Push]:
    try:
        return await push_fallback.claim_due(runtime, limit=free)
    except Unavailable:
        return []
    except Exception:
        log.exception("claiming due pushes failed")
        return []
