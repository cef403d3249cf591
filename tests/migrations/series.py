"""Run migrations in the process of the tests: an interpreter that imports Piccolo for each of them would take most of
the time."""

import contextlib
import os
import pathlib
from collections.abc import AsyncIterator, Sequence

import asyncpg

from core.storage.migrations import NEXT_TRANSACTION, files
from tests.stack import Stack

os.environ.setdefault("PICCOLO_CONF", "core.storage.piccolo_conf")
FIRST_SERIES = 5  # migrations: databases have none of their tables before
ROWS = pathlib.Path(__file__).with_name("rows.sql").read_text()
RENAMED_COLUMN = sorted(pathlib.Path(__file__).with_name("renamed_column").glob("*.sql"))


def parts(path: pathlib.Path) -> list[str]:
    """Return the transactions of a migration."""
    return path.read_text().split(NEXT_TRANSACTION)


@contextlib.asynccontextmanager
async def migrated(servers: Stack, name: str, up_to: str) -> AsyncIterator[str]:
    """Yield the address of a new database that has run the migrations up to an id, and has one row of each kind."""
    from core.storage.sql_migration import Migrations

    await servers.sql(f"CREATE DATABASE {name}")
    url = servers.url_of(name)
    try:
        async with piccolo(url):
            assert (await Migrations("sesi", migration_id=up_to).run()).success
        async with connected(url) as connection:
            await connection.execute(ROWS)
        yield url
    finally:
        await servers.sql(f"DROP DATABASE {name} WITH (FORCE)")


async def run(url: str, paths: Sequence[pathlib.Path]) -> None:
    """Run migrations without recording them."""
    from core.storage.sql_migration import SqlMigration

    async with piccolo(url):
        for path in paths:
            await SqlMigration(path.stem.partition("_")[0], path).run()


@contextlib.asynccontextmanager
async def piccolo(url: str) -> AsyncIterator[None]:
    """Point Piccolo at the database of an address; it would make a connection for each statement otherwise."""
    from core.storage.piccolo_conf import DB

    DB.config["dsn"] = url
    await DB.start_connection_pool(min_size=1, max_size=2)
    try:
        yield
    finally:
        await DB.close_connection_pool()


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
