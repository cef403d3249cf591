"""Accounts that were joined, and which push token is the newest. Every statement may run again."""

from core.storage.piccolo_conf import DB
from piccolo.apps.migrations.auto.migration_manager import MigrationManager

ID = "2026-11-21T08:00:00:000000"
VERSION = "1.38.0"
DESCRIPTION = "joined accounts, newest push token"
SQL = """
ALTER TABLE customers ADD COLUMN IF NOT EXISTS joined_real_at TIMESTAMPTZ;
CREATE INDEX IF NOT EXISTS customers_joined ON customers (joined_real_at) WHERE joined_real_at IS NOT NULL;
ALTER TABLE auth_sessions ADD COLUMN IF NOT EXISTS push_token_at TIMESTAMPTZ;
"""


async def forwards() -> MigrationManager:
    manager = MigrationManager(migration_id=ID, app_name="sesi", description=DESCRIPTION)

    async def run() -> None:
        await DB.current_transaction.get().connection.execute(SQL)

    manager.add_raw(run)
    return manager
