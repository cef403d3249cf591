"""The push fallback's clock: this process owns it, beside its sockets (specification, Fixed by the user; contract 7)."""

import asyncio
from collections.abc import Awaitable, Callable

from core.base import logs
from core.base.clock import real_sleep
from core.base.errors import Unavailable
from core.flows import push_fallback
from core.runtime import AWAY, Runtime

TICK_S = 0.5
CHATS_S = 1.0  # every open chat is looked at, which costs more
SENDS = 16  # side by side; what is taken is sent now, so that nothing waits while it is held
log = logs.get("push")


async def run(runtime: Runtime) -> None:
    """Plan and send what is due, until cancelled; any number of processes may do so side by side."""
    many = push_fallback.PLAN_AT_ONCE
    async with asyncio.TaskGroup() as group:  # a provider that takes its time must not hold up the planning
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
        except (Unavailable, *AWAY):
            continue
        except Exception:
            log.exception("pushes could not be looked after")


async def _keep_sending(runtime: Runtime) -> None:
    """Keep as many sends under way as may be: a slow one takes up its own place, and no other waits for it."""
    sending: set[asyncio.Task[None]] = set()
    async with asyncio.TaskGroup() as group:
        while True:
            free = SENDS - len(sending)
            taken = await _taken(runtime, free)
            sending |= {group.create_task(push_fallback.send(runtime, push)) for push in taken}
            if len(taken) == free:
                await asyncio.wait(sending, return_when=asyncio.FIRST_COMPLETED)
            else:  # nothing else is due
                await real_sleep(TICK_S)
            sending = {task for task in sending if not task.done()}


async def _taken(runtime: Runtime, free: int) -> list[push_fallback.Push]:
    try:
        return await push_fallback.claim_due(runtime, limit=free)
    except (Unavailable, *AWAY):
        return []
    except Exception:
        log.exception("pushes could not be looked after")
        return []
