"""A host of the database: what its server reports about itself, and the task that asks it every half second."""

import asyncio
import contextlib
import datetime as dt
import hashlib
import urllib.parse
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import attrs

from core.base.clock import monotonic
from core.storage.errors import UNREACHABLE
from core.telemetry import logs

LOOK_S = 0.5  # between two checks of a host
ANSWER_S = 1.0  # to connect and get an answer; a host that takes longer counts as failed
# Columns of a SELECT. During recovery the timeline is that of the last checkpoint. Only the epoch of a standby depends
# on it.
SERVER = """NOT pg_is_in_recovery() AS primary, current_setting('transaction_read_only') = 'off' AS writable,
  (SELECT system_identifier FROM pg_control_system())::text AS system,
  CASE WHEN pg_is_in_recovery() THEN lpad(upper(to_hex((SELECT timeline_id FROM pg_control_checkpoint()))), 8, '0')
       ELSE substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) END AS timeline"""

log = logs.get("database")


@attrs.frozen(kw_only=True)
class DatabaseServer:
    """What a server reports about itself. `timeline` has 8 hexadecimal digits, so the texts compare like numbers."""

    primary: bool
    writable: bool
    system: str
    timeline: str

    @property
    def epoch(self) -> str:
        """An opaque mark of the database's history, which changes after a failover or a restore."""
        return hashlib.sha256(f"{self.system}/{self.timeline}".encode()).hexdigest()[:16]


def server_of(row: Any) -> DatabaseServer:
    """Return the server that has answered with the columns SERVER, among others."""
    return DatabaseServer(**{field.name: row[field.name] for field in attrs.fields(DatabaseServer)})


async def ask(connection: Any) -> DatabaseServer:
    """Ask a server for its role, system and timeline."""
    return server_of(await connection.fetchrow(f"SELECT {SERVER}", timeout=ANSWER_S))


def host_of(url: str) -> str:
    """Return the host of a URL, with its port if there is one, and without the user and password."""
    parts = urllib.parse.urlsplit(url)
    return parts.netloc.rpartition("@")[2] or dict(urllib.parse.parse_qsl(parts.query)).get("host", "")


class DatabaseHost:
    """One host of several. A separate connection asks its server, and `checked` is called after each check."""

    def __init__(self, url: str, *, checked: Callable[[], Awaitable[None]]) -> None:
        self.url = url
        self.server: DatabaseServer | None = None  # its last answer; None if the last check failed
        self.was_checked = False
        self.error = ""  # the name of the last error's class
        self._checked = checked
        self._hurry = asyncio.Event()
        self._connection: asyncpg.Connection | None = None

    @property
    def problem(self) -> str:
        """Why the host is not used, for an error message."""
        return self.error or "takes no writes"

    def check_now(self) -> None:
        """Check the host now, not LOOK_S after the last check."""
        self._hurry.set()

    async def watch(self) -> None:
        """Check the host every LOOK_S, until cancelled."""
        try:
            while True:
                self._hurry.clear()
                await self._check()
                await self._checked()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_S):
                        await self._hurry.wait()
        finally:
            self._drop()

    async def _check(self) -> None:
        try:
            async with asyncio.timeout(ANSWER_S):
                self.server = await self._ask()
            self.error = ""
        except Exception as error:
            self._drop()
            self.server = None
            self.error = type(error).__name__
            if not isinstance(error, (*UNREACHABLE, asyncpg.PostgresError)):
                log.exception("checking a database host failed", host=host_of(self.url))
        self.was_checked = True

    async def _ask(self) -> DatabaseServer:
        if self._connection is None or self._connection.is_closed():
            # A pooler between us and the server keeps no prepared statements.
            self._connection = await asyncpg.connect(
                self.url, server_settings={"application_name": "sesi watch"}, statement_cache_size=0
            )
        return await ask(self._connection)

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None


async def read_clock(connection: Any) -> tuple[dt.datetime, float]:
    """Return (the database's time, our monotonic time in seconds at that moment), from the quickest of five
    readings."""
    readings: list[tuple[float, dt.datetime, float]] = []
    for _ in range(5):
        before = monotonic()
        at = await connection.fetchval("SELECT clock_timestamp()")
        after = monotonic()
        readings.append((after - before, at, (before + after) / 2))
    _, at, mean = min(readings)
    return at, mean
