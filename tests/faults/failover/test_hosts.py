"""DATABASE_URL with several hosts: the service finds the server that accepts writes, and leaves one that no longer
does.
"""

import asyncio
import contextlib
import datetime as dt
import time
from collections.abc import AsyncIterator, Iterator

import pytest

from core.base.addresses import database_urls
from core.base.errors import Unavailable
from core.storage.database import SEEK_EVERY_S, Database
from core.storage.host import host_of
from tests.faults.failover.cluster import Pair, silent_port
from tests.faults.proxy import Proxy
from tests.stack import Stack, within
from tools.commands import migrate

pytestmark = pytest.mark.anyio
WRITE = "CREATE TABLE IF NOT EXISTS written (n int)"
READ_ONLY = "ALTER SYSTEM SET default_transaction_read_only = on"
WRITABLE = "ALTER SYSTEM RESET default_transaction_read_only"
SHOW = "SHOW default_transaction_read_only"


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """Yield a server without any process."""
    made = Stack(only_database=True)
    yield made
    made.close()


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    """Yield a primary and its standby; the last test that uses them promotes the standby."""
    made = Pair()
    yield made
    made.close()


@pytest.fixture
def proxy(stack: Stack) -> Iterator[Proxy]:
    """Yield a proxy that counts the connections to the server."""
    made = Proxy(stack.database_url)
    yield made
    made.close()


@pytest.fixture
async def writable(stack: Stack) -> AsyncIterator[None]:
    """Make the server accept writes again after the test."""
    yield
    await make(stack, WRITABLE)


async def make(stack: Stack, setting: str) -> None:
    """Change a setting of the server and wait until sessions see it."""
    await stack.sql(setting)
    await stack.sql("SELECT pg_reload_conf()")
    deadline = time.monotonic() + 10
    while (await stack.sql(SHOW))[0][0] != ("on" if setting == READ_ONLY else "off"):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


def port_of(url: str) -> str:
    return host_of(url).rpartition(":")[2]


def now() -> dt.datetime:
    return dt.datetime(2026, 11, 23, tzinfo=dt.UTC)


async def write(database: Database) -> None:
    async with database.transaction(now) as tx:
        await tx.execute(WRITE)


def test_url_with_one_host_is_unchanged() -> None:
    url = "postgresql://sesi:secret@db.example:5432/sesi?sslmode=require&target_session_attrs=any"
    assert database_urls(url) == [url]


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://sesi:a%40b@one:1,two,[::1]:3/sesi?sslmode=require",
        "postgresql://sesi:a%40b@one:1,two,[::1]:3/sesi?target_session_attrs=read-write&sslmode=require",
    ],
)
def test_url_with_several_hosts_becomes_one_url_each(url: str) -> None:
    rest = "/sesi?sslmode=require"
    assert database_urls(url) == [f"postgresql://sesi:a%40b@{host}{rest}" for host in ("one:1", "two", "[::1]:3")]


def test_hosts_in_url_options_become_one_url_each() -> None:
    assert database_urls("postgresql://sesi@/sesi?host=/run/one,two&port=1,2&sslmode=disable") == [
        "postgresql://sesi@/sesi?host=/run/one&port=1&sslmode=disable",
        "postgresql://sesi@/sesi?host=two&port=2&sslmode=disable",
    ]


@pytest.mark.parametrize("wish", ["any", "standby", "read-only", "prefer-standby"])
def test_several_hosts_with_a_standby_preference_are_refused(wish: str) -> None:
    with pytest.raises(ValueError, match="postgresql"):
        database_urls(f"postgresql://sesi@one,two/sesi?target_session_attrs={wish}")


async def test_pool_finds_the_primary_after_dead_silent_and_read_only_hosts(pair: Pair) -> None:
    with silent_port() as silent:
        standby, primary = port_of(pair.standby_url), port_of(pair.primary_url)
        for ports in ((1, silent, standby, primary), (primary, standby, silent, 1), (standby, 1, primary, silent)):
            hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
            began = time.monotonic()
            database = await Database.connect(f"postgresql://postgres@{hosts}/sesi?sslmode=disable", size=3)
            try:
                assert time.monotonic() - began < within(2.0)
                assert await database.fetchval("SELECT inet_server_port()") == int(primary)
                await write(database)
            finally:
                await database.close()


