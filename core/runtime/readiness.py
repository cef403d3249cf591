"""Whether a process is ready for clients: what /readyz, /health and `sesi` report."""

import asyncio

from core.base.clock import monotonic
from core.bus.bus import Bus
from core.storage.database import Database
from core.storage.migrations import migration_ids

READY_S = 1.0  # for which the result of a readiness probe is cached


class Readiness:
    """The readiness of one process. `draining`: it is stopping, so no longer ready, but still serves."""

    def __init__(self, db: Database, bus: Bus) -> None:
        self._db = db
        self._bus = bus
        self._found: tuple[bool, bool, str | None] = (False, False, None)
        self._valid_until = 0.0
        self._checking = asyncio.Lock()
        self.draining = False

    async def check(self) -> tuple[bool, bool, str | None]:
        """Return (ready, degraded, reason); a ready process has no reason.

        Ready: the process is not stopping, and the database answers, is writable and is migrated. Degraded: the bus
        does not answer. The result is cached for READY_S, so probes from outside can't load the database.
        """
        if self.draining:
            return False, False, "the process is stopping"
        async with self._checking:
            if monotonic() >= self._valid_until:
                self._found = await self._check_backends()
                self._valid_until = monotonic() + READY_S
        return self._found

    async def _check_backends(self) -> tuple[bool, bool, str | None]:
        try:
            async with asyncio.timeout(3):
                writable = await self._db.is_writable()
                names = {row["name"] for row in await self._db.fetch("SELECT name FROM migration")}
        except Exception as error:
            return False, False, f"the database does not answer ({type(error).__name__})"
        if not writable:
            return False, False, "the database is read-only"
        if migration_ids() - names:
            return False, False, "the database is not migrated: run `sesi migrate`"
        return True, not await self._bus.ping(), None
