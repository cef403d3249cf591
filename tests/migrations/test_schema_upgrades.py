"""A database of an earlier version upgrades to the current schema with its rows, and each migration can run twice."""

import difflib
import json
from typing import Any

import asyncpg
import pytest

from core.storage.migrations import files
from tests.migrations import catalog, series
from tests.stack import Stack
from tools.commands import migrate

pytestmark = pytest.mark.anyio


async def contents(connection: asyncpg.Connection) -> list[tuple[str, dict[str, Any]]]:
    """Return each row of the database with the name of its table."""
    found: list[tuple[str, dict[str, Any]]] = []
    for table in await catalog.rows(connection):
        found += [(table, json.loads(row[0])) for row in await connection.fetch(f"SELECT to_jsonb(t) FROM {table} t")]
    return found


def same(old: tuple[str, dict[str, Any]], new: tuple[str, dict[str, Any]]) -> bool:
    """Return whether a row of a new schema has every value of a row of an old one."""
    return old[0] == new[0] and all(name in new[1] and new[1][name] == value for name, value in old[1].items())


async def test_upgrade_by_the_last_migration_equals_a_new_database_and_keeps_each_row(servers: Stack) -> None:
    async with (
        series.migrated(servers, "upgraded", series.last_but(1)) as url,
        series.connected(url) as connection,
        series.connected(servers.database_url) as new,
    ):
        before = await contents(connection)
        assert len(before) > 15
        assert await migrate.migrate(url) == 1
        found, wanted = await catalog.schema(connection), await catalog.schema(new)
        assert list(difflib.ndiff(sorted(wanted - found), sorted(found - wanted))) == []
        after = await contents(connection)
        assert [row for row in before if not any(same(row, one) for one in after)] == []
        assert await migrate.pending(url) == frozenset()


async def test_migration_that_stopped_after_any_transaction_is_finished_by_the_next_run(servers: Stack) -> None:
    """As the first migration and each later one would be: a migration is recorded after its last transaction."""
    async with (
        series.migrated(servers, "repeated", next(iter(files()))) as url,
        series.connected(url) as connection,
    ):
        for path in [*files().values(), *series.RENAMED_COLUMN]:
            await series.run(url, [path])
            before = await catalog.schema(connection), await catalog.rows(connection)
            for part in series.parts(path):
                await connection.execute(part)
                await series.run(url, [path])
                assert (await catalog.schema(connection), await catalog.rows(connection)) == before, path.name