async def test_commands_find_the_primary(pair: Pair) -> None:
    assert await migrate.pending(pair.url) == set()


async def test_pool_leaves_a_read_only_server_after_a_refused_write(pair: Pair) -> None:
    name = Proxy(pair.standby_url)
    database = await Database.connect(name.url, size=4)
    try:
        await asyncio.gather(*(database.fetchval("SELECT pg_sleep(0.1)") for _ in range(4)))
        name.target = ("127.0.0.1", int(port_of(pair.primary_url)))  # the old connections still lead to the old server
        with pytest.raises(Unavailable):
            await write(database)
        await written(database)
        await at_once(database)  # no connection to the old server is left
    finally:
        await database.close()
        name.close()


async def test_pool_moves_to_the_promoted_standby_and_never_back(pair: Pair) -> None:
    database = await Database.connect(pair.url, size=3)
    changes: list[str] = []
    database.subscribe_to_new_epoch(lambda: changes.append(database.epoch))
    first = database.epoch
    try:
        await write(database)
        # Two primaries: the old one is alive, accepts writes and does not know about the promotion.
        await pair.on_primary("ALTER SYSTEM RESET synchronous_standby_names")
        await pair.on_primary("SELECT pg_reload_conf()")
        promoted_at = await pair.promote()
        while await database.fetchval("SELECT inet_server_port()") != int(port_of(pair.standby_url)):
            assert time.monotonic() - promoted_at < within(2.0)
            await asyncio.sleep(0.02)
        await write(database)
        assert len(changes) == 1
        assert changes[0] == database.epoch != first
        pair.to_standby.reset_all()
        for _ in range(20):
            assert await database.fetchval("SELECT inet_server_port()") == int(port_of(pair.standby_url))
            await asyncio.sleep(0.05)
    finally:
        await database.close()


async def test_pool_without_a_writable_host_fails_within_two_seconds() -> None:
    with silent_port() as silent:
        began = time.monotonic()
        with pytest.raises(TimeoutError, match=r"127\.0\.0\.1:1: ConnectionRefusedError, .*: TimeoutError"):
            await Database.connect(f"postgresql://postgres@127.0.0.1:1,127.0.0.1:{silent}/sesi", size=3)
        assert time.monotonic() - began < within(2.0)


async def test_single_host_gets_one_connection_per_pool_slot(stack: Stack) -> None:
    database = await Database.connect(stack.database_url, size=2)
    try:
        await write(database)
        assert (await stack.sql("SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'sesi%'"))[0][0] == 2
    finally:
        await database.close()


async def test_pool_writes_again_when_its_server_accepts_writes_again(stack: Stack, writable: None) -> None:
    database = await Database.connect(stack.database_url, size=3)
    try:
        await make(stack, READ_ONLY)
        with pytest.raises(Unavailable):
            await write(database)
        assert not await database.is_writable()
        await make(stack, WRITABLE)
        await write(database)
    finally:
        await database.close()


async def test_refused_writes_open_at_most_one_new_connection_a_second(
    stack: Stack, writable: None, proxy: Proxy
) -> None:
    database = await Database.connect(proxy.url, size=4)

    async def refused() -> None:
        with pytest.raises(Unavailable):
            await write(database)

    try:
        await at_once(database)  # the pool grows to its maximum
        await make(stack, READ_ONLY)
        before, began = proxy.accepted, time.monotonic()
        for _ in range(50):
            await asyncio.gather(*(refused() for _ in range(8)))
            await database.fetchval("SELECT 1")  # reads still work
        assert 1 <= proxy.accepted - before <= 1 + (time.monotonic() - began) / SEEK_EVERY_S
        await make(stack, WRITABLE)
        await at_once(database)
    finally:
        await database.close()


async def written(database: Database) -> None:
    """Write as soon as the server accepts writes."""
    async with asyncio.timeout(5):
        while True:
            with contextlib.suppress(Unavailable):
                return await write(database)
            await asyncio.sleep(0.01)


async def at_once(database: Database) -> None:
    """Write on several connections at once."""

    async def slowly() -> None:
        async with database.transaction(now) as tx:
            await tx.execute(WRITE)
            await tx.fetchval("SELECT pg_sleep(0.05)")

    await asyncio.gather(*(slowly() for _ in range(8)))
