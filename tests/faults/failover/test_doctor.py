"""`sesi doctor` reports whether a failover could lose acknowledged data."""

from collections.abc import Iterator

import attrs
import pytest

from core.base.environment import read as read_settings
from tests.faults.failover.cluster import Pair
from tools import doctor

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    """Yield a primary with a standby that it does not wait for."""
    made = Pair(synchronous=False)
    yield made
    made.close()


async def durability(pair: Pair, **settings: str) -> tuple[bool, str]:
    """Return whether doctor's durability check passes, and its text."""
    found = attrs.evolve(read_settings({"DATABASE_URL": pair.url}), **settings)
    _, well, said = await doctor._durability(found)
    return well, said


async def set_and_reload(pair: Pair, setting: str) -> None:
    await pair.on_primary(f"ALTER SYSTEM {setting}")
    await pair.on_primary("SELECT pg_reload_conf()")


async def test_doctor_requires_commits_to_wait_for_a_standby(pair: Pair) -> None:
    well, said = await durability(pair)
    assert not well
    assert "synchronous_standby_names" in said
    await pair._make_synchronous()
    assert await durability(pair) == (True, "commits wait for a standby")
    await set_and_reload(pair, "SET synchronous_commit = local")
    well, said = await durability(pair)
    assert not well
    assert "a failover to the standby loses" in said


async def test_doctor_requires_commits_on_disk(pair: Pair) -> None:
    await set_and_reload(pair, "SET synchronous_commit = off")
    assert "set synchronous_commit = on" in (await durability(pair))[1]
    await set_and_reload(pair, "RESET synchronous_commit")
    well, said = await durability(pair, environment="production")
    assert not well  # the servers of tests do not wait for the disk
    assert "set fsync = on" in said
    assert "set full_page_writes = on" in said
