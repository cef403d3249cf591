"""Open the database connections of a process."""

import attrs

from core.runtime.transactions import translate_db_errors
from core.settings.settings import Settings
from core.storage.database import Database
from core.storage.reports import Reports

LEASE_ATTEMPT_S = 1.0  # real seconds after which a statement about the process's lease has failed


@attrs.frozen(kw_only=True)
class Databases:
    """The pools of a process. `commits` is `db` unless messages have their own pool; `leases` has one connection."""

    db: Database
    commits: Database
    leases: Database
    reports: Reports

    async def close(self) -> None:
        """Close all connections."""
        await self.reports.close()
        await self.leases.close()
        await self.db.close()
        if self.commits is not self.db:
            await self.commits.close()


async def open_databases(settings: Settings, *, pool_size: int, commit_pool_size: int) -> Databases:
    """Open the pools; messages get their own one unless `commit_pool_size` is 0.

    The replica is connected at its first use. Raises Unavailable if the primary does not answer.
    """
    with translate_db_errors():
        db = await _connect(settings, "write", pool_size)
        try:
            commits = await _connect(settings, "messages", commit_pool_size) if commit_pool_size else db
        except BaseException:
            await db.close()
            raise
        leases = await db.separate(name="lease", statement_s=LEASE_ATTEMPT_S)
        reports = await Reports.open(db, settings.database_read_url, through_pooler=settings.through_pooler)
    return Databases(db=db, commits=commits, leases=leases, reports=reports)


async def _connect(settings: Settings, name: str, size: int) -> Database:
    return await Database.connect(settings.database_url, size=size, through_pooler=settings.through_pooler, name=name)
