"""Read and write process leases and outages. All times are service time by the database's clock."""

import datetime as dt
from collections.abc import Iterable

import attrs

from core.base import ids
from core.outages import rules
from core.outages.rules import OUTAGE_OF, Interval, Outage, OutageKind, ProcessKind
from core.storage import locks
from core.storage.database import Database, Tx
from core.storage.locks import AdvisoryLock
from core.storage.reads import Reader

# The present service time; $1 is the scale.
NOW = "(SELECT anchor + (clock_timestamp() - anchor) * $1::float8 FROM service_clock)"
# A renewal that was sent before a long stall of the database and runs after it has no effect, because its lease has
# ended.
RENEW = f"""WITH moment AS MATERIALIZED (SELECT {NOW} AS now),
    renewed AS (UPDATE service_processes p SET alive_at = m.now, lost_at = m.now + $3, given_up_at = m.now + $4,
        since_at = CASE WHEN $5 THEN p.since_at ELSE m.now END
      FROM moment m WHERE p.place = $2 AND p.lost_at > m.now RETURNING 1)
  SELECT EXISTS (SELECT 1 FROM renewed) AS renewed, (SELECT now FROM moment) AS now,
    ARRAY(SELECT DISTINCT p.kind FROM service_processes p, moment m WHERE p.lost_at > m.now) AS alive"""
BEGIN = """INSERT INTO service_processes (place, kind, since_at, alive_at, lost_at, given_up_at) VALUES ($1, $2, $3, $3, $3::timestamptz + $4::interval, $3::timestamptz + $5::interval)
  ON CONFLICT (place) DO UPDATE SET since_at = excluded.since_at, alive_at = excluded.alive_at, lost_at = excluded.lost_at, given_up_at = excluded.given_up_at"""
END = f"""WITH moment AS MATERIALIZED (SELECT {NOW} AS now)
  UPDATE service_processes p SET alive_at = m.now, lost_at = m.now, given_up_at = m.now FROM moment m WHERE p.place = $2 AND p.lost_at > m.now"""
PROCESSES = "SELECT place, kind, since_at, alive_at, lost_at FROM service_processes"
RECORDED = "SELECT began_at, ended_at FROM outages WHERE kind = ANY($1) AND ended_at > $2 AND began_at < $3"
# The newest row of each kind stays: from it the next process of that kind knows since when no process has run.
PURGE_PROCESSES = """DELETE FROM service_processes p WHERE p.given_up_at < $1
  AND EXISTS (SELECT 1 FROM service_processes q WHERE q.kind = p.kind AND q.alive_at > p.alive_at)"""


@attrs.frozen(kw_only=True)
class Renewal:
    """The result of a renewal."""

    renewed: bool  # False: the lease has ended or never began
    now: dt.datetime
    alive: frozenset[str]  # kinds of processes with a lease; this process's lease counts only if it was renewed


@attrs.frozen(kw_only=True)
class ProcessIdentity:
    """The name of a process (kind, host and port) and the scale of its service time."""

    name: str
    kind: ProcessKind
    scale: float

    def duration(self, real_seconds: float) -> dt.timedelta:
        """Return the service time that passes in a number of real seconds."""
        return dt.timedelta(seconds=real_seconds * self.scale)


async def renew(db: Database, process: ProcessIdentity, *, steady: bool) -> Renewal:
    """Renew a process's lease in one statement. If `steady` is False, a new series of renewals begins."""
    lease, give_up = process.duration(rules.LEASE_S), process.duration(rules.GIVE_UP_S)
    row = await db.fetchrow(RENEW, process.scale, process.name, lease, give_up, steady)
    return Renewal(renewed=row["renewed"], now=row["now"], alive=frozenset(row["alive"]))


async def begin(
    tx: Tx, process: ProcessIdentity, *, renewed_at: dt.datetime | None
) -> tuple[dt.datetime, list[Outage]]:
    """Begin a series of renewals and record the outages that it ends; return (start of the series, those outages).

    `renewed_at` is the last successful renewal of a process that has tried without a break since then; None if the
    process has just started or stood still. All processes take the same lock here, so an outage is recorded once.
    """
    await locks.hold(tx, AdvisoryLock.OUTAGES)
    now = await tx.fetchval(f"SELECT {NOW}", process.scale)
    rows = await tx.fetch(PROCESSES)
    found: list[Outage] = []
    if renewed_at is not None:
        covers = [
            (row["since_at"], now if row["lost_at"] > now else row["alive_at"])
            for row in rows
            if row["place"] != process.name
        ]
        found += await _record(
            tx, process, OutageKind.DATABASE, (renewed_at, now), covers, apart=(OutageKind.DATABASE,)
        )
    missing = OUTAGE_OF.get(process.kind)
    mine = [row for row in rows if row["kind"] == process.kind]
    if missing is not None and mine and not any(row["lost_at"] > now for row in mine):
        alive_at = max(row["alive_at"] for row in mine)
        found += await _record(tx, process, missing, (alive_at, now), (), apart=(OutageKind.DATABASE, missing))
    lease, give_up = process.duration(rules.LEASE_S), process.duration(rules.GIVE_UP_S)
    await tx.execute(BEGIN, process.name, process.kind, now, lease, give_up)
    return now, found


async def _record(
    tx: Tx,
    process: ProcessIdentity,
    kind: OutageKind,
    whole: Interval,
    covers: Iterable[Interval],
    *,
    apart: tuple[OutageKind, ...],
) -> list[Outage]:
    """Record and return the outages in `whole`: its parts outside `covers` and not recorded as a kind in `apart`."""
    # On average the outage began half an interval after the last renewal.
    began, now = whole[0] + process.duration(rules.RENEW_EVERY_S / 2), whole[1]
    recorded = [(row["began_at"], row["ended_at"]) for row in await tx.fetch(RECORDED, list(apart), began, now)]
    found = rules.gaps((began, now), [*covers, *recorded], longer_than=process.duration(rules.LEASE_S))
    made = [Outage(id=ids.new_id(), kind=kind, began_at=start, ended_at=end) for start, end in found]
    for one in made:
        await tx.execute(
            "INSERT INTO outages (id, kind, began_at, ended_at) VALUES ($1, $2, $3, $4)",
            one.id, one.kind, one.began_at, one.ended_at,
        )  # fmt: skip
    return made


async def end(db: Database, process: ProcessIdentity) -> None:
    """End the lease of a process that stops."""
    await db.fetch(END, process.scale, process.name)


async def overlaps(reader: Reader, kinds: Iterable[OutageKind], interval: Interval) -> list[Interval]:
    """Return the parts of an interval with an outage of one of these kinds, as disjoint intervals in order."""
    rows = await reader.fetch(RECORDED, list(kinds), *interval)
    since, until = interval
    return rules.merged((max(since, row["began_at"]), min(until, row["ended_at"])) for row in rows)


async def purge(tx: Tx, *, processes_before: dt.datetime, outages_before: dt.datetime) -> int:
    """Delete processes given up before one moment and outages ended before another; return how many rows."""
    gone = await tx.execute(PURGE_PROCESSES, processes_before)
    return gone + await tx.execute("DELETE FROM outages WHERE ended_at < $1", outages_before)
