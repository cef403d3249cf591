"""Counts of webhook calls without a valid token that are too many to be stored: one row of webhook_logs per minute and
network.

While one statement commits counts, new ones collect in memory. A call is answered when its count is committed, so a
flood of any size uses one connection. While the database is unreachable the counts stay in memory, to be committed
later; only these are lost if the process dies.
"""

import asyncio
import datetime as dt
import hashlib
from typing import Any

import attrs

from core.base import ids, shares
from core.base.clock import real_sleep
from core.storage import sql_files
from core.storage.database import Database
from core.telemetry import logs

WAIT_S = 0.5  # real time; after this a call is answered even if its count is not committed
RETRY_S = 1.0
ROWS_AT_ONCE = 200
# Rows that a process makes in a minute, and rows in memory. All further networks share one row per minute, so that a
# flood from many networks can fill neither the table nor the memory.
ROWS_A_MINUTE = 200
MOST_ROWS = 5_000
OTHER_ADDRESSES = ""
log = logs.get("webhook")

SQL = sql_files.load(__file__)


@attrs.define
class _Count:
    """The uncommitted part of one row. `bytes` is the size of all bodies; `body_sha256` (hex) is that of the newest."""

    received_at: dt.datetime
    source_ip: str  # the name of the network
    calls: int
    bytes: int
    body_sha256: str


class FloodCounts:
    """The counts of one process."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._counts: dict[str, _Count] = {}
        self._minute: dt.datetime | None = None  # the newest of a call
        self._made: set[str] = set()  # rows since that minute began, committed or not
        self._committed = asyncio.Event()
        self._writer: asyncio.Task[None] | None = None

    async def add(self, *, host: str, body: bytes, received_at: dt.datetime) -> None:
        """Count a call of the network of `host` in the minute of `received_at`.

        Return when it is committed, or after WAIT_S.
        """
        row_id, network = self._row_of(host, received_at)
        self._gather(row_id, _Count(received_at, network, 1, len(body), hashlib.sha256(body).hexdigest()))
        committed = self._committed
        if self._writer is None:
            self._writer = asyncio.create_task(self._write())
        try:
            async with asyncio.timeout(WAIT_S):
                await committed.wait()
        except TimeoutError:
            log.warning("storing a count of webhook calls is delayed")

    def _row_of(self, host: str, received_at: dt.datetime) -> tuple[str, str]:
        """Return (id, network) of the row that counts a call."""
        minute = received_at.replace(second=0, microsecond=0)
        if self._minute is None or minute > self._minute:
            self._minute, self._made = minute, set()
        network = shares.network_of(host).name
        row_id = ids.id_of(minute, network.encode())
        if row_id in self._made:
            return row_id, network
        if len(self._made) >= ROWS_A_MINUTE or len(self._counts) >= MOST_ROWS:
            return ids.id_of(minute, OTHER_ADDRESSES.encode()), OTHER_ADDRESSES
        self._made.add(row_id)
        return row_id, network

    def _gather(self, row_id: str, count: _Count) -> None:
        known = self._counts.get(row_id)
        if known is None:
            self._counts[row_id] = count
            return
        known.calls += count.calls
        known.bytes += count.bytes
        known.body_sha256 = count.body_sha256

    async def _write(self) -> None:
        """Commit counts until there are none left."""
        try:
            while self._counts:
                counts, self._counts = self._counts, {}
                committed, self._committed = self._committed, asyncio.Event()
                try:
                    await self._commit(counts)
                except Exception as error:
                    log.warning("storing counts of webhook calls failed", error=type(error).__name__)
                    for row_id, count in counts.items():
                        self._gather(row_id, count)
                    await real_sleep(RETRY_S)
                finally:
                    committed.set()  # after a failure too, because the callers have waited long enough
        finally:
            self._writer = None

    async def _commit(self, counts: dict[str, _Count]) -> None:
        rows = sorted(counts.items())
        for start in range(0, len(rows), ROWS_AT_ONCE):
            part = rows[start : start + ROWS_AT_ONCE]
            columns: list[Any] = [[row_id for row_id, _ in part]]
            columns += (list(values) for values in zip(*(attrs.astuple(c) for _, c in part), strict=True))
            async with self._db.connection() as connection:
                await connection.execute(SQL["add"], *columns)
            for row_id, _ in part:
                del counts[row_id]

    async def close(self) -> None:
        """Wait at most WAIT_S for the last counts to be committed."""
        if self._writer is not None:
            await asyncio.wait({self._writer}, timeout=WAIT_S)
            self._writer.cancel()
