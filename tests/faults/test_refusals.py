"""A database that answers but refuses work: no disk space, no memory, or read-only. Callers get UNAVAILABLE; a
programming error does not count as an outage.
"""

import asyncio
import contextlib
import functools
import os
import pathlib
import secrets
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Any

import asyncpg
import pytest

from core.base.errors import Unavailable
from core.storage.database import Database
from tests.scrape import scrape
from tests.stack import Stack, World, new_id
from tools.driving.device import Device

pytestmark = pytest.mark.anyio
CREATE = "/api/client/payment/requests"
REFUSE = """CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN RAISE EXCEPTION 'refused by the test' USING ERRCODE = '{code}'; END $$"""
TRIGGER = "CREATE TRIGGER refuse BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION refuse()"
CODES = {"disk full": "53100", "out of memory": "53200", "configuration limit": "53400", "read-only": "25006"}
UNAVAILABLE = (503, "UNAVAILABLE", "1")
TABLES = ("payment_requests", "chat_messages")


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """Yield a service whose database is made to refuse writes."""
    made = Stack()
    yield made
    made.close()


@contextlib.asynccontextmanager
async def refusing(stack: Stack, code: str) -> AsyncIterator[None]:
    """Make inserts of payment requests and messages fail with this SQLSTATE."""
    await stack.sql(REFUSE.format(code=code))
    for table in TABLES:
        await stack.sql(TRIGGER.format(table=table))
    try:
        yield
    finally:
        for table in TABLES:  # one at a time: the service locks them in its own order
            await stack.sql(f"DROP TRIGGER refuse ON {table}")
        await stack.sql("DROP FUNCTION refuse()")


async def answer(client: Device, path: str, body: Any) -> tuple[int, str | None, str | None]:
    """Send a request; return (status, error code, Retry-After)."""
    headers = {"Authorization": f"Bearer {client.access_token}"}
    async with client._http.post(client._base + path, json=body, headers=headers) as found:
        error = (await found.json()).get("error", {})
        return found.status, error.get("code"), found.headers.get("Retry-After")


def message(session_id: str) -> tuple[str, dict[str, str]]:
    """Return path and body of a REST message that does not fit the free space of a page and can't be compressed."""
    body = {"client_message_id": new_id(), "content": secrets.token_urlsafe(2900)}
    return f"/api/shared/chat/sessions/{session_id}/messages", body


async def every_write_is_unavailable(world: World, session_id: str, sender: Device) -> None:
    """Check that a request, a message over REST and one over a socket all get UNAVAILABLE."""
    assert await answer(world.clients[0], CREATE, {"duration_minutes": 12}) == UNAVAILABLE
    assert await answer(sender, *message(session_id)) == UNAVAILABLE
    socket = await sender.open("chat")
    client_message_id = new_id()
    frame = {"session_id": session_id, "client_message_id": client_message_id, "content": "x"}
    await socket.send({"type": "send_message", "ref": "m", **frame})
    refused = await socket.wait("error", where=lambda frame: "ref" in frame)
    assert (refused["code"], refused.get("ref"), refused.get("retry_after_seconds")) == ("UNAVAILABLE", "m", 1)
    assert "not stored" not in refused["message"]  # after a commit without a reply the service can't know that


def counted(stack: Stack, listener: str, code: str) -> Counter[str]:
    """Return how often the database has refused a process with this SQLSTATE, and the process its clients."""
    seen = scrape(stack.ports[listener])
    refused = {
        "database": seen["sesi_database_refusals_total"].get((code,), 0),
        "clients": seen.get("sesi_refusals_total", {}).get(("UNAVAILABLE",), 0),
    }
    return Counter({name: int(number) for name, number in refused.items()})


async def scene(world: World) -> tuple[str, Device]:
    """Create an active session; return its id and its customer. The world's first client is another customer, who has a
    name.
    """
    await world.customer("Sari")
    customer, mitra = await world.customer(), await world.mitra()
    return await world.session(customer, mitra), customer


@pytest.mark.parametrize("code", CODES.values(), ids=CODES)
async def test_insufficient_resources_return_unavailable_until_they_are_back(
    world: World, stack: Stack, code: str
) -> None:
    session_id, customer = await scene(world)
    api, realtime = counted(stack, "INTERNAL", code), counted(stack, "REALTIME", code)
    async with refusing(stack, code):
        await every_write_is_unavailable(world, session_id, customer)
    assert (await answer(customer, *message(session_id)))[0] == 201
    for listener, before, refused in (("INTERNAL", api, 2), ("REALTIME", realtime, 1)):
        after = counted(stack, listener, code) - before
        assert after["clients"] == refused
        assert after["database"] >= refused  # some statements are tried again


