"""A batch loader: reads the rows of many callers in one statement.

Callers who ask in one iteration of the event loop share a statement, and so do callers who ask while `statements` of
them run. With `pause_s`, a statement also waits until that time after the start of the one before, so a busy process
makes few statements. An idle one answers at once in both cases. When ten thousand sockets reconnect together, each read
costs a fraction of a statement. A caller's row is always read after the caller has asked. If a statement fails while no
other runs, all waiting callers get its error, so that none waits for a second failure.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Generic, TypeVar

from core.base.clock import monotonic, real_sleep

V = TypeVar("V")
PAUSE_S = 0.005  # for the reads of connecting sockets and of new callers: at most 200 statements of a kind a second
AT_ONCE = 500  # keys per statement: bounds how long the first caller waits for the last one's row


class BatchLoader(Generic[V]):
    """Loads values by key. `read` gets keys and returns the values of those that have one; the others get `nothing`.

    At most `statements` run at the same time. More than one keeps a slow row from delaying all other callers.
    `pause_s`: real seconds from the start of one statement to that of the next, at least; only for one at a time.
    """

    def __init__(
        self,
        read: Callable[[list[str]], Awaitable[Mapping[str, V]]],
        *,
        nothing: V,
        statements: int = 1,
        pause_s: float = 0.0,
    ) -> None:
        assert statements == 1 or not pause_s
        self._read = read
        self._nothing = nothing
        self._statements = statements
        self._pause_s = pause_s
        self._next_at = -math.inf  # monotonic time before which no statement starts
        self._waiting: dict[str, list[asyncio.Future[V]]] = {}
        self._readers: set[asyncio.Task[None]] = set()
        self._starting = False  # a reader begins in the next iteration

    async def of(self, key: str) -> V:
        """Return the value of a key. Raises any error of `read`."""
        return await self._ask(key)

    async def of_all(self, keys: Sequence[str]) -> list[V]:
        """Return the value of each key, in order. Raises any error of `read`."""
        asked = [self._ask(key) for key in keys]
        try:
            return [await future for future in asked]
        finally:
            for future in asked:  # after an error: cancel the others, or mark their errors as seen
                if not future.cancel() and not future.cancelled():
                    future.exception()

    def _ask(self, key: str) -> asyncio.Future[V]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[V] = loop.create_future()
        self._waiting.setdefault(key, []).append(future)
        if not self._starting and len(self._readers) < self._statements:
            self._starting = True
            self._readers.add(loop.create_task(self._serve()))
        return future

    async def _serve(self) -> None:
        asked: dict[str, list[asyncio.Future[V]]] = {}
        self._starting = False
        try:
            while self._waiting:
                if self._pause_s:
                    await real_sleep(self._next_at - monotonic())  # at once if that is negative
                    self._next_at = monotonic() + self._pause_s
                asked = {key: self._waiting.pop(key) for key in list(self._waiting)[:AT_ONCE]}
                found = await self._read(list(asked))
                for key, futures in asked.items():
                    value = found.get(key, self._nothing)
                    for future in futures:
                        if not future.done():  # the caller may have been cancelled
                            future.set_result(value)
        except asyncio.CancelledError:
            self._end(asked, None)
            raise
        except Exception as error:
            self._end(asked, error)
        finally:
            reader = asyncio.current_task()
            assert reader is not None
            self._readers.discard(reader)  # now, because the next caller starts one if there are too few

    def _end(self, asked: Mapping[str, list[asyncio.Future[V]]], error: Exception | None) -> None:
        """End the calls of a failed statement, and those that wait if no other statement will read them."""
        left: Mapping[str, list[asyncio.Future[V]]] = {}
        if len(self._readers) == 1:
            left, self._waiting = self._waiting, {}
        for future in (future for futures in (*asked.values(), *left.values()) for future in futures):
            if future.done():
                continue
            if error is None:
                future.cancel()
            else:
                future.set_exception(error)
