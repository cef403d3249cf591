"""The background work of every process: its tasks, the setting of its clock, and the poll for changes.

Signals may be lost (docs/architecture.md#signals). So each process polls the database every LOOK_EVERY_S for changed
configuration, revoked auth sessions and joined accounts.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Coroutine
from typing import Any

import attrs

from core.base import ids
from core.base.clock import SLEW_S, Clock, monotonic, real_sleep
from core.base.errors import DomainError, Unavailable
from core.config import store as config_store
from core.config.cache import Config
from core.config.rules import effective
from core.events.signals import AccountJoined, LoginsRevoked
from core.runtime.publishing import Caches, Publisher
from core.settings.settings import Settings, SettingsError
from core.storage import durability
from core.storage.database import Database
from core.storage.host import SERVER
from core.telemetry import logs, metrics

LOOK_EVERY_S = 0.8  # a revoked token or an old configuration value is used for a second at most
OVERLAP_S = 10.0  # the most between a revocation's timestamp and its commit
CLOCK_EVERY_S = 60.0
# The server that answers, the version of the configuration, and the auth sessions revoked (of those, the replaced ones)
# and the accounts joined in the last $1 seconds.
# statement_timestamp(), not clock_timestamp(): the latter is volatile and can't bound an index scan.
CHANGES = f"""SELECT
  {SERVER},
  {config_store.VERSION} AS config_version,
  ARRAY(
    SELECT id::text
    FROM auth_sessions
    WHERE revoked_real_at > statement_timestamp() - make_interval(secs => $1)
  ) AS revoked,
  ARRAY(
    SELECT id::text
    FROM auth_sessions
    WHERE revoked_real_at > statement_timestamp() - make_interval(secs => $1) AND replaced_by IS NOT NULL
  ) AS replaced,
  ARRAY(
    SELECT account_belongs_to::text || ' ' || id::text
    FROM customers
    WHERE
      joined_real_at > statement_timestamp() - make_interval(secs => $1)
      AND account_belongs_to IS NOT NULL
  ) AS joined"""

log = logs.get("runtime")


class BackgroundTasks:
    """The tasks of a process: those that run until it stops, and the work that follows commits."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._followers: set[asyncio.Task[Any]] = set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a background task until the process stops. If the task ends early, the process stops."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        """Stop the process if a background task has ended: without one of its tasks it must not look healthy."""
        self._tasks.discard(task)
        if not task.cancelled():
            log.critical("background task failed; stopping the process", exc_info=task.exception())
            os.kill(os.getpid(), signal.SIGTERM)

    def follow(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start work that continues after its caller has ended.

        When the process stops, it waits at most 2 s for this work.
        """
        task = asyncio.create_task(_quietly(work))
        self._followers.add(task)
        task.add_done_callback(self._followers.discard)
        return task

    async def finish_followers(self, *, timeout_s: float | None = None) -> None:
        """Wait for the work that `follow` has started; with a timeout, in real seconds, no longer than that."""
        if self._followers:
            await asyncio.wait(self._followers, timeout=timeout_s)

    async def cancel(self) -> None:
        """Cancel the background tasks and wait for their ends, at most 1 s."""
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=1)


async def _quietly(work: Coroutine[Any, Any, None]) -> None:
    """Run work that follows a commit, and log its failure.

    If it fails, the sweeps find the same work in the database.
    """
    try:
        await work
    except (DomainError, TimeoutError) as error:
        log.warning("reaction failed; a sweep will do its work", error=type(error).__name__)
    except Exception:
        log.exception("reaction failed")


async def open_clock(settings: Settings, db: Database) -> Clock:
    """Return the service clock, set to the database's time. New ids take their time from it.

    Raises SettingsError if SESI_TIME_ANCHOR differs from the database's anchor.
    """
    wanted = settings.sesi_time_anchor
    at, monotonic_at = await db.clock()
    anchor = await config_store.anchor(db, wanted or at)
    if wanted is not None and wanted != anchor:
        raise SettingsError(f"SESI_TIME_ANCHOR: expected {anchor.isoformat()}, the anchor of this database, or unset")
    clock = Clock(anchor=anchor, scale=settings.sesi_time_scale)
    clock.set_real(at, at_monotonic=monotonic_at)
    ids.follow(clock.real_microseconds)
    return clock


async def set_clock(clock: Clock, db: Database) -> None:
    """Set this process's clock to the database's time."""
    at, monotonic_at = await db.clock()
    behind = clock.set_real(at, at_monotonic=monotonic_at)
    metrics.CLOCK_OFFSET.set(behind)
    if abs(behind) > SLEW_S:
        metrics.CLOCK_STEPS.inc()
        log.error("the service clock differed from the database's by more than a second", seconds=round(behind, 3))


async def warn_of_losses(db: Database, *, production: bool) -> None:
    """Log each way in which the database could lose acknowledged data."""
    found = await durability.find(db, several_hosts=db.several_hosts)
    for problem in found.problems(production=production):
        log.warning("the database may lose acknowledged data", problem=problem)


async def keep_clock(clock: Clock, db: Database) -> None:
    """Set the clock every CLOCK_EVERY_S, and at once after a failover. Runs until it is cancelled."""
    changed = asyncio.Event()
    db.subscribe_to_new_epoch(changed.set)
    while True:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOCK_EVERY_S):
                await changed.wait()
        changed.clear()
        try:
            await set_clock(clock, db)
        except Unavailable:
            continue
        except Exception:
            log.exception("setting the service clock failed")


async def read_changes(db: Database, *, back_s: float) -> Any:
    """Return the row of CHANGES for the last `back_s` real seconds."""
    return await db.fetchrow(CHANGES, back_s)


@attrs.frozen(kw_only=True)
class ChangePoll:
    """Reads from the database what signals report: changed configuration, revoked auth sessions, joined accounts."""

    db: Database
    config: Config
    settings: Settings
    caches: Caches
    publisher: Publisher

    async def run(self) -> None:
        """Look every LOOK_EVERY_S real seconds until cancelled."""
        looked = monotonic()
        while True:
            await real_sleep(LOOK_EVERY_S)
            started = monotonic()
            try:
                await self.look(back_s=started - looked + OVERLAP_S)
                looked = started
            except Unavailable:
                continue
            except Exception:
                log.exception("polling for changes failed")

    async def look(self, *, back_s: float = OVERLAP_S) -> None:
        """Read what changed in the last `back_s` real seconds, and pass it on like a signal.

        This also notices that a standby was promoted; the database then calls the subscribers to a new epoch.
        """
        row = await read_changes(self.db, back_s=back_s)
        self.db.note_server(row)
        fresh = {sid for sid in row["revoked"] if sid not in self.caches.revoked}
        succeeded = fresh & set(row["replaced"])
        for found, replaced in ((succeeded, True), (fresh - succeeded, False)):
            if found:
                await self.publisher.receive(LoginsRevoked(auth_session_ids=list(found), replaced=replaced))
        for pair in row["joined"]:  # repeated for OVERLAP_S, because a read of the account may have been in progress
            customer_id, joined_id = pair.split()
            await self.publisher.receive(AccountJoined(customer_id=customer_id, joined_id=joined_id))
        await self.follow_config(row["config_version"])

    async def follow_config(self, version: str | None) -> None:
        """Read the configuration again unless `version`, the version in the database, is the one known here."""
        if version != self.config.version:
            await self.refresh_config()

    async def refresh_config(self) -> None:
        """Read all configuration rows.

        If two reads overlap, the older one may finish last. The next poll notices the version and reads again.
        """
        values, self.config.version = await config_store.read_all(self.db)
        cadence = self.settings.mitra_heartbeat_cadence_seconds
        self.config.values = effective(values, cadence_seconds=cadence, production=self.settings.production)
