"""Let the silence after which mitras are offline have a fraction. It may run again."""

import pathlib

from core.storage.piccolo_conf import DB
from piccolo.apps.migrations.auto.migration_manager import MigrationManager

ID = "2026-11-23T21:30:00:000000"
VERSION = "1.38.0"
DESCRIPTION = "free_mitras with a fraction of seconds"


async def forwards() -> MigrationManager:
    manager = MigrationManager(migration_id=ID, app_name="sesi", description=DESCRIPTION)

    async def run() -> None:
        sql = (pathlib.Path(__file__).parent / "sql" / "stale_fraction.sql").read_text()
        await DB.current_transaction.get().connection.execute(sql)

    manager.add_raw(run)
    return manager
