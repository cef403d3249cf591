"""Run the simulation that operators have asked for, one in the cluster at a time (docs/simulation.md).

It runs in a child process (`python -m jobs.simulation`) of low priority, so no request waits longer. The child reads what
to try from its standard input, and writes its progress and the result as lines of JSON. It ends when its input does, so
it never outlives this process, and is killed after LIMIT_S. It may use MOST_BYTES: it shares the memory of this process's
unit or container.
"""

import asyncio
import contextlib
import datetime as dt
import os
import resource
import sys
import threading
from typing import Any

import attrs
import msgspec

from core.base.clock import real_sleep
from core.base.errors import Unavailable
from core.base.progress import part
from core.desk.simulations import simulate
from core.desk.simulations.rules import LIMIT_S, RENEW_EVERY_S, SimulationFailure
from core.desk.simulations.simulate import ClaimedSimulation
from core.pairing.simulation.forecast import forecast
from core.pairing.simulation.history import History, read_history
from core.pairing.simulation.rules import NotEnoughHistory
from core.runtime.container import Runtime, open_databases
from core.settings import environment
from core.settings.settings import Settings
from core.telemetry import logs

NICE = 10  # a tenth of the share of another process; with the lowest priority a busy machine would never finish one
MOST_BYTES = 384 * 2**20  # of data; with the jobs process less than the 512 MiB of its unit
LONGEST_LINE = 2**22  # bytes of the result
READ = 0.2  # share of the time that reading takes
REPLICA_LOOKS = 3  # the replica's lag is known after the first one, unless it is behind

log = logs.get("simulation")


async def run_waiting(runtime: Runtime, *, limit_s: float = LIMIT_S, most_bytes: int = MOST_BYTES) -> None:
    """Sweep: run the simulation that waits, if any, and end one whose process has died."""
    claimed = await simulate.claim(runtime)
    if claimed is not None:
        await simulate.finish(runtime, claimed.id, **await _Child(runtime, claimed, most_bytes).run(limit_s))


class _Child:
    """The process that computes a simulation, and what it has said."""

    def __init__(self, runtime: Runtime, claimed: ClaimedSimulation, most_bytes: int) -> None:
        self._runtime = runtime
        self._claimed = claimed
        self._most_bytes = most_bytes
        self._percent = 0
        self._end: dict[str, Any] = {"failure": SimulationFailure.DIED}

    async def run(self, limit_s: float) -> dict[str, Any]:
        """Run the process to its end, and return the result or the failure."""
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "jobs.simulation", stdin=pipe, stdout=pipe, limit=LONGEST_LINE
        )
        renewing = asyncio.create_task(self._renew(process))
        try:
            async with asyncio.timeout(limit_s):
                await self._follow(process)
        except TimeoutError:
            self._end = {"failure": SimulationFailure.TOO_SLOW}
        finally:
            renewing.cancel()
            _kill(process)
            await process.wait()
        if "failure" in self._end:
            log.warning("a simulation failed", reason=self._end["failure"], exit_code=process.returncode)
        return self._end

    async def _follow(self, process: asyncio.subprocess.Process) -> None:
        """Say what to try, and read what the process says until it ends."""
        assert process.stdin is not None
        assert process.stdout is not None
        until, settings = self._runtime.now(), self._runtime.settings
        wanted = {
            "most_bytes": self._most_bytes,
            "since": until - dt.timedelta(days=self._claimed.since_days),
            "until": until,
            "change": (self._claimed.settings, self._claimed.extra_shifts),
            # They may have been found without the environment (tools/commands/environment.py).
            "databases": {"database_url": settings.database_url, "database_read_url": settings.database_read_url},
        }
        with contextlib.suppress(ConnectionError):
            process.stdin.write(msgspec.json.encode(wanted) + b"\n")
            await process.stdin.drain()
        async for line in process.stdout:
            match msgspec.json.decode(line):
                case {"percent": percent}:
                    self._percent = percent
                case said:
                    self._end = said

    async def _renew(self, process: asyncio.subprocess.Process) -> None:
        """Renew the claim while the process runs. Kill it when the claim is lost, or this process stops."""
        is_ours = True
        while is_ours and not self._runtime.readiness.draining:
            await real_sleep(RENEW_EVERY_S)
            with contextlib.suppress(Unavailable):
                is_ours = await simulate.renew(self._runtime, self._claimed.id, percent=self._percent)
        _kill(process)


def _kill(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.kill()


async def _read(settings: Settings, since: str, until: str) -> History:
    databases = await open_databases(settings, pool_size=1, commit_pool_size=0)
    try:
        for _ in range(REPLICA_LOOKS):
            await databases.reports.check()
        return await read_history(databases.reports, dt.datetime.fromisoformat(since), dt.datetime.fromisoformat(until))
    finally:
        await databases.close()


def _compute(wanted: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a simulation, or why there is none."""
    settings = attrs.evolve(environment.read(os.environ), **wanted["databases"])
    history = asyncio.run(_read(settings, wanted["since"], wanted["until"]))
    report = part(lambda share, _: _say(percent=round(100 * share)), READ, 1.0)
    try:
        return {"result": forecast(history, simulate.change_of(*wanted["change"]), progress=report).to_json()}
    except NotEnoughHistory as error:
        return {"failure": SimulationFailure.NOT_ENOUGH_HISTORY, "details": error.details}


def _say(**said: Any) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(said) + b"\n")
    sys.stdout.buffer.flush()


def _end_with_parent() -> None:
    """End this process when its input ends: the jobs process has died."""
    while os.read(sys.stdin.fileno(), 1):  # unlike a buffered reader it holds no lock that the end needs
        pass
    os._exit(1)


def main() -> None:
    """Be the child process."""
    os.nice(NICE)
    logs.configure("simulation")
    wanted = msgspec.json.decode(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # Not RLIMIT_AS, which counts libraries and what the allocator only reserves.
    resource.setrlimit(resource.RLIMIT_DATA, (wanted["most_bytes"], wanted["most_bytes"]))
    _say(**_compute(wanted))


if __name__ == "__main__":
    main()
