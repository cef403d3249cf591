"""A migration during a long transaction over the same tables: sign-in still works, and the migration waits."""

import asyncio
import time
from collections.abc import Iterator

import asyncpg
import pytest

from core.storage.locks import AdvisoryLock
from tests.stack import Stack, World, within
from tests.verdicts import check_books
from tools.commands import migrate
from tools.driving.device import Device

pytestmark = pytest.mark.anyio
REPEATED = "0004"  # creates indexes of auth_sessions if they are missing, which locks the table against writes
WAITED_S = 2.0  # how long a migration waits for a lock before it gives up


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """Yield a service whose database is migrated while it runs."""
    made = Stack()
    yield made
    made.close()


async def sign_in(stack: Stack) -> float:
    """Sign in and refresh; return the seconds that it took."""
    client = Device(stack.addresses)
    began = time.monotonic()
    try:
        await client.sign_in_anonymously("Dewi")
        await client.refresh()
    finally:
        await client.close()
    return time.monotonic() - began


async def test_migration_during_a_long_transaction_does_not_block_sign_in(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrate, "AGAIN_S", 0.5)
    await stack.sql("DELETE FROM migration WHERE name = $1", REPEATED)
    writer = await asyncpg.connect(stack.database_url)
    try:
        async with writer.transaction():
            await writer.execute("UPDATE auth_sessions SET id = id WHERE false")  # locks the table, but no row
            migration = asyncio.create_task(migrate.migrate(stack.database_url))
            until = time.monotonic() + 4 * WAITED_S
            times = []
            while time.monotonic() < until or len(times) <= 5:
                times.append(await sign_in(stack))
            assert not migration.done()
            assert max(times) < within(2 * WAITED_S + 0.5)  # both statements queued behind one attempt
        assert await asyncio.wait_for(migration, 60) == 1
    finally:
        await writer.close()


async def test_audit_is_refused_while_a_migration_runs(stack: Stack) -> None:
    connection = await asyncpg.connect(stack.database_url)
    world = World(stack)
    try:
        operator = await world.operator()
        await connection.execute("SELECT pg_advisory_lock($1)", AdvisoryLock.MIGRATION)
        headers = {"Authorization": f"Bearer {operator.access_token}"}
        url = f"{stack.addresses.internal}/internal/ledger/audit"
        async with operator._http.get(url, headers=headers) as answer:
            assert answer.status == 503
            assert (await answer.json())["error"]["code"] == "UNAVAILABLE"
        await connection.execute("SELECT pg_advisory_unlock($1)", AdvisoryLock.MIGRATION)
        check_books(await world.audit())
    finally:
        await connection.close()
        await world.close()
