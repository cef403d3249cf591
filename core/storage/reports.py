"""Read reports from the replica that DATABASE_READ_URL names, or from the primary if the replica is not current.

Reports are the activity of mitras and the audits. A party of a chat must see its own writes at once, and an operator
must edit the newest version of a row, so everything else is read from the primary.

How far the replica is behind is measured without its clock. Every CHECK_S we note the position in the primary's log.
When the replica has replayed a noted position, its data is at most as old as that note.
"""

import asyncio
import collections
from typing import Any

import asyncpg
import attrs

from core.base.clock import monotonic, real_sleep
from core.base.errors import Unavailable
from core.storage.database import Database
from core.storage.errors import CONNECTION_ERRORS
from core.telemetry import logs, metrics

POOL_SIZE = 4  # connections to the replica: reports are rare, and slow ones must not keep it busy
CHECK_S = 1.0
ANSWER_S = 1.0  # a replica that takes longer counts as away
MOST_LAG_S = 5.0  # beyond that, reports are read from the primary
KEPT = 120  # noted positions
SYSTEM = "SELECT system_identifier FROM pg_control_system()"
WRITTEN = f"SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint AS position, ({SYSTEM})::text AS system"
# A replica that was promoted is current as long as it is the primary that we use.
REPLAYED = f"""SELECT
  pg_wal_lsn_diff(
    CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END, '0/0'
  )::bigint AS position,
  ({SYSTEM})::text AS system"""
# The replica is lost, or cancels a statement that keeps it from replaying the primary's log.
LOST = (*CONNECTION_ERRORS, asyncpg.SerializationError)

log = logs.get("database")


@attrs.frozen(kw_only=True)
class ReportRows:
    """Rows, and the most seconds that they are behind the primary; None: they are from the primary."""

    rows: list[Any]
    lag_s: float | None


class Reports:
    """Where reports are read.

    `replica` is None without DATABASE_READ_URL. `positions` leads to the primary over a separate connection: while the
    primary's pool is busy, the replica must not look old, because that would move the reports to the busy server.
    """

    def __init__(
        self, primary: Database, *, replica: Database | None = None, positions: Database | None = None
    ) -> None:
        self._primary = primary
        self._positions = positions or primary
        self._replica = replica
        self._written: collections.deque[tuple[float, int]] = collections.deque(maxlen=KEPT)
        self._current_at: float | None = None  # the time of the last note that the replica has replayed; None: away

    @classmethod
    async def open(cls, primary: Database, url: str, *, through_pooler: bool = False) -> "Reports":
        """Return the reports of a database and the replica at `url`, or without one if that is empty.

        The replica is connected at its first use.
        """
        if not url:
            return cls(primary)
        replica = await Database.lazy(url, size=POOL_SIZE, through_pooler=through_pooler)
        return cls(primary, replica=replica, positions=await primary.separate(name="positions", statement_s=ANSWER_S))

    @property
    def lag_s(self) -> float | None:
        """The most seconds that the replica is behind the primary. None if it is away, or if there is none."""
        return None if self._current_at is None else monotonic() - self._current_at

    def current_replica(self) -> tuple[Database, float] | None:
        """Return the replica and its lag in seconds, or None if reports must be read from the primary."""
        lag = self.lag_s
        if self._replica is None:
            return None
        current = lag is not None and lag <= MOST_LAG_S
        metrics.REPORTS.labels("replica" if current else "primary").inc()
        return (self._replica, lag) if current and lag is not None else None

    async def fetch(self, sql: str, *args: Any) -> ReportRows:
        """Return the rows of a SELECT. If the replica is lost, read them from the primary.

        Raises Unavailable.
        """
        if (found := self.current_replica()) is not None:
            replica, lag = found
            try:
                return ReportRows(rows=await replica.fetch(sql, *args), lag_s=lag)
            except Unavailable as error:
                self.go_on_without(error)
        return ReportRows(rows=await self._primary.fetch(sql, *args), lag_s=None)

    def go_on_without(self, error: Unavailable) -> None:
        """Go on with the primary after an error of the replica. Raises it again if the replica is only slow."""
        cause = error.__cause__
        if isinstance(cause, TimeoutError) or not isinstance(cause, LOST):
            raise error
        self.lost(cause)

    def lost(self, error: BaseException) -> None:
        """Read reports from the primary until the replica has answered a check."""
        if self._current_at is not None:
            log.warning("the replica is away; reports are read from the primary", error=type(error).__name__)
        self._current_at = None

    async def watch(self) -> None:
        """Check the replica every CHECK_S until cancelled."""
        while self._replica is not None:
            await self.check()
            lag = self.lag_s
            metrics.REPLICA_LAG.set(float("nan") if lag is None else lag)
            await real_sleep(CHECK_S)
        await asyncio.Event().wait()  # a background task never ends

    async def check(self) -> None:
        """Ask both servers for their positions. A failure of the primary leaves the age of the replica growing."""
        if self._replica is None:
            return
        now = monotonic()
        try:
            async with asyncio.timeout(ANSWER_S):
                written = await self._positions.fetchrow(WRITTEN)
            self._written.append((now, written["position"]))
        except (Unavailable, TimeoutError, asyncpg.PostgresError):
            return
        try:
            async with asyncio.timeout(ANSWER_S):
                replayed = await self._replica.fetchrow(REPLAYED)
        except (Unavailable, TimeoutError, asyncpg.PostgresError) as error:
            self.lost(error.__cause__ or error)
            return
        if replayed["system"] != written["system"]:
            log.error("DATABASE_READ_URL does not lead to a replica of the database; reports are read from the primary")
            self._current_at = None
            return
        while self._written and self._written[0][1] <= replayed["position"]:
            self._current_at, _ = self._written.popleft()

    async def close(self) -> None:
        """Close the connections to the replica, and the one for positions. Close them before the primary's."""
        if self._replica is not None:
            await self._replica.close()
        if self._positions is not self._primary:
            await self._positions.close()
