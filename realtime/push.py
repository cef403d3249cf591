"""The timers of the push fallback: events that no device acknowledges in time are pushed (docs/protocol.md#pushes)."""

import asyncio
from collections.abc import Awaitable, Callable

from core.base import logs
from core.base.clock import real_sleep
from core.base.errors import Unavailable
from core.flows import push_fallback
from core.runtime import Runtime
from core.transactions import TRANSIENT_ERRORS

TICK_S = 0.5
CHATS_S = 1.0  # less often than TICK_S, because each look at all open chats costs more
SENDS = 16  # at the same time; only as many pushes are claimed as can be sent now, so that no claim waits
log = logs.get("push")


async def run(runtime: Runtime) -> None:
    """Plan and send due pushes until cancelled. Several processes may do so at the same time."""
    many = push_fallback.PLAN_AT_ONCE
    async with asyncio.TaskGroup() as group:  # separate tasks, so that a slow provider does not delay planning
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
        except (Unavailable, *TRANSIENT_ERRORS):
            continue
        except Exception:
            log.exception("planning pushes failed")


async def _keep_sending(runtime: Runtime) -> None:
    """Keep up to SENDS sends under way, so that a slow send holds up no other."""
    sending: set[asyncio.Task[None]] = set()
    async with asyncio.TaskGroup() as group:
        while True:
            free = SENDS - len(sending)
            taken = await _claimed(runtime, free)
            sending |= {group.create_task(push_fallback.send(runtime, push)) for push in taken}
            if len(taken) == free:
                await asyncio.wait(sending, return_when=asyncio.FIRST_COMPLETED)
            else:  # nothing else is due
                await real_sleep(TICK_S)
            sending = {task for task in sending if not task.done()}


async def _claimed(runtime: Runtime, free: int) -> list[push_fallback.Push]:
    try:
        return await push_fallback.claim_due(runtime, limit=free)
    except (Unavailable, *TRANSIENT_ERRORS):
        return []
    except Exception:
        log.exception("claiming due pushes failed")
        return []
