"""An event loop whose time stands still until a test advances it."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any


class VirtualSelector(selectors.SelectSelector):
    """A selector that never waits. When the loop has nothing to do, it wakes the test or jumps to the next timer."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self._ends_at = 0.0
        self._waiting: asyncio.Future[None] | None = None

    async def advance(self, seconds: float) -> None:
        """Run everything that is due within `seconds`, in its order; return when nothing is left to do."""
        self._ends_at = self.now + seconds
        self._waiting = asyncio.get_running_loop().create_future()
        await self._waiting

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return no event; `timeout` is the time until the loop's next timer, None without one."""
        if timeout is not None and timeout <= 0:
            return []
        if timeout is not None and self.now + timeout <= self._ends_at:
            self.now += timeout
        elif self._waiting is not None:
            self.now = self._ends_at
            waiting, self._waiting = self._waiting, None
            waiting.set_result(None)
        else:
            raise RuntimeError("everything waits, and nothing will ever come")
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop on virtual time, which begins at 0."""

    def __init__(self) -> None:
        self.selector = VirtualSelector()
        super().__init__(self.selector)

    def time(self) -> float:
        """Return the virtual seconds."""
        return self.selector.now


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine on virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(main)


async def advance(seconds: float) -> None:
    """Let virtual time pass."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    await loop.selector.advance(seconds)
