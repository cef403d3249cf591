"""Read and write process leases and outages. All times are service time by the database's clock."""

import datetime as dt
from collections.abc import Iterable

import attrs

from core.base import ids
from core.cluster.outages import rules
from core.cluster.outages.rules import OUTAGE_OF, Interval, Outage, OutageKind, ProcessKind
from core.cluster.outages.tables import Outage as Outages
from core.cluster.outages.tables import ServiceProcess as ServiceProcesses
from core.storage import locks, sql_files
from core.storage.database import Database
from core.storage.locks import AdvisoryLock
from core.storage.records import many
from core.storage.statements import insert, p, statement
from core.storage.transaction import Reader, Tx

SQL = sql_files.load(__file__)
PROCESSES = statement(
    ServiceProcesses.select(
        ServiceProcesses.place,
        ServiceProcesses.kind,
        ServiceProcesses.since_at,
        ServiceProcesses.alive_at,
        ServiceProcesses.lost_at,
    )
)
CREATE = statement(insert(Outages, "id kind began_at ended_at credit_at"))
PURGE = statement(Outages.delete().where(Outages.ended_at < p.before))


@attrs.frozen(kw_only=True)
class Renewal:
    """The result of a renewal."""

    renewed: bool  # False: the lease has ended or never began
    now: dt.datetime
    alive: frozenset[str]  # kinds of processes with a lease; this process's lease counts only if it was renewed
    other_hubs: bool  # whether another realtime process had a lease within GIVE_UP_S


@attrs.frozen(kw_only=True)
class ProcessIdentity:
    """The name of a process (kind, machine, address and port), the scale of its service time, and its process id."""

    name: str
    kind: ProcessKind
    scale: float
    pid: int | None = None

    def duration(self, real_seconds: float) -> dt.timedelta:
        """Return the service time that passes in a number of real seconds."""
        return dt.timedelta(seconds=real_seconds * self.scale)


async def renew(db: Database, process: ProcessIdentity, *, steady: bool) -> Renewal:
    """Renew a process's lease in one statement. If `steady` is False, a new series of renewals begins."""
    lease, give_up = process.duration(rules.LEASE_S), process.duration(rules.GIVE_UP_S)
    row = await db.fetchrow(SQL["renew"], process.scale, process.name, lease, give_up, steady)
    return Renewal(renewed=row["renewed"], now=row["now"], alive=frozenset(row["alive"]), other_hubs=row["other_hubs"])


async def begin(
    tx: Tx, process: ProcessIdentity, *, renewed_at: dt.datetime | None, fair_clock: bool = False
) -> tuple[dt.datetime, list[Outage]]:
    """Begin a series of renewals and record the outages that it ends; return (start of the series, those outages).

    If `fair_clock` is set, the outages of the chat are to be credited. `renewed_at` is the last successful renewal of a
    process that has tried without a break since then; None if the process has just started or stood still. All
    processes take the same lock here, so an outage is recorded once.
    """
    await locks.hold(tx, AdvisoryLock.OUTAGES)
    now = await tx.fetchval(SQL["now"], process.scale)
    rows = await PROCESSES.all(tx)
    found: list[Outage] = []
    if renewed_at is not None:
        covers = [
            (row["since_at"], now if row["lost_at"] > now else row["alive_at"])
            for row in rows
            if row["place"] != process.name
        ]
        found += await _record(
            tx,
            process,
            OutageKind.DATABASE,
            (renewed_at, now),
            covers,
            apart=(OutageKind.DATABASE,),
            fair_clock=fair_clock,
        )
    missing = OUTAGE_OF.get(process.kind)
    mine = [row for row in rows if row["kind"] == process.kind]
    if missing is not None and mine and not any(row["lost_at"] > now for row in mine):
        alive_at = max(row["alive_at"] for row in mine)
        found += await _record(
            tx, process, missing, (alive_at, now), (), apart=(OutageKind.DATABASE, missing), fair_clock=fair_clock
        )
    lease, give_up = process.duration(rules.LEASE_S), process.duration(rules.GIVE_UP_S)
    await tx.execute(SQL["begin"], process.name, process.kind, now, lease, give_up, process.pid)
    return now, found


