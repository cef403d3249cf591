"""Reads of many callers in one statement: which calls share a statement, and which callers get a failure."""

import asyncio
from collections.abc import Mapping

import pytest

from core.base.batch_loader import AT_ONCE, BatchLoader

pytestmark = pytest.mark.anyio


class Rows:
    """A reader that answers each statement on demand and records the keys."""

    def __init__(self) -> None:
        self.statements: list[list[str]] = []
        self.began = asyncio.Event()
        self.go_on = asyncio.Event()
        self.error: Exception | None = None

    async def read(self, keys: list[str]) -> Mapping[str, str]:
        self.statements.append(keys)
        self.began.set()
        await self.go_on.wait()
        if self.error is not None:
            raise self.error
        return {key: key.upper() for key in keys if key != "nobody"}


async def start_callers(rows: Rows, together: BatchLoader[str], *keys: str) -> list[asyncio.Task[str]]:
    """Start callers: the first has a statement alone, the others wait for the next one."""
    tasks = [asyncio.ensure_future(together.of(keys[0]))]
    await rows.began.wait()
    tasks += [asyncio.ensure_future(together.of(key)) for key in keys[1:]]
    await asyncio.sleep(0)
    return tasks


async def test_batch_loader_callers_during_a_statement_share_the_next_one() -> None:
    rows = Rows()
    together = BatchLoader(rows.read, nothing="-")
    tasks = await start_callers(rows, together, "a", "b", "c", "b", "a", "nobody")
    rows.go_on.set()
    assert [await task for task in tasks] == ["A", "B", "C", "B", "A", "-"]
    # "a" is read again, because a statement must start after the call
    assert rows.statements == [["a"], ["b", "c", "a", "nobody"]]


async def test_batch_loader_statement_has_a_bounded_number_of_keys() -> None:
    rows = Rows()
    rows.go_on.set()
    together = BatchLoader(rows.read, nothing="-")
    keys = [f"k{n}" for n in range(AT_ONCE + 3)]
    assert await together.of_all(keys) == [key.upper() for key in keys]
    assert [len(keys) for keys in rows.statements] == [AT_ONCE, 3]


async def test_batch_loader_with_a_pause_answers_the_first_caller_at_once_and_gathers_the_next_ones() -> None:
    rows = Rows()
    rows.go_on.set()
    loop, pause_s = asyncio.get_running_loop(), 0.5
    together = BatchLoader(rows.read, nothing="-", pause_s=pause_s)
    began = loop.time()
    assert await together.of("a") == "A"
    assert loop.time() - began < pause_s / 2
    tasks = []
    for key in "bcd":
        tasks.append(asyncio.ensure_future(together.of(key)))
        await asyncio.sleep(0)
    assert [await task for task in tasks] == ["B", "C", "D"]
    assert rows.statements == [["a"], ["b", "c", "d"]]
    assert loop.time() - began >= pause_s


async def test_batch_loader_failure_reaches_all_waiting_callers_and_the_next_retries() -> None:
    rows = Rows()
    together = BatchLoader(rows.read, nothing="-")
    tasks = await start_callers(rows, together, "a", "b", "c")
    rows.error = ConnectionError("away")
    rows.go_on.set()
    for task in tasks:
        with pytest.raises(ConnectionError):
            await task
    assert len(rows.statements) == 1  # no second statement was started only to fail
    rows.error = None
    assert await together.of("d") == "D"


async def test_batch_loader_caller_that_is_cancelled_does_not_affect_others() -> None:
    rows = Rows()
    together = BatchLoader(rows.read, nothing="-")
    gone, stays, other = await start_callers(rows, together, "a", "a", "b")
    whole = asyncio.ensure_future(together.of_all(["a", "b"]))
    await asyncio.sleep(0)
    for task in (gone, whole):
        task.cancel()
    rows.go_on.set()
    assert [await stays, await other] == ["A", "B"]
    assert (gone.cancelled(), whole.cancelled()) == (True, True)


async def test_batch_loader_callers_are_cancelled_when_the_reader_stops() -> None:
    rows = Rows()
    together = BatchLoader(rows.read, nothing="-")
    tasks = await start_callers(rows, together, "a", "b")
    (reader,) = together._readers
    reader.cancel()
    await asyncio.wait([reader, *tasks], timeout=5)
    assert [task.cancelled() for task in tasks] == [True, True]


async def test_batch_loader_with_two_statements_reads_past_a_slow_one() -> None:
    slow, quick = asyncio.Event(), asyncio.Event()
    statements: list[list[str]] = []

    async def read(keys: list[str]) -> Mapping[str, str]:
        statements.append(keys)
        await (slow if "slow" in keys else quick).wait()
        return {key: key.upper() for key in keys}

    together = BatchLoader(read, nothing="-", statements=2)
    first = asyncio.ensure_future(together.of("slow"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    others = [asyncio.ensure_future(together.of(key)) for key in ("a", "b")]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    waiting = asyncio.ensure_future(together.of("c"))
    await asyncio.sleep(0)
    quick.set()
    assert [await task for task in (*others, waiting)] == ["A", "B", "C"]
    assert statements == [["slow"], ["a", "b"], ["c"]]
    slow.set()
    assert await first == "SLOW"
    assert await together.of("d") == "D"


async def test_batch_loader_failure_of_one_statement_leaves_waiting_callers_to_the_other() -> None:
    fails, works = asyncio.Event(), asyncio.Event()

    async def read(keys: list[str]) -> Mapping[str, str]:
        if "bad" in keys:
            await fails.wait()
            raise ConnectionError("away")
        await works.wait()
        return {key: key.upper() for key in keys}

    together = BatchLoader(read, nothing="-", statements=2)
    tasks = []
    for key in ("bad", "good", "later"):
        tasks.append(asyncio.ensure_future(together.of(key)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    fails.set()
    with pytest.raises(ConnectionError):
        await tasks[0]
    works.set()
    assert [await task for task in tasks[1:]] == ["GOOD", "LATER"]
