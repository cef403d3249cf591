"""Each process renews a lease in the database every second. A gap between leases is recorded as an outage.

A process that cannot write keeps the time of its last success in memory. When the database is back, it records the time
since then as an outage of the database, except for what other processes covered. A process that has just started knows
nothing, but reads from the rows when the last process of its kind was alive. So every gap is found by the process that
comes back first, also if all of them died. A process that was suspended counts as dead for that time.

A process keeps its lease but begins a new series of renewals when its event loop is late, or when it refuses clients or
loses heartbeats because it is overloaded, for instance while thousands of phones connect again at once. It may have
missed heartbeats, so no mitra's silence counts until the load is over. core/cluster/outages/rules.py bounds that time.

The lease uses a separate database connection, because a busy pool is not an outage.
"""

import asyncio
import contextlib
import datetime as dt
import hashlib
import os
import pathlib
import socket

from core.base.addresses import host_and_port
from core.base.clock import monotonic, real_sleep
from core.base.errors import Unavailable
from core.cluster.outages import rules, store
from core.cluster.outages.rules import OUTAGE_OF, Outage, OutageKind, ProcessKind
from core.events.signals import DeadlineSet
from core.runtime.background import set_clock
from core.runtime.container import LEASE_ATTEMPT_S, Runtime
from core.telemetry import logs, metrics

AGAIN_S = 0.25  # before the retry of a failed renewal
LATE_S = 1.0  # delay of the event loop that counts as overload
START_S = 10.0  # for which a new process does not miss a kind that it has not seen: all may be starting
# What tells two machines of one host name apart, as far as this process may read it: installation, boot, and network.
MACHINE_ID, BOOT_ID = pathlib.Path("/etc/machine-id"), pathlib.Path("/proc/sys/kernel/random/boot_id")
NETWORK = pathlib.Path("/proc/self/ns/net")
KEEP_PROCESSES = dt.timedelta(days=1)
KEEP_OUTAGES = dt.timedelta(days=400)  # as long as webhook calls are kept, because disputes need both

log = logs.get("outages")


def machine() -> str:
    """Return the host name and a mark of this machine.

    With one mark, the system gives an address and port to one process at a time. A container has its own.
    """
    parts = []
    with contextlib.suppress(OSError):
        parts.append(MACHINE_ID.read_text())
    with contextlib.suppress(OSError):  # systemd hides it from the processes of our units
        parts.append(BOOT_ID.read_text())
    with contextlib.suppress(OSError):
        parts.append(str(NETWORK.stat().st_ino))
    return f"{socket.gethostname()}/{hashlib.sha256(' '.join(parts).encode()).hexdigest()[:8]}"


class ProcessLease:
    """The lease of this process. It is named after its machine, address and port, so that a process that is started
    again there takes the lease over."""

    def __init__(self, runtime: Runtime, kind: ProcessKind, *, host: str, port: int) -> None:
        self._runtime = runtime
        name = f"{kind} {machine()} {host_and_port(host, port)}"
        self._process = store.ProcessIdentity(name=name, kind=kind, scale=runtime.clock.scale, pid=os.getpid())
        self._began_at = monotonic()
        self._seen: set[str] = set()  # the kinds that had a lease at some time
        # The event loop. False at first, because a new process has lost the clients of the one before.
        self._is_on_time = False
        self._renewed_at: dt.datetime | None = None  # service time; None after a start and after a suspension
        self._succeeded_at = self._looked_at = monotonic()
        self._renewal_began_at = monotonic()  # of the last successful renewal
        self._open: set[OutageKind] = set()
        self._turn = asyncio.Lock()
        self._is_ended = False

    async def run(self) -> None:
        """Renew the lease until cancelled."""
        while True:
            began = monotonic()
            if began - self._looked_at > rules.LEASE_S:
                self._renewed_at = None
            self._looked_at = began
            async with self._turn:
                renewed = self._is_ended or await self._try()
            pause = max(0.0, began + rules.RENEW_EVERY_S - monotonic()) if renewed else AGAIN_S
            due = monotonic() + pause
            await real_sleep(pause)
            late_s = max(0.0, monotonic() - due)
            metrics.LOOP_LAG.observe(late_s)
            self._is_on_time = late_s < LATE_S

    async def end(self) -> None:
        """End the lease because the process stops. Without the database it expires a few seconds later."""
        self._is_ended = True
        try:
            async with asyncio.timeout(LEASE_ATTEMPT_S), self._turn:
                await store.end(self._runtime.leases, self._process)
        except (Unavailable, TimeoutError):
            log.info("the lease could not be ended and will expire: the database does not answer")

    async def _try(self) -> bool:
        try:
            async with asyncio.timeout(LEASE_ATTEMPT_S):
                await self._renew()
        except (Unavailable, TimeoutError):
            if monotonic() - self._succeeded_at > rules.LEASE_S:
                self._note(OutageKind.DATABASE, is_open=True)
            return False
        except Exception:
            log.exception("renewing the lease failed")
            return False
        self._succeeded_at = monotonic()
        self._note(OutageKind.DATABASE, is_open=False)
        return True

    async def _renew(self) -> None:
        db = self._runtime.leases
        steady = self._is_on_time and self._runtime.overloaded_at < self._renewal_began_at
        began_at = monotonic()
        seen = await store.renew(db, self._process, steady=steady)
        self._renewal_began_at = began_at
        other_hubs = self._runtime.publisher.other_hubs
        if other_hubs is not None:
            other_hubs.note_leases(found=seen.other_hubs, began_at=began_at)
        if not seen.renewed:
            async with db.transaction(self._runtime.now) as tx:
                self._renewed_at, ended = await store.begin(
                    tx,
                    self._process,
                    renewed_at=self._renewed_at,
                    fair_clock=self._runtime.config.flag("fair_clock"),
                )
            for outage in ended:
                self._count(outage)
            if ended:
                self._runtime.publisher.publish_signal(DeadlineSet(at=self._runtime.now()))  # the credits
            await set_clock(self._runtime.clock, db)  # this may be another server, or this machine was suspended
            return  # the other processes are also starting again, so missing ones are only judged at the next renewal
        self._renewed_at = seen.now
        self._seen |= seen.alive
        is_starting = monotonic() - self._began_at < START_S
        for kind, missing in OUTAGE_OF.items():
            if kind in self._seen or not is_starting:
                self._note(missing, is_open=kind not in seen.alive)

    def _note(self, kind: OutageKind, *, is_open: bool) -> None:
        """Report the beginning of an outage as seen by this process. Its end is logged where it is recorded."""
        metrics.OUTAGE_OPEN.labels(kind).set(is_open)
        if is_open and kind not in self._open:
            self._open.add(kind)
            log.warning("outage began", kind=kind)
        elif not is_open and kind in self._open:
            self._open.discard(kind)
            log.warning("outage is over for this process", kind=kind)

    def _count(self, outage: Outage) -> None:
        seconds = (outage.ended_at - outage.began_at).total_seconds()
        metrics.OUTAGE_SECONDS.labels(outage.kind).inc(seconds)
        log.warning("outage ended", kind=outage.kind, began_at=outage.began_at.isoformat(), seconds=round(seconds, 1))


async def purge(runtime: Runtime) -> int:
    """Sweep: delete rows of processes that ended long ago, and old outages; return how many."""
    async with runtime.transaction() as tx:
        return await store.purge(tx, processes_before=tx.now - KEEP_PROCESSES, outages_before=tx.now - KEEP_OUTAGES)
