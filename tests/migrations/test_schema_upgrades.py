"""A database of any earlier schema upgrades to the current one, and each migration script can run twice."""

import difflib
import importlib.util
import json
import os
import pathlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import asyncpg
import pytest

from tests.migrations import catalog, record
from tests.stack import Stack
from tools import adoption, migrate

pytestmark = pytest.mark.anyio
STATES = record.states()
# The schemas of 0.2.0 and of a version before it.
V0_2 = next(state for state in STATES if state.commit == "04599cd")
EARLIER = next(state for state in STATES if state.commit == "039b60f")
OLD_ROWS = pathlib.Path(__file__).with_name("old_rows.sql").read_text()


@pytest.fixture(scope="module")
def servers() -> Iterator[Stack]:
    """Yield a PostgreSQL server without a service; its own database has the current schema."""
    made = Stack(only_database=True)
    yield made
    made.close()


@pytest.fixture
async def empty(servers: Stack) -> AsyncIterator[str]:
    """Yield the address of an empty database."""
    await servers.sql("CREATE DATABASE upgraded")
    yield servers.url_of("upgraded")
    await servers.sql("DROP DATABASE upgraded WITH (FORCE)")


def point_piccolo_at(url: str) -> None:
    """Point Piccolo at the database of an address."""
    os.environ.setdefault("PICCOLO_CONF", "core.storage.piccolo_conf")
    from core.storage.piccolo_conf import DB

    DB.config["dsn"] = url


async def run_script(path: pathlib.Path, url: str) -> str:
    """Run one migration as Piccolo runs it, without recording it; return its id."""
    point_piccolo_at(url)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    script: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    await (await script.forwards()).run()
    return script.ID


async def make_old(state: record.State, folder: pathlib.Path, url: str) -> None:
    """Migrate an empty database with the migrations of an earlier commit, in order of their ids."""
    state.write(folder)
    point_piccolo_at(url)
    from piccolo.apps.migrations.tables import Migration

    await Migration.create_table().run()
    for name in sorted(state.files):
        if name.endswith(".py"):
            await Migration.insert(Migration(name=await run_script(folder / name, url), app_name="sesi")).run()


async def schema_of(url: str) -> set[str]:
    """Return the schema of the database at an address."""
    connection = await asyncpg.connect(url)
    try:
        return await catalog.schema(connection)
    finally:
        await connection.close()


async def contents(connection: asyncpg.Connection) -> list[tuple[str, dict[str, Any]]]:
    """Return each row of the database with the name of its table."""
    found: list[tuple[str, dict[str, Any]]] = []
    for table in await catalog.rows(connection):
        found += [(table, json.loads(row[0])) for row in await connection.fetch(f"SELECT to_jsonb(t) FROM {table} t")]
    return found


def same(old: tuple[str, dict[str, Any]], new: tuple[str, dict[str, Any]]) -> bool:
    """Return whether a row of a new schema has every value of a row of an old one."""
    return old[0] == new[0] and all(name in new[1] and new[1][name] == value for name, value in old[1].items())


@pytest.mark.parametrize("state", STATES, ids=[state.commit for state in STATES])
async def test_upgrade_from_an_earlier_schema_equals_a_new_database(
    servers: Stack, empty: str, tmp_path: pathlib.Path, state: record.State
) -> None:
    await make_old(state, tmp_path, empty)
    await migrate.migrate(empty)
    fresh, upgraded = await schema_of(servers.database_url), await schema_of(empty)
    assert list(difflib.ndiff(sorted(fresh - upgraded), sorted(upgraded - fresh))) == []
    assert await migrate.pending(empty) == frozenset()


async def test_each_script_run_twice_changes_nothing_the_second_time(empty: str) -> None:
    connection = await asyncpg.connect(empty)
    try:
        for number, path in enumerate(sorted(record.MIGRATIONS.glob("[0-9]*.py"))):
            await run_script(path, empty)
            if number == 0:
                await connection.execute(OLD_ROWS)
            before = await catalog.schema(connection), await catalog.rows(connection)
            await run_script(path, empty)
            assert (await catalog.schema(connection), await catalog.rows(connection)) == before, path.name
    finally:
        await connection.close()


async def test_adopting_a_database_of_0_2_changes_nothing_but_its_list(empty: str, tmp_path: pathlib.Path) -> None:
    await make_old(V0_2, tmp_path, empty)
    connection = await asyncpg.connect(empty)
    try:
        await connection.execute(OLD_ROWS)
        names = await connection.fetchval("SELECT array_agg(name) FROM migration")
        before = await catalog.schema(connection), await catalog.rows(connection)
        async with connection.transaction():
            await connection.execute("LOCK TABLE chat_sessions, payment_requests IN ACCESS EXCLUSIVE MODE")
            await adoption.adopt(empty)
        schema, rows = await catalog.schema(connection), await catalog.rows(connection)
        assert (schema, {**rows, "migration": None}) == (before[0], {**before[1], "migration": None})
        after = await connection.fetchval("SELECT array_agg(name) FROM migration")
        assert sorted(after) == sorted([*names, *adoption.REPLACEMENTS])
        await adoption.adopt(empty)
        assert await connection.fetchval("SELECT array_agg(name) FROM migration") == after
    finally:
        await connection.close()


@pytest.mark.parametrize("done", range(1, 8))
async def test_upgrade_that_stopped_after_any_transaction_is_finished_by_the_next(
    servers: Stack, empty: str, tmp_path: pathlib.Path, done: int
) -> None:
    await make_old(EARLIER, tmp_path, empty)
    texts = record.present()
    files = [
        *adoption.FILES,
        "0001_tables.sql",
        "0001_indexes.sql",
        "0002_edges.sql",
        "0002_money.sql",
        "0003_silence.sql",
    ]
    connection = await asyncpg.connect(empty)
    try:
        for name in files[:done]:
            await connection.execute(texts[f"sql/{name}"])
    finally:
        await connection.close()
    await migrate.migrate(empty)
    assert await schema_of(empty) == await schema_of(servers.database_url)


async def test_rows_of_the_first_schema_keep_their_meaning(servers: Stack, empty: str, tmp_path: pathlib.Path) -> None:
    await make_old(STATES[0], tmp_path, empty)
    connection = await asyncpg.connect(empty)
    try:
        await connection.execute(OLD_ROWS)
        before = await contents(connection)
        await migrate.migrate(empty)
        after = await contents(connection)
        assert [row for row in before if not any(same(row, one) for one in after)] == []
        sent = "SELECT DISTINCT customer_sent_seq, mitra_sent_seq FROM chat_sessions"
        assert [tuple(row) for row in await connection.fetch(sent)] == [(1, 2)]
        # An event of the first version is sent again on sockets; a push for it would be too late.
        assert await connection.fetchval("SELECT count(*) FROM deliveries WHERE pushed_real_at IS NULL") == 0
    finally:
        await connection.close()
