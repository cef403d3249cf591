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
log = logs.get("push")


async def run(runtime: Runtime) -> None:
    """Plan and send what is due, until cancelled; any number of processes may do so side by side."""
    many = push_fallback.PLAN_AT_ONCE
    async with asyncio.TaskGroup() as group:  # a provider that takes its time must not hold up the planning
        group.create_task(_again_and_again(runtime, push_fallback.plan_events, many=many, every_s=TICK_S))
        group.create_task(_again_and_again(runtime, push_fallback.plan_chats, many=many, every_s=CHATS_S))
        group.create_task(_again_and_again(runtime, push_fallback.send_due, many=1, every_s=TICK_S))


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
