"""The jobs process is killed while its child simulates: the child dies, and the next process ends the simulation."""

import asyncio
import os
import pathlib
from collections.abc import Iterator

import pytest

from tests.http.operators.past_weeks import past_weeks
from tests.stack import Stack, World

pytestmark = pytest.mark.anyio

PATH = "/internal/simulations"


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """Yield a service of the file's own, whose processes it kills."""
    made = Stack()
    yield made
    made.close()


async def children(pid: int) -> list[int]:
    return await asyncio.to_thread(_children, pid)


def _children(pid: int) -> list[int]:
    tasks = pathlib.Path(f"/proc/{pid}/task").iterdir()
    return [int(child) for task in tasks for child in (task / "children").read_text().split()]


async def runs(pid: int) -> bool:
    return await asyncio.to_thread(pathlib.Path(f"/proc/{pid}").exists)


async def test_killed_jobs_process_takes_its_simulation_along(stack: Stack) -> None:
    world = World(stack)
    root = await world.operator()
    jobs = stack.processes["jobs"].pid  # type: ignore[attr-defined]
    async with past_weeks(stack.transaction):
        asked = await root.post(PATH, {"settings": {"blast_size": 2}})
        pid = (await world.until(lambda: children(jobs), bool))[0]
        os.kill(pid, 19)  # stopped, it can't finish before the kill
        stack.kill("jobs")
        os.kill(pid, 18)
        await world.until(lambda: runs(pid), lambda seen: not seen)
        stack.start("jobs")
        ended = await world.until(
            lambda: root.get(f"{PATH}/{asked['id']}"), lambda seen: seen["status"] != "running", timeout=40
        )
        assert (ended["status"], ended["failure"]) == ("failed", "died")
        again = await root.post(PATH, {"settings": {"blast_size": 2}})
        done = await world.until(
            lambda: root.get(f"{PATH}/{again['id']}"), lambda seen: seen["status"] != "running", timeout=120
        )
        assert done["status"] == "done"
    await world.close()
