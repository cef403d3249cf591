"""Reads of many callers in one statement.

How this works: whoever asks while a statement is under way shares the next one with all others who ask meanwhile. Nobody
waits for a timer, so an idle process answers at once; when ten thousand sockets come back together, a read costs each of
them a part of a statement instead of one. What is read for a caller is always read after he has asked. When a statement
fails, all who wait are told so: nobody waits for a second one to fail.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Generic, TypeVar

V = TypeVar("V")
AT_ONCE = 500  # keys of one statement: bounds how long the first caller waits for the last one's rows


class Together(Generic[V]):
    """Reads rows by key. `read` gets the keys and answers for those that have something."""

    def __init__(self, read: Callable[[list[str]], Awaitable[Mapping[str, V]]], *, nothing: V) -> None:
        self._read = read
        self._nothing = nothing
        self._waiting: dict[str, list[asyncio.Future[V]]] = {}
        self._reader: asyncio.Task[None] | None = None

    async def of(self, key: str) -> V:
        """Return what there is for a key. Raises what the statement raises."""
        return await self._ask(key)

    async def of_all(self, keys: Sequence[str]) -> list[V]:
        """Return what there is for each of some keys. Raises what a statement raises."""
        asked = [self._ask(key) for key in keys]
        try:
            return [await future for future in asked]
        finally:
            for future in asked:  # what is not waited for any more
                if not future.cancel() and not future.cancelled():
                    future.exception()

    def _ask(self, key: str) -> asyncio.Future[V]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[V] = loop.create_future()
        self._waiting.setdefault(key, []).append(future)
        if self._reader is None:
            self._reader = loop.create_task(self._serve())
        return future

    async def _serve(self) -> None:
        asked: dict[str, list[asyncio.Future[V]]] = {}
        try:
            while self._waiting:
                asked = {key: self._waiting.pop(key) for key in list(self._waiting)[:AT_ONCE]}
                found = await self._read(list(asked))
                for key, futures in asked.items():
                    value = found.get(key, self._nothing)
                    for future in futures:
                        if not future.done():  # whoever asked may have left
                            future.set_result(value)
        except asyncio.CancelledError:
            self._tell_all(asked, None)
            raise
        except Exception as error:
            self._tell_all(asked, error)
        finally:
            self._reader = None

    def _tell_all(self, asked: Mapping[str, list[asyncio.Future[V]]], error: Exception | None) -> None:
        left, self._waiting = self._waiting, {}
        for future in (future for futures in (*asked.values(), *left.values()) for future in futures):
            if future.done():
                continue
            if error is None:
                future.cancel()
            else:
                future.set_exception(error)
