"""Sleeps until the earliest deadline in the database; the bus wakes it when a sooner one is set.

How this works: one query tells the next moment of every kind of work. Until then nothing runs. A signal about a sooner
deadline shortens the sleep without a query. Once a second the query is made anyway, so a lost signal or a dead process
costs a second. Sweeps run beside it, each in a task of its own. Several processes may run side by side: work is taken with SKIP LOCKED, and each effect happens once.
"""

import asyncio
import contextlib
import datetime as dt

from core.base import logs, metrics
from core.base.clock import monotonic, real_sleep
from core.base.errors import Unavailable
from core.events.signals import DeadlineSet, Signal
from core.flows import pairing_advance
from core.reads import deadlines
from core.runtime import AWAY, Runtime
from jobs.schedule import DEADLINES, SWEEPS, Deadline, Sweep

LOOK_EVERY_S = 1.0
AGAIN_S = 0.02  # when what is due is in somebody else's hands
log = logs.get("jobs")


class Runner:
    """Runs the schedule until cancelled."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._wake = asyncio.Event()
        self._next: dt.datetime | None = None
        self._stopping = asyncio.Event()
        self._ended = asyncio.Event()

    def stop(self) -> None:
        """Begin no more turns and sweeps; those that run are finished."""
        self._stopping.set()
        self._next = None
        self._wake.set()

    async def ended(self, timeout: float) -> None:
        """Wait for the last turn, so long at most."""
        try:
            async with asyncio.timeout(timeout):
                await self._ended.wait()
        except TimeoutError:
            log.warning("the last turn did not end in time; what it left is found by another process")

    def on_signal(self, signal: Signal) -> None:
        """Take a sooner deadline."""
        if isinstance(signal, DeadlineSet) and (self._next is None or signal.at < self._next):
            self._next = signal.at
            self._wake.set()

    async def run(self) -> None:
        """Work until cancelled. Every sweep runs at once: what a restart left is found."""
        async with asyncio.TaskGroup() as group:
            for sweep in SWEEPS:
                group.create_task(self._sweep(sweep))
            await self._turns()
        self._ended.set()
        await asyncio.Event().wait()

    async def _turns(self) -> None:
        while not self._stopping.is_set():
            try:
                await self._turn()
            except (Unavailable, *AWAY):
                await real_sleep(0.25)
            except Exception:
                log.exception("a turn failed")
                await real_sleep(0.25)

    async def _turn(self) -> None:
        runtime = self._runtime
        self._wake.clear()
        self._next = None
        looked_at = monotonic()
        upcoming = await deadlines.upcoming(runtime)
        now = runtime.now()
        due = [job for job in DEADLINES if job.kind in upcoming and upcoming[job.kind] <= now]
        for job in due:
            await self._work(job, upcoming[job.kind])
        if "round" in upcoming:
            await pairing_advance.invite_free(runtime)
        if due:
            await real_sleep(AGAIN_S)
            return
        later = [moment for moment in upcoming.values() if moment > now]
        earliest = min(later, default=None)
        if earliest is not None and (self._next is None or earliest < self._next):
            self._next = earliest
        await self._sleep(looked_at)

    async def _sleep(self, looked_at: float) -> None:
        """Wait for the next deadline, for a sooner one, or for the second to pass."""
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

    async def _work(self, job: Deadline, moment: dt.datetime) -> None:
        late = -self._runtime.clock.real_seconds_until(moment)
        metrics.JOB_LATE_SECONDS.labels(job.kind).observe(max(0.0, late))
        metrics.JOB_RUNS.labels(job.kind).inc()
        try:
            await job.run(self._runtime)
        except (Unavailable, *AWAY):
            metrics.JOB_FAILURES.labels(job.kind).inc()
        except Exception:
            metrics.JOB_FAILURES.labels(job.kind).inc()
            log.exception("a job failed", job=job.kind)

    async def _sweep(self, sweep: Sweep) -> None:
        """Run a sweep again and again, beside the deadlines: it may have to wait for somebody outside."""
        while not self._stopping.is_set():
            metrics.JOB_RUNS.labels(sweep.name).inc()
            pause = LOOK_EVERY_S
            try:
                await sweep.run(self._runtime)
                pause = max(pause, sweep.every_s / self._runtime.clock.scale)
            except (Unavailable, *AWAY):
                metrics.JOB_FAILURES.labels(sweep.name).inc()
            except Exception:
                metrics.JOB_FAILURES.labels(sweep.name).inc()
                log.exception("a sweep failed", sweep=sweep.name)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._stopping.wait()
