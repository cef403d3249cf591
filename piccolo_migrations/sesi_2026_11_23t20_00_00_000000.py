"""Add what databases lack whose migrations were edited after they had run. It may run again."""

import pathlib

from core.storage.piccolo_conf import DB
from piccolo.apps.migrations.auto.migration_manager import MigrationManager

ID = "2026-11-23T20:00:00:000000"
VERSION = "1.38.0"
DESCRIPTION = "objects of edited migrations"


async def forwards() -> MigrationManager:
    manager = MigrationManager(migration_id=ID, app_name="sesi", description=DESCRIPTION)

    async def run() -> None:
        sql = (pathlib.Path(__file__).parent / "sql" / "missing_objects.sql").read_text()
        await DB.current_transaction.get().connection.execute(sql)

    manager.add_raw(run)
    return manager
