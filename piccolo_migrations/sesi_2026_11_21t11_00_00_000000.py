"""Up to where each side has sent, marks that are filled in one order, and messages with less work for each. Every statement may run again."""

import pathlib

from core.storage.piccolo_conf import DB
from piccolo.apps.migrations.auto.migration_manager import MigrationManager

ID = "2026-11-21T11:00:00:000000"
VERSION = "1.38.0"
DESCRIPTION = "what each side has sent, chat_fill, chat_commit"
FILES = ("chat_marks.sql", "chat_commit.sql")


async def forwards() -> MigrationManager:
    manager = MigrationManager(migration_id=ID, app_name="sesi", description=DESCRIPTION)

    async def run() -> None:
        transaction = DB.current_transaction.get()
        for name in FILES:
            sql = (pathlib.Path(__file__).parent / "sql" / name).read_text()
            await transaction.connection.execute(sql)

    manager.add_raw(run)
    return manager
