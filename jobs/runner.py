"""The scheduler of the jobs process: it runs deadlines when they are due, and sweeps at intervals.

One query returns the deadlines that are due or near, the earliest of each kind of work, and the scheduler sleeps until
the first. A signal about an earlier deadline shortens the sleep without a query. The query also runs once a second, so
a lost signal or a dead process costs at most a second. Each kind of due work runs in its own task: ten thousand mitras
who fall silent at once take seconds, and no chat may end later because of them. A kind never runs twice at the same
time in one process; when it ends, the query runs again. Each sweep has its own task, too. Several jobs processes share
the work: rows are claimed with SKIP LOCKED, and each effect happens once (docs/invariants.md#i7).
"""

import asyncio
import contextlib
import datetime as dt
from collections.abc import Awaitable, Callable
from typing import Any

from core.base.clock import monotonic, real_sleep
from core.base.errors import Unavailable
from core.desk import timed_work
from core.desk.timed_work import DEADLINES
from core.events.signals import DeadlineSet, Signal
from core.pairing import advance as pairing_advance
from core.runtime.container import Runtime
from core.telemetry import logs, metrics, traces
from jobs.schedule import SWEEPS, Sweep

LOOK_EVERY_S = 1.0
WITHIN_S = 2 * LOOK_EVERY_S  # how far a query looks ahead: beyond the next one
INVITING = "inviting"  # has no deadline: runs at each query while there is a search
INVITING_RESTS = 9  # pause after it, as a multiple of its duration, so that it runs at most a tenth of the time
AGAIN_S = 0.02  # pause before a kind runs again, because another process may have claimed the due rows
log = logs.get("jobs")


class ScheduleRunner:
    """Run the deadlines and sweeps of jobs/schedule.py until cancelled."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._wake = asyncio.Event()
        self._next: dt.datetime | None = None
        self._running: set[str] = set()
        self._stopping = asyncio.Event()
        self._ended = asyncio.Event()

    def stop(self) -> None:
        """Start no more work; running work is finished."""
        self._stopping.set()
        self._next = None
        self._wake.set()

    async def ended(self, timeout: float) -> None:
        """Wait up to `timeout` seconds for running work."""
        try:
            async with asyncio.timeout(timeout):
                await self._ended.wait()
        except TimeoutError:
            log.warning("running jobs did not end in time; another process will finish their work")

    def on_signal(self, signal: Signal) -> None:
        """Wake up earlier if a signal reports an earlier deadline."""
        if isinstance(signal, DeadlineSet) and (self._next is None or signal.at < self._next):
            self._next = signal.at
            self._wake.set()

    async def run(self) -> None:
        """Work until cancelled. Every sweep runs at the start, to finish what an earlier process left undone."""
        async with asyncio.TaskGroup() as group:
            for sweep in SWEEPS:
                group.create_task(self._sweep(sweep))
            await self._turns(group)
        self._ended.set()
        await asyncio.Event().wait()

    async def _turns(self, group: asyncio.TaskGroup) -> None:
        while not self._stopping.is_set():
            try:
                await self._turn(group)
            except Unavailable:
                await real_sleep(0.25)
            except Exception:
                log.exception("looking for due deadlines failed")
                await real_sleep(0.25)

    async def _turn(self, group: asyncio.TaskGroup) -> None:
        """Query the deadlines, start what is due, and wait for the next one."""
        self._wake.clear()
        self._next = None
        looked_at = monotonic()
        upcoming = await timed_work.upcoming(self._runtime, within_s=WITHIN_S)
        now = self._runtime.now()
        waiting = {kind: at for kind, at in upcoming.moments.items() if kind not in self._running}
        for kind in [kind for kind, at in waiting.items() if at <= now]:
            self._running.add(kind)
            group.create_task(self._work(kind, waiting.pop(kind)))
        if upcoming.is_searching and INVITING not in self._running:
            self._running.add(INVITING)
            group.create_task(self._invite())
        earliest = min(waiting.values(), default=None)
        if earliest is not None and (self._next is None or earliest < self._next):
            self._next = earliest
        await self._sleep(looked_at)

    async def _sleep(self, looked_at: float) -> None:
        """Wait until the next deadline, a signal about an earlier one, or LOOK_EVERY_S seconds after the last query."""
        while not self._stopping.is_set():
            left = looked_at + LOOK_EVERY_S - monotonic()
            if self._next is not None:
                left = min(left, self._runtime.clock.real_seconds_until(self._next))
            if left <= 0:
                return
            try:
                async with asyncio.timeout(left):
                    await self._wake.wait()
            except TimeoutError:
                return
            self._wake.clear()

    async def _work(self, kind: str, moment: dt.datetime) -> None:
        """Do the due work of one kind; then have its next deadline queried."""
        late = -self._runtime.clock.real_seconds_until(moment)
        metrics.JOB_LATE_SECONDS.labels(kind).observe(max(0.0, late))
        await self._do(kind, DEADLINES[kind])
        await real_sleep(AGAIN_S)
        self._running.discard(kind)
        self._next = self._runtime.now()
        self._wake.set()

    async def _invite(self) -> None:
        """Invite mitras who became available during a search without a signal; then pause."""
        began = monotonic()
        await self._do(INVITING, pairing_advance.invite_available)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout((monotonic() - began) * INVITING_RESTS):
                await self._stopping.wait()
        self._running.discard(INVITING)

    async def _do(self, name: str, run: Callable[[Runtime], Awaitable[Any]]) -> None:
        metrics.JOB_RUNS.labels(name).inc()
        try:
            with traces.span(f"job {name}"):
                await run(self._runtime)
        except Unavailable:
            metrics.JOB_FAILURES.labels(name).inc()
        except Exception:
            metrics.JOB_FAILURES.labels(name).inc()
            log.exception("job failed", job=name)

    async def _sweep(self, sweep: Sweep) -> None:
        """Run a sweep at its interval. It has its own task, because it may have to wait for a provider."""
        while not self._stopping.is_set():
            metrics.JOB_RUNS.labels(sweep.name).inc()
            pause = LOOK_EVERY_S
            try:
                with traces.span(f"sweep {sweep.name}"):
                    await sweep.run(self._runtime)
                pause = max(pause, sweep.every_s / self._runtime.clock.scale)
            except Unavailable:
                metrics.JOB_FAILURES.labels(sweep.name).inc()
            except Exception:
                metrics.JOB_FAILURES.labels(sweep.name).inc()
                log.exception("sweep failed", sweep=sweep.name)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._stopping.wait()
