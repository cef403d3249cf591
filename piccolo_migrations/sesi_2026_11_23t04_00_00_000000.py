"""Which processes live, which outages there were, and over which channel a mitra's last heartbeat came. It may run again."""

import pathlib

from core.storage.piccolo_conf import DB
from piccolo.apps.migrations.auto.migration_manager import MigrationManager

ID = "2026-11-23T04:00:00:000000"
VERSION = "1.38.0"
DESCRIPTION = "service_processes, outages, mitra_online_status.heartbeat_channel"
SQL = pathlib.Path(__file__).parent / "sql" / "outages.sql"


async def forwards() -> MigrationManager:
    manager = MigrationManager(migration_id=ID, app_name="sesi", description=DESCRIPTION)

    async def run() -> None:
        await DB.current_transaction.get().connection.execute(SQL.read_text())

    manager.add_raw(run)
    return manager