@contextlib.contextmanager
def small_disk(size: str) -> Iterator[pathlib.Path]:
    """Mount a file system of this size. Skip the test where mounting needs root."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="sesi-disk-"))
    mounted = os.geteuid() == 0 and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], capture_output=True, check=False
    )  # fmt: skip
    if not mounted or mounted.returncode:
        folder.rmdir()
        pytest.skip("a small file system can't be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)
        folder.rmdir()


async def test_full_disk_returns_unavailable_until_there_is_space(world: World, stack: Stack) -> None:
    session_id, customer = await scene(world)
    with small_disk("2m") as disk:
        os.chown(disk, (stack.servers.postgres_dir / "cluster").stat().st_uid, -1)
        await stack.sql(f"CREATE TABLESPACE small LOCATION '{disk}'")
        try:
            await move_messages(stack, "small")
            await stack.sql("CREATE TABLE filler (bytes text) TABLESPACE small")
            while not await full(stack):
                pass
            answers = [await answer(customer, *message(session_id)) for _ in range(10)]  # free pages are used up first
            assert answers[-1] == UNAVAILABLE
            assert {status for status, _, _ in answers} <= {201, 503}
            await stack.sql("DROP TABLE filler")
            assert (await answer(customer, *message(session_id)))[0] == 201
        finally:
            await stack.sql("DROP TABLE IF EXISTS filler")
            await move_messages(stack, "pg_default")
            await stack.sql("DROP TABLESPACE small")


async def move_messages(stack: Stack, tablespace: str) -> None:
    """Move the partitions of the table of messages into a tablespace."""
    for row in await stack.sql(
        "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'chat_messages'::regclass"
    ):
        await stack.sql(f"ALTER TABLE {row[0]} SET TABLESPACE {tablespace}")


async def full(stack: Stack) -> bool:
    """Write to the small disk; return whether it is full."""
    try:
        await stack.sql("INSERT INTO filler SELECT repeat('x', 900) FROM generate_series(1, 64)")
    except asyncpg.DiskFullError:
        return True
    return False


def readiness(stack: Stack, name: str) -> int:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{stack.ports[name]}/readyz", timeout=5) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


async def all_ready(stack: Stack, status: int) -> None:
    """Wait until every process answers its probe with this status."""
    deadline = time.monotonic() + 10
    for name in ("INTERNAL", "REALTIME", "JOBS"):
        while await asyncio.to_thread(readiness, stack, name) != status:
            assert time.monotonic() < deadline, name
            await asyncio.sleep(0.05)


async def test_read_only_server_is_not_ready_until_it_accepts_writes(world: World, stack: Stack) -> None:
    session_id, customer = await scene(world)
    await all_ready(stack, 200)
    await stack.sql("ALTER SYSTEM SET default_transaction_read_only = on")
    try:
        await stack.sql("SELECT pg_reload_conf()")
        await all_ready(stack, 503)
        await every_write_is_unavailable(world, session_id, customer)
    finally:
        await stack.sql("ALTER SYSTEM RESET default_transaction_read_only")
        await stack.sql("SELECT pg_reload_conf()")
    await all_ready(stack, 200)
    assert (await answer(world.clients[0], CREATE, {"duration_minutes": 12}))[0] == 201


async def test_wrong_number_of_sql_arguments_is_not_reported_as_an_outage(stack: Stack) -> None:
    database = await Database.connect(stack.database_url, size=1)
    try:
        with pytest.raises(asyncpg.InterfaceError):
            await database.fetch("SELECT $1::int")
        with pytest.raises(asyncpg.InterfaceError, match="expects 1 argument"):
            async with database.transaction(lambda: None) as tx:
                await tx.fetch("SELECT $1::int")
    finally:
        await database.close()


async def test_closed_connection_and_closing_pool_make_the_database_unavailable(stack: Stack) -> None:
    database = await Database.connect(stack.database_url, size=1)
    try:
        async with database.transaction(lambda: None) as tx:
            tx._connection.terminate()
            with pytest.raises(asyncpg.InterfaceError):
                await tx.fetch("SELECT 1")
        raise AssertionError("a transaction without its connection was committed")
    except Unavailable:
        assert await database.fetchval("SELECT 1") == 1
    finally:
        await database.close()
    with pytest.raises(Unavailable):
        await database.fetchval("SELECT 1")


@pytest.mark.parametrize("through_pooler", [False, True])
async def test_every_use_of_a_database_that_refuses_is_unavailable(stack: Stack, through_pooler: bool) -> None:
    """No caller has to know the errors of the driver: here PostgreSQL cancels the statement."""
    database = await Database.connect(stack.database_url, size=1, through_pooler=through_pooler)
    cancelled = "SELECT pg_cancel_backend(pg_backend_pid()), pg_sleep(1)"

    async def on_a_connection() -> None:
        async with database.connection() as connection:
            await connection.fetch(cancelled)

    async def in_a_transaction() -> None:
        async with database.transaction(lambda: None) as tx:
            await tx.fetch(cancelled)

    uses = [
        on_a_connection,
        in_a_transaction,
        *(functools.partial(use, cancelled) for use in (database.fetch, database.fetchrow, database.fetchval)),
        functools.partial(database.fetch_once, cancelled),
    ]
    try:
        for use in uses:
            with pytest.raises(Unavailable) as caught:
                await use()
            assert isinstance(caught.value.__cause__, asyncpg.QueryCanceledError)
    finally:
        await database.close()
