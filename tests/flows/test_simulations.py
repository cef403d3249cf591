"""Who runs a simulation, and what becomes of it if a process dies at any line, is killed, or is too slow."""

import asyncio
import json
import os
import pathlib
import sys
from typing import Any

import attrs
import pytest

from core.base import ids
from core.desk.simulations import simulate
from core.desk.simulations.simulate import KEEP_FOR, Simulation
from core.pairing.simulation.forecast import forecast
from core.pairing.simulation.history import read_history
from core.pairing.simulation.rules import DAY, Change, Forecast, SimulationFailure, SimulationRunning
from core.runtime.container import Runtime
from jobs.simulation import DIED, MOST_BYTES, NICE, follow, run_waiting
from tests.flows.conftest import Harness
from tests.http.operators.past_weeks import OFF, past_weeks

LOWERED = min(19, os.getpriority(os.PRIO_PROCESS, 0) + NICE)  # the priority of a child
END_CLAIM = "UPDATE simulations SET claimed_until_real_at = now() - interval '1 s' WHERE ended_at IS NULL"


@pytest.fixture
def simulating(clean_harness: Harness) -> Harness:
    """Yield a database without simulations."""
    clean_harness.run(clean_harness.empty("simulations"))
    return clean_harness


async def added(harness: Harness) -> str:
    """Store a simulation, whatever the history is; return its id."""
    simulation_id, operator = ids.new_id(), await harness.operator()
    wanted = (28, {"blast_size": 2}, [])
    async with harness.runtime.transaction() as tx:
        assert await tx.fetchval(simulate.SQL["add"], simulation_id, operator.user_id, tx.now, *wanted)
    return simulation_id


async def claimed(runtime: Runtime) -> Simulation:
    found = await simulate.claim(runtime)
    assert found is not None
    return found


async def seen(harness: Harness, simulation_id: str) -> Simulation:
    return await simulate.simulation(harness.runtime.db, simulation_id)


def children() -> list[int]:
    """Return the child processes of this one that compute a simulation."""
    own = pathlib.Path(f"/proc/{os.getpid()}/task")
    pids = [int(pid) for task in own.iterdir() for pid in (task / "children").read_text().split()]
    return [pid for pid in pids if b"jobs.simulation" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()]


async def child() -> int:
    """Return the child process that computes, as soon as there is one."""
    async with asyncio.timeout(20):
        while not (found := children()):  # noqa: ASYNC110 - the kernel signals no new process
            await asyncio.sleep(0.01)
    return found[0]


@pytest.mark.slow
def test_simulation_of_enough_history_is_computed_by_a_child_of_low_priority(simulating: Harness) -> None:
    async def play() -> tuple[Simulation, int]:
        async with past_weeks(simulating.runtime.transaction):
            simulation_id = await added(simulating)
            running = asyncio.create_task(run_waiting(simulating.runtime))
            pid, niceness = await child(), 0
            while children() and niceness < LOWERED:
                niceness = os.getpriority(os.PRIO_PROCESS, pid)
                await asyncio.sleep(0.01)
            await running
        return await seen(simulating, simulation_id), niceness

    found, niceness = simulating.run(play())
    assert found.failure is None
    assert found.percent == 100
    assert niceness >= LOWERED
    assert found.result is not None
    assert found.result.searches > 300
    assert not children()


# Rows as a clock that was set back leaves them, and as tests of other things do.
ODD_ROWS = (
    """UPDATE chat_sessions
       SET paired_at = created_at - interval '12 minutes', ended_at = created_at - interval '1 hour'
       WHERE paired_at IS NOT NULL AND extract(DAY FROM created_at)::int % 3 = 0""",
    "UPDATE chat_sessions SET created_at = ended_at WHERE status = 'failed'",
    """UPDATE chat_request_notifications SET responded_at = notified_at - interval '1 minute'
       WHERE extract(DAY FROM notified_at)::int % 3 = 1""",
    "DELETE FROM mitras WHERE id = (SELECT max(mitra_id::text)::uuid FROM chat_sessions)",
    "DELETE FROM mitra_online_logs WHERE mitra_id = (SELECT min(mitra_id::text)::uuid FROM chat_sessions)",
    """UPDATE mitra_online_logs SET timestamp = date_trunc('day', timestamp)
       WHERE extract(DAY FROM timestamp)::int % 5 = 0""",
)


