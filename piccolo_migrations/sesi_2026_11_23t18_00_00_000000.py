"""Keep the operators' audit log from changes, index its filters, and let operators end sessions. It may run again."""

import pathlib

from core.storage.piccolo_conf import DB
from piccolo.apps.migrations.auto.migration_manager import MigrationManager

ID = "2026-11-23T18:00:00:000000"
VERSION = "1.38.0"
DESCRIPTION = "operators' audit log; sessions that operators end"


async def forwards() -> MigrationManager:
    manager = MigrationManager(migration_id=ID, app_name="sesi", description=DESCRIPTION)

    async def run() -> None:
        sql = (pathlib.Path(__file__).parent / "sql" / "operator_audit.sql").read_text()
        await DB.current_transaction.get().connection.execute(sql)

    manager.add_raw(run)
    return manager
