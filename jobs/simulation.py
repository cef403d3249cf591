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
from asyncio.subprocess import PIPE, Process
from typing import Any

import attrs
import msgspec

from core.base.errors import Unavailable
from core.base.progress import part
from core.config.cache import Config
from core.desk.simulations import simulate
from core.pairing.simulation.forecast import forecast
from core.pairing.simulation.history import History, read_history
from core.pairing.simulation.rules import TRIABLE, ZONE, Change, NotEnoughHistory, SimulationFailure
from core.runtime.container import Runtime, open_databases
from core.settings import environment
from core.telemetry import logs

LIMIT_S = 120.0  # real; a simulation that takes longer is killed
RENEW_EVERY_S = 1.0
NICE = 10  # a tenth of the share of another process; with the lowest priority a busy machine would never finish one
MOST_BYTES = 384 * 2**20  # of data; with the jobs process less than the 512 MiB of its unit
LONGEST_LINE = 2**22  # bytes of the result
READ = 0.2  # share of the time that reading takes
REPLICA_LOOKS = 3  # the replica's lag is known after the first one, unless it is behind
DIED: dict[str, Any] = {"failure": SimulationFailure.DIED}

log = logs.get("simulation")


async def run_waiting(runtime: Runtime, *, limit_s: float = LIMIT_S, most_bytes: int = MOST_BYTES) -> None:
    """Sweep: run the simulation that waits, if any, and end one whose process has died."""
    claimed = await simulate.claim(runtime)
    if claimed is None:
        return
    until, settings = runtime.now(), runtime.settings
    wanted = {
        "most_bytes": most_bytes,
        "between": (until - dt.timedelta(days=claimed.since_days), until),
        "values": {name: runtime.config.values[name] for name in (*TRIABLE, ZONE)},
        "change": {"settings": claimed.settings, "extra_shifts": claimed.extra_shifts},
        # They may have been found without the environment (tools/commands/environment.py).
        "databases": {"database_url": settings.database_url, "database_read_url": settings.database_read_url},
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "jobs.simulation", stdin=PIPE, stdout=PIPE, limit=LONGEST_LINE
    )
    try:
        async with asyncio.timeout(limit_s):
            end = await follow(runtime, claimed.id, process, msgspec.json.encode(wanted) + b"\n")
    except TimeoutError:
        end = {"failure": SimulationFailure.TOO_SLOW}
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    if "failure" in end:
        log.warning("a simulation failed", reason=end["failure"], exit_code=process.returncode)
    await simulate.finish(runtime, claimed.id, **end)


async def follow(runtime: Runtime, simulation_id: str, process: Process, wanted: bytes) -> dict[str, Any]:
    """Tell the child process what to try, renew the claim while it computes, and return its result or failure.

    Stop early when the claim is lost, or when this process stops.
    """
    assert process.stdin is not None
    assert process.stdout is not None
    if not process.stdin.is_closing():  # it is if the child has died already, and uvloop then refuses to write
        with contextlib.suppress(ConnectionError):
            process.stdin.write(wanted)
            await process.stdin.drain()
    percent, is_ours = 0, True
    while is_ours and not runtime.readiness.draining:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(RENEW_EVERY_S):
                line = await process.stdout.readline()
            said = msgspec.json.decode(line) if line else DIED
            if "percent" not in said:
                return said
            percent = said["percent"]
        with contextlib.suppress(Unavailable):
            is_ours = await simulate.renew(runtime, simulation_id, percent=percent)
    return DIED


async def _read(wanted: dict[str, Any]) -> History:
    settings = attrs.evolve(environment.read(os.environ), **wanted["databases"])
    databases = await open_databases(settings, pool_size=1, commit_pool_size=0)
    try:
        for _ in range(REPLICA_LOOKS):
            await databases.reports.check()
        since, until = map(dt.datetime.fromisoformat, wanted["between"])
        return await read_history(databases.reports, Config(**wanted["values"]), since, until)
    finally:
        await databases.close()


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
    history = asyncio.run(_read(wanted))
    report = part(lambda share, _: _say(percent=round(100 * share)), READ, 1.0)
    try:
        _say(result=forecast(history, Change(**wanted["change"]), progress=report))
    except NotEnoughHistory as error:
        _say(failure=SimulationFailure.NOT_ENOUGH_HISTORY, details=error.details)


if __name__ == "__main__":
    main()
