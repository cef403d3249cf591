"""Bound how long the disturbance of single processes excuses a mitra's silence. It may run again."""

import pathlib

from core.storage.piccolo_conf import DB
from piccolo.apps.migrations.auto.migration_manager import MigrationManager

ID = "2026-11-23T11:00:00:000000"
VERSION = "1.38.0"
DESCRIPTION = "bounded excuses of silence"
SQL = pathlib.Path(__file__).parent / "sql" / "silence_excuses.sql"


async def forwards() -> MigrationManager:
    manager = MigrationManager(migration_id=ID, app_name="sesi", description=DESCRIPTION)

    async def run() -> None:
        await DB.current_transaction.get().connection.execute(SQL.read_text())

    manager.add_raw(run)
    return manager
