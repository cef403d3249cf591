"""Migrations as SQL files, run by Piccolo's runner (CONTRIBUTING.md#add-a-migration)."""

import pathlib
from collections.abc import Awaitable, Callable

from piccolo.apps.migrations.auto.migration_manager import MigrationManager

from core.storage import concurrent_indexes
from core.storage.migrations import NEXT_TRANSACTION
from core.storage.piccolo_conf import DB


def sql_migration(script: str, migration_id: str, *files: str) -> Callable[[], Awaitable[MigrationManager]]:
    """Return the `forwards` function of a migration that runs SQL files.

    A file is one transaction, or several with lines NEXT_TRANSACTION between them.
    `script` is the migration's `__file__`, and `files` are names in the folder `sql` next to it. A file's indexes of
    tables with rows are built before its transactions (`concurrent_indexes`). Piccolo records the migration after the
    last commit, so a crash may run all files again: each statement must work twice.
    """
    path = pathlib.Path(script)

    async def run() -> None:
        for name in files:
            sql = (path.parent / "sql" / name).read_text()
            await _build_indexes(sql)
            for part in sql.split(NEXT_TRANSACTION):
                async with DB.transaction() as transaction:
                    await transaction.connection.execute(part)

    async def forwards() -> MigrationManager:
        manager = MigrationManager(
            migration_id=migration_id, app_name="sesi", description=path.stem, wrap_in_transaction=False
        )
        manager.add_raw(run)
        return manager

    return forwards


async def _build_indexes(sql: str) -> None:
    connection = await DB.get_new_connection()
    try:
        await concurrent_indexes.build(connection, sql)
    finally:
        await connection.close()