async def _record(
    tx: Tx,
    process: ProcessIdentity,
    kind: OutageKind,
    whole: Interval,
    covers: Iterable[Interval],
    *,
    apart: tuple[OutageKind, ...],
    fair_clock: bool,
) -> list[Outage]:
    """Record and return the outages in `whole`: its parts outside `covers` and not recorded as a kind in `apart`."""
    # On average the outage began half an interval after the last renewal.
    began, now = whole[0] + process.duration(rules.RENEW_EVERY_S / 2), whole[1]
    recorded = [(row["began_at"], row["ended_at"]) for row in await tx.fetch(SQL["recorded"], list(apart), began, now)]
    lease, part = process.duration(rules.LEASE_S), process.duration(rules.PART_S)
    if kind is OutageKind.REALTIME and now - began > lease:
        found = rules.gaps((began, now), recorded, longer_than=part)
    else:
        found = rules.gaps((began, now), [*covers, *recorded], longer_than=lease)
    made = [Outage(id=ids.new_id(), kind=kind, began_at=start, ended_at=end) for start, end in found]
    for one in made:
        credit_at = one.ended_at if fair_clock and kind in rules.OF_CHAT else None
        await CREATE.execute(
            tx, id=one.id, kind=one.kind, began_at=one.began_at, ended_at=one.ended_at, credit_at=credit_at
        )
    return made


async def end(db: Database, process: ProcessIdentity) -> None:
    """End the lease of a process that stops."""
    await db.fetch(SQL["end"], process.scale, process.name)


async def overlaps(reader: Reader, kinds: Iterable[OutageKind], interval: Interval) -> list[Interval]:
    """Return the parts of an interval with an outage of one of these kinds, as disjoint intervals in order."""
    rows = await reader.fetch(SQL["recorded"], list(kinds), *interval)
    since, until = interval
    return rules.merged((max(since, row["began_at"]), min(until, row["ended_at"])) for row in rows)


async def stands(reader: Reader, *, scale: float) -> bool:
    """Return whether the clock of sessions stands: no realtime process has a lease, or an outage is not credited."""
    return await reader.fetchval(SQL["stands"], scale)


async def uncredited(reader: Reader, *, scale: float, now: dt.datetime) -> list[Interval]:
    """Return the outages of the chat that are not credited yet, and the present one until `now`."""
    rows = await reader.fetch(SQL["uncredited"], scale, now)
    return [(row["began_at"], row["ended_at"]) for row in rows]


async def due_credits(reader: Reader, *, now: dt.datetime) -> list[Outage]:
    """Return the outages whose credits are due, in order; none while no realtime process has a lease."""
    return many(Outage, await reader.fetch(SQL["due_credits"], now))


async def credited(tx: Tx, outage_id: str, *, again_after: dt.timedelta) -> None:
    """Note that the sessions have their credits for an outage. The first time, it is due once more."""
    await tx.execute(SQL["credited"], outage_id, tx.now, again_after)


async def drop_credits(tx: Tx) -> int:
    """Credit no outage that still waits for it; return how many."""
    return await tx.execute(SQL["drop_credits"])


async def missing_since(reader: Reader, kind: ProcessKind, *, scale: float) -> dt.datetime | None:
    """Return since when no process of a kind has a lease, in an outage that is not over; None if there is none.

    It is measured like a recorded one: from half an interval after the last renewal, and only if it is longer than a
    lease.
    """
    half, lease = dt.timedelta(seconds=rules.RENEW_EVERY_S / 2 * scale), dt.timedelta(seconds=rules.LEASE_S * scale)
    return await reader.fetchval(SQL["missing_since"], scale, kind, half, lease)


async def purge(tx: Tx, *, processes_before: dt.datetime, outages_before: dt.datetime) -> int:
    """Delete processes given up before one moment and outages ended before another; return how many rows."""
    gone = await tx.execute(SQL["purge_processes"], processes_before)
    return gone + await PURGE.execute(tx, before=outages_before)
