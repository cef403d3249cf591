"""When each refresh token of the last half minute was used. It may run again."""

from core.storage.piccolo_conf import DB
from piccolo.apps.migrations.auto.migration_manager import MigrationManager

ID = "2026-11-22T20:00:00:000000"
VERSION = "1.38.0"
DESCRIPTION = "auth_sessions.used_tokens"


async def forwards() -> MigrationManager:
    manager = MigrationManager(migration_id=ID, app_name="sesi", description=DESCRIPTION)

    async def run() -> None:
        sql = "ALTER TABLE auth_sessions ADD COLUMN IF NOT EXISTS used_tokens JSONB"
        await DB.current_transaction.get().connection.execute(sql)

    manager.add_raw(run)
    return manager
