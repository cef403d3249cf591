"""What the commands of `sesi` share: the console and a runtime."""

import asyncio
from collections.abc import Awaitable, Callable

from rich.console import Console

from core.app.reactions import open_runtime
from core.runtime.container import Reaction, Runtime
from tools.commands import Failed, environment

console = Console(highlight=False)
if not console.is_terminal:
    console.width = 1000  # lines for programs are never wrapped


def with_runtime(work: Callable[[Runtime], Awaitable[int]], *, react: Reaction | None = None) -> int:
    """Run `work` against the service's database, without opening a port. `react` returns the flows that follow it.

    Raises Failed if the database is not ready.
    """

    async def run() -> int:
        runtime = await open_runtime(environment.read(), pool_size=2, react=react)
        try:
            ready, _, why = await runtime.readiness.check()
            if not ready:
                raise Failed(why or "the database is not ready")
            runtime.tasks.spawn(runtime.bus.run())
            return await work(runtime)
        finally:
            await runtime.close()

    return asyncio.run(run())