def test_odd_history_is_forecast(simulating: Harness) -> None:
    runtime = simulating.runtime

    async def play() -> Forecast:
        async with past_weeks(runtime.transaction):
            async with runtime.transaction() as tx:
                await tx.execute(OFF)
                for statement in ODD_ROWS:
                    await tx.execute(statement)
            until = runtime.now()
            history = await read_history(runtime.reports, runtime.config, until - 28 * DAY, until)
        return forecast(history, Change(settings={"blast_size": 2}))

    assert simulating.run(play()).searches > 300


def test_simulation_of_too_little_history_says_what_is_missing(simulating: Harness) -> None:
    async def play() -> Simulation:
        simulation_id = await added(simulating)
        await run_waiting(simulating.runtime)
        return await seen(simulating, simulation_id)

    found = simulating.run(play())
    assert (found.failure, found.result) == (SimulationFailure.NOT_ENOUGH_HISTORY, None)
    assert found.details is not None
    assert (found.details["searches"], found.details["least_searches"]) == (0, 300)


def test_simulation_is_killed_at_its_limit(simulating: Harness) -> None:
    async def play() -> Simulation:
        simulation_id = await added(simulating)
        await run_waiting(simulating.runtime, limit_s=0.05)
        return await seen(simulating, simulation_id)

    assert simulating.run(play()).failure is SimulationFailure.TOO_SLOW
    assert not children()


@pytest.mark.slow
def test_simulation_that_needs_too_much_memory_has_no_result(simulating: Harness) -> None:
    async def play() -> Simulation:
        simulation_id = await added(simulating)
        await run_waiting(simulating.runtime, most_bytes=2**20)
        return await seen(simulating, simulation_id)

    assert simulating.run(play()).failure is SimulationFailure.DIED


def test_killed_child_ends_the_simulation_at_once(simulating: Harness) -> None:
    async def play() -> Simulation:
        simulation_id = await added(simulating)
        running = asyncio.create_task(run_waiting(simulating.runtime))
        os.kill(await child(), 9)
        await running
        return await seen(simulating, simulation_id)

    assert simulating.run(play()).failure is SimulationFailure.DIED


def test_child_that_has_died_before_it_was_told_what_to_try_is_noticed(simulating: Harness) -> None:
    async def play() -> dict[str, Any]:
        simulation_id = await added(simulating)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", "", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        await process.wait()
        return await follow(simulating.runtime, simulation_id, process, b"{}\n")

    assert simulating.run(play()) == DIED


def test_stopping_process_kills_the_child_and_ends_the_simulation(simulating: Harness) -> None:
    runtime = simulating.runtime

    async def play() -> Simulation:
        simulation_id = await added(simulating)
        running = asyncio.create_task(run_waiting(runtime))
        os.kill(await child(), 19)  # it would compute for minutes
        runtime.readiness.draining = True
        await running
        return await seen(simulating, simulation_id)

    try:
        assert simulating.run(play()).failure is SimulationFailure.DIED
    finally:
        runtime.readiness.draining = False
    assert not children()


@pytest.mark.slow
def test_child_ends_with_its_parent(simulating: Harness) -> None:
    """The parent's end of the pipe closes whatever it died of."""

    async def play() -> int:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "jobs.simulation", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL
        )
        assert process.stdin is not None
        settings = simulating.runtime.settings
        # A listener that never answers keeps it alive.
        async with await asyncio.start_server(lambda *_: None, "127.0.0.1", 0) as silent:
            url = f"postgresql://u@127.0.0.1:{silent.sockets[0].getsockname()[1]}/x"
            wanted = {
                "between": ["2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"], "change": {"settings": {"blast_size": 2}},
                "values": {}, "most_bytes": MOST_BYTES,
                "databases": {"database_url": url, "database_read_url": settings.database_read_url},
            }  # fmt: skip
            process.stdin.write(json.dumps(wanted).encode() + b"\n")
            await process.stdin.drain()
            process.stdin.close()
            async with asyncio.timeout(20):
                return await process.wait()

    assert simulating.run(play()) == 1


