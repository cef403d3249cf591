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

    planner = push_fallback.UnheardPlanner(unheard)
    new, late, due = asyncio.Event(), asyncio.Event(), asyncio.Event()
    async with asyncio.TaskGroup() as group:  # separate tasks, so that a slow provider or bus does not delay the others
        group.create_task(_keep_looking(runtime, new=new, late=late, due=due))
        group.create_task(_keep_planning(runtime, planner.plan, new, due=due))
        group.create_task(_keep_planning(runtime, push_fallback.plan_events, late, due=due))
        group.create_task(_keep_planning_chats(runtime, due=due))
        group.create_task(_keep_sending(runtime, due))


async def _keep_looking(runtime: Runtime, *, new: asyncio.Event, late: asyncio.Event, due: asyncio.Event) -> None:
    """Wake the tasks that have something to do: one look for all of them, because most looks find nothing."""
    while True:
        await real_sleep(TICK_S)
        try:
            work = await push_fallback.work(runtime)
        except Unavailable:
            continue
        except Exception:
            log.exception("looking for pushes failed")
            continue
        for event, is_wanted in ((new, work.is_new), (late, work.is_late), (due, work.is_due)):
            if is_wanted:
                event.set()


async def _keep_planning(
    runtime: Runtime, plan: Callable[[Runtime], Awaitable[int]], wanted: asyncio.Event, *, due: asyncio.Event
) -> None:
    while True:
        await wanted.wait()
        wanted.clear()
        await _plan_all(runtime, plan, due=due)


async def _keep_planning_chats(runtime: Runtime, *, due: asyncio.Event) -> None:
    while True:
        await real_sleep(CHATS_S)
        await _plan_all(runtime, push_fallback.plan_chats, due=due)


async def _plan_all(runtime: Runtime, plan: Callable[[Runtime], Awaitable[int]], *, due: asyncio.Event) -> None:
    try:
        while planned := await plan(runtime):
            due.set()
            if planned < push_fallback.PLAN_AT_ONCE:
                return
    except Unavailable:
        return
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


async def _keep_sending(runtime: Runtime, due: asyncio.Event) -> None:
    """Keep up to SENDS sends under way while pushes are `due`, so that a slow send holds up no other."""
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
                await due.wait()
                due.clear()


async def _claimed(runtime: Runtime, free: int) -> list[Push]:
    try:
        return await push_fallback.claim_due(runtime, limit=free)
    except Unavailable:
        return []
    except Exception:
        log.exception("claiming due pushes failed")
        return []
