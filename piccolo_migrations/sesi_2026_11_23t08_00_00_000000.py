"""Identity tokens work once; the rows of an account by the time they joined. It may run again."""

import pathlib

from core.storage.piccolo_conf import DB
from piccolo.apps.migrations.auto.migration_manager import MigrationManager

ID = "2026-11-23T08:00:00:000000"
VERSION = "1.38.0"
DESCRIPTION = "used_identity_tokens, and customers by the time they joined"


async def forwards() -> MigrationManager:
    manager = MigrationManager(migration_id=ID, app_name="sesi", description=DESCRIPTION)

    async def run() -> None:
        sql = (pathlib.Path(__file__).parent / "sql" / "identity_tokens.sql").read_text()
        await DB.current_transaction.get().connection.execute(sql)

    manager.add_raw(run)
    return manager
