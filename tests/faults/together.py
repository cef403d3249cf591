"""Tests of a module that run at the same time, because most of their time is waiting."""

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

import attrs
import pytest

Body = Callable[..., Coroutine[Any, Any, None]]


@attrs.frozen(kw_only=True)
class Part:
    """A test: its name, its body, the service on which it runs (its lane), and its place in the order of that lane's tests."""

    name: str
    body: Body
    lane: int
    step: int


class Together:
    """The tests of a module.

    The module's fixture `plays` runs them with `start`: those of all lanes at the same time, those of a lane by their
    steps. Each test waits for its own end. The event loop runs while one of them waits.
    """

    def __init__(self) -> None:
        self._parts: list[Part] = []
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def test(
        self, *, lane: int = 0, step: int = 0, cases: Sequence[str] = ()
    ) -> Callable[[Body], Callable[..., Awaitable[None]]]:
        """Return the decorator of a test, which gets what the fixture passes to it instead of fixtures.

        A test with `cases` is one test for each of them, which gets it as its argument `case`.
        """

        def decorate(body: Body) -> Callable[..., Awaitable[None]]:
            named = {f"{body.__name__}[{case}]": functools.partial(body, case=case) for case in cases}
            for name, one in (named or {body.__name__: body}).items():
                self._parts.append(Part(name=name, body=one, lane=lane, step=step))

            @functools.wraps(body)
            async def wait(plays: None, case: str | None = None) -> None:
                await self._tasks[body.__name__ if case is None else f"{body.__name__}[{case}]"]

            fixtures = ("plays", "case") if cases else ("plays",)
            wait.__signature__ = inspect.Signature(  # pyright: ignore[reportAttributeAccessIssue]
                [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in fixtures]
            )
            return pytest.mark.parametrize("case", cases)(wait) if cases else wait

        return decorate

    def start(self, run: Callable[[Part], Coroutine[Any, Any, None]], items: Sequence[pytest.Item]) -> None:
        """Start the selected tests, each by `run`. A step begins when all tests of the step before have ended."""
        selected = {item.name for item in items}
        parts = [part for part in self._parts if part.name in selected]
        for part in sorted(parts, key=lambda one: one.step):
            earlier = [one for one in parts if one.lane == part.lane and one.step < part.step]
            before = [self._tasks[one.name] for one in earlier]
            self._tasks[part.name] = asyncio.create_task(self._after(before, part, run))

    async def _after(
        self, before: Sequence[asyncio.Task[None]], part: Part, run: Callable[[Part], Coroutine[Any, Any, None]]
    ) -> None:
        if before:
            await asyncio.wait(before)
        await run(part)

    async def stop(self) -> None:
        """Cancel the tests that still run, after a failure with `-x`."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
