"""A database of any earlier schema upgrades to the current one, and each migration script can run twice."""

import difflib
import json
import pathlib
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from tests.migrations import catalog, record
from tests.migrations.old_databases import OldDatabases, run_script, upgrade
from tests.stack import Stack
from tools.commands import adoption, migrate

pytestmark = pytest.mark.anyio
STATES = record.states()
# The schemas of 0.2.0, of the commit after it and of a version before it.
V0_2 = next(state for state in STATES if state.commit == "04599cd")
AFTER_0_2 = STATES[STATES.index(V0_2) + 1]
EARLIER = next(state for state in STATES if state.commit == "039b60f")
OLD_ROWS = pathlib.Path(__file__).with_name("old_rows.sql").read_text()


@pytest.fixture(scope="module")
async def fresh(servers: Stack) -> set[str]:
    """Return the schema of a new database."""
    return await schema_of(servers.database_url)


@pytest.fixture(scope="module")
def old(servers: Stack) -> OldDatabases:
    """Return the databases of earlier commits."""
    return OldDatabases(servers, [state.steps() for state in (STATES[0], EARLIER, V0_2, AFTER_0_2)])


@pytest.fixture
async def empty(servers: Stack) -> AsyncIterator[str]:
    """Yield the address of an empty database."""
    await servers.sql("CREATE DATABASE upgraded")
    yield servers.url_of("upgraded")
    await servers.sql("DROP DATABASE upgraded WITH (FORCE)")


@pytest.fixture
async def upgraded(
    request: pytest.FixtureRequest, servers: Stack, old: OldDatabases, tmp_path: pathlib.Path
) -> AsyncIterator[str]:
    """Yield the address of a copy of the database of a commit, the test's parameter."""
    await servers.sql(f"CREATE DATABASE upgraded TEMPLATE {await old.of(request.param, tmp_path)}")
    yield servers.url_of("upgraded")
    await servers.sql("DROP DATABASE upgraded WITH (FORCE)")


def of(*states: record.State) -> pytest.MarkDecorator:
    """Run a test with the database of each commit."""
    return pytest.mark.parametrize("upgraded", states, ids=[state.commit for state in states], indirect=True)


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


@of(*STATES)
async def test_upgrade_from_an_earlier_schema_equals_a_new_database(fresh: set[str], upgraded: str) -> None:
    await upgrade(upgraded)
    found = await schema_of(upgraded)
    assert list(difflib.ndiff(sorted(fresh - found), sorted(found - fresh))) == []
    assert await migrate.pending(upgraded) == frozenset()


@of(STATES[0], V0_2, AFTER_0_2)
async def test_migrate_upgrades_a_database_of_each_kind(fresh: set[str], upgraded: str) -> None:
    await migrate.migrate(upgraded)
    assert await schema_of(upgraded) == fresh
    assert await migrate.pending(upgraded) == frozenset()


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


@of(V0_2)
async def test_adopting_a_database_of_0_2_changes_nothing_but_its_list(upgraded: str) -> None:
    connection = await asyncpg.connect(upgraded)
    try:
        await connection.execute(OLD_ROWS)
        names = await connection.fetchval("SELECT array_agg(name) FROM migration")
        before = await catalog.schema(connection), await catalog.rows(connection)
        async with connection.transaction():
            await connection.execute("LOCK TABLE chat_sessions, payment_requests IN ACCESS EXCLUSIVE MODE")
            await adoption.adopt(upgraded)
        schema, rows = await catalog.schema(connection), await catalog.rows(connection)
        assert (schema, {**rows, "migration": None}) == (before[0], {**before[1], "migration": None})
        after = await connection.fetchval("SELECT array_agg(name) FROM migration")
        assert sorted(after) == sorted([*names, *adoption.REPLACEMENTS])
        await adoption.adopt(upgraded)
        assert await connection.fetchval("SELECT array_agg(name) FROM migration") == after
    finally:
        await connection.close()


@of(EARLIER)
@pytest.mark.parametrize("done", range(1, 8))
async def test_upgrade_that_stopped_after_any_transaction_is_finished_by_the_next(
    fresh: set[str], upgraded: str, done: int
) -> None:
    texts = record.present()
    files = [
        *adoption.FILES,
        "0001_tables.sql",
        "0001_indexes.sql",
        "0002_edges.sql",
        "0002_money.sql",
        "0003_silence.sql",
    ]
    connection = await asyncpg.connect(upgraded)
    try:
        for name in files[:done]:
            await connection.execute(texts[f"sql/{name}"])
    finally:
        await connection.close()
    await migrate.migrate(upgraded)
    assert await schema_of(upgraded) == fresh


@of(STATES[0])
async def test_rows_of_the_first_schema_keep_their_meaning(upgraded: str) -> None:
    connection = await asyncpg.connect(upgraded)
    try:
        await connection.execute(OLD_ROWS)
        before = await contents(connection)
        await migrate.migrate(upgraded)
        after = await contents(connection)
        assert [row for row in before if not any(same(row, one) for one in after)] == []
        sent = "SELECT DISTINCT customer_sent_seq, mitra_sent_seq FROM chat_sessions"
        assert [tuple(row) for row in await connection.fetch(sent)] == [(1, 2)]
        # An event of the first version is sent again on sockets; a push for it would be too late.
        assert await connection.fetchval("SELECT count(*) FROM deliveries WHERE pushed_real_at IS NULL") == 0
    finally:
        await connection.close()
