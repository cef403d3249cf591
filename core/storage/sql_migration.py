"""Migrations as SQL files, run and recorded by Piccolo (CONTRIBUTING.md#add-a-migration)."""

import asyncio
import pathlib
from typing import Any, cast

import attrs
from piccolo.apps.migrations.auto.migration_manager import MigrationManager
from piccolo.apps.migrations.commands.forwards import ForwardsMigrationManager
from piccolo.conf.apps import MigrationModule

from core.storage import concurrent_indexes
from core.storage.migrations import NEXT_TRANSACTION, files
from core.storage.piccolo_app import APP_CONFIG
from core.storage.piccolo_conf import DB


@attrs.frozen
class SqlMigration:
    """A file as Piccolo expects a migration: a module with `ID` and `forwards`."""

    ID: str
    path: pathlib.Path

    async def forwards(self) -> MigrationManager:
        """Return the migration."""
        manager = MigrationManager(
            migration_id=self.ID, app_name=APP_CONFIG.app_name, description=self.path.stem, wrap_in_transaction=False
        )
        manager.add_raw(self.run)
        return manager

    async def run(self) -> None:
        """Run the transactions of the file. Before each one, build its indexes of tables with rows.

        Piccolo records the migration after the last commit, so a crash may run all of them again: each statement must
        work twice.
        """
        for part in self.path.read_text(encoding="utf-8").split(NEXT_TRANSACTION):
            await _build_indexes(part)
            async with DB.transaction() as transaction:
                await transaction.connection.execute(part)


class Migrations(ForwardsMigrationManager):
    """Piccolo's runner, which finds SQL files instead of Python modules."""

    def get_migration_modules(self, folder_path: str) -> dict[str, MigrationModule]:
        """Return the migrations of a folder by their ids."""
        found = files(pathlib.Path(folder_path))
        return {id_: cast("Any", SqlMigration(id_, path)) for id_, path in found.items()}


async def _build_indexes(sql: str) -> None:
    connection = await DB.get_new_connection()
    try:
        await concurrent_indexes.build(connection, sql)
    finally:
        await connection.close()


if __name__ == "__main__":
    raise SystemExit(0 if asyncio.run(Migrations(APP_CONFIG.app_name).run()).success else 1)
