"""Refuse unpaid sessions, and changes of the ledger. It may run again."""

import pathlib

from core.storage.piccolo_conf import DB
from piccolo.apps.migrations.auto.migration_manager import MigrationManager

ID = "2026-11-23T21:00:00:000000"
VERSION = "1.38.0"
DESCRIPTION = "sessions are paid, the ledger is append-only"


async def forwards() -> MigrationManager:
    manager = MigrationManager(migration_id=ID, app_name="sesi", description=DESCRIPTION)

    async def run() -> None:
        sql = (pathlib.Path(__file__).parent / "sql" / "paid_sessions.sql").read_text()
        await DB.current_transaction.get().connection.execute(sql)

    manager.add_raw(run)
    return manager
