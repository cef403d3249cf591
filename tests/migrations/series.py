"""Run some migrations on separate databases."""

import contextlib
import pathlib
from collections.abc import AsyncIterator, Sequence

import asyncpg

from core.storage import sql_migration
from core.storage.migrations import NEXT_TRANSACTION, files
from tests.stack import Stack

FIRST_SERIES = 5  # migrations: databases have none of their tables before
ROWS = pathlib.Path(__file__).with_name("rows.sql").read_text()
RENAMED_COLUMN = sorted(pathlib.Path(__file__).with_name("renamed_column").glob("*.sql"))


def parts(path: pathlib.Path) -> list[str]:
    """Return the transactions of a migration."""
    return path.read_text().split(NEXT_TRANSACTION)


@contextlib.asynccontextmanager
async def migrated(servers: Stack, name: str, up_to: str) -> AsyncIterator[str]:
    """Yield the address of a new database that has run the migrations up to an id, and has one row of each kind."""
    await servers.sql(f"CREATE DATABASE {name}")
    url = servers.url_of(name)
    try:
        async with connected(url) as connection:
            for id_, path in files().items():
                if id_ <= up_to:
                    await sql_migration.run(connection, path)
                    await sql_migration.record(connection, path)
            await connection.execute(ROWS)
        yield url
    finally:
        await servers.sql(f"DROP DATABASE {name} WITH (FORCE)")


async def run(url: str, paths: Sequence[pathlib.Path]) -> None:
    """Run migrations without recording them."""
    async with connected(url) as connection:
        for path in paths:
            await sql_migration.run(connection, path)


@contextlib.asynccontextmanager
async def connected(url: str) -> AsyncIterator[asyncpg.Connection]:
    """Yield a connection to the database of an address."""
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


def last_but(count: int) -> str:
    """Return the id of the last migration but `count`."""
    return list(files())[-1 - count]