def test_one_process_claims_a_simulation(simulating: Harness) -> None:
    runtimes = [simulating.runtime, *(attrs.evolve(simulating.runtime, node=ids.new_id()) for _ in range(3))]

    async def play() -> list[Simulation | None]:
        await added(simulating)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(simulate.claim(runtime)) for runtime in runtimes]
        return [task.result() for task in tasks]

    assert sum(one is not None for one in simulating.run(play())) == 1


@pytest.mark.parametrize("renewed", [False, True], ids=["after the claim", "after a renewal"])
def test_simulation_of_a_dead_process_is_ended_by_another(simulating: Harness, renewed: bool) -> None:
    """The first process dies after a commit, and another one ends its simulation. Then the first can store nothing."""
    first = simulating.runtime
    second = attrs.evolve(first, node=ids.new_id())

    async def play() -> tuple[Simulation, Simulation]:
        simulation_id = await added(simulating)
        dead = await claimed(first)
        if renewed:
            assert await simulate.renew(first, dead.id, percent=40)
        assert await simulate.claim(second) is None
        assert (await seen(simulating, simulation_id)).ended_at is None
        await first.db.fetch(END_CLAIM)
        assert await simulate.claim(second) is None
        ended = await seen(simulating, simulation_id)
        assert not await simulate.renew(first, dead.id, percent=50)
        await simulate.finish(first, dead.id, result={"rows": []})
        next_id = await added(simulating)
        assert (await claimed(second)).id == next_id
        return ended, await seen(simulating, simulation_id)

    ended, after = simulating.run(play())
    assert ended == after
    assert (ended.failure, ended.percent) == (SimulationFailure.DIED, 40 if renewed else 0)


@pytest.mark.slow
def test_lost_claim_kills_the_child(simulating: Harness) -> None:
    runtime = simulating.runtime

    async def play() -> Simulation:
        simulation_id = await added(simulating)
        running = asyncio.create_task(run_waiting(runtime))
        os.kill(await child(), 19)
        await runtime.db.fetch(END_CLAIM)
        await simulate.claim(attrs.evolve(runtime, node=ids.new_id()))
        await running
        return await seen(simulating, simulation_id)

    assert simulating.run(play()).failure is SimulationFailure.DIED
    assert not children()


def test_second_simulation_is_refused_until_the_first_ends(simulating: Harness) -> None:
    runtime = simulating.runtime

    async def ask(value: int) -> Any:
        try:
            change = Change(settings={"blast_size": value})
            return await simulate.ask(runtime, await simulating.operator(), since_days=28, change=change)
        except SimulationRunning as refused:
            return refused.details

    async def play() -> None:
        async with past_weeks(runtime.transaction):
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(ask(value)) for value in (2, 3, 4)]
            found = [task.result() for task in tasks]
            (first,) = [one for one in found if isinstance(one, str)]
            assert [one for one in found if one != first] == [{"id": first}] * 2
            await simulate.finish(runtime, (await claimed(runtime)).id, failure=SimulationFailure.TOO_SLOW)
            assert isinstance(await ask(5), str)

    simulating.run(play())


def test_simulations_are_deleted_thirty_days_after_their_end(simulating: Harness) -> None:
    runtime = simulating.runtime

    async def play() -> list[str]:
        kept = []
        for age_s in (KEEP_FOR.total_seconds() - 60, KEEP_FOR.total_seconds() + 60):
            kept.append(await added(simulating))
            await simulate.finish(runtime, (await claimed(runtime)).id, failure=SimulationFailure.TOO_SLOW)
            sql = "UPDATE simulations SET ended_at = ended_at - make_interval(secs => $2) WHERE id = $1"
            await runtime.db.fetch(sql, kept[-1], age_s)
        waits = await added(simulating)
        await simulate.purge(runtime)
        left = {str(row["id"]) for row in await runtime.db.fetch("SELECT id FROM simulations")}
        assert left == {kept[0], waits}
        return kept

    assert len(simulating.run(play())) == 2
