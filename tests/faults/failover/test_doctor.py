"""`sesi doctor` reports whether a failover could lose acknowledged data."""

import asyncio
from collections.abc import Iterator

import attrs
import pytest

from core.settings.environment import read as read_settings
from core.storage.durability import Durability
from tests.faults.failover.cluster import Pair
from tools.doctor import database
from tools.doctor.findings import Result

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
    findings = await database.check_durability(found)
    return findings[0].result is Result.OK, "; ".join(one.text for one in findings)


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


async def test_several_hosts_without_a_standby_are_reported(pair: Pair) -> None:
    alone = Durability(
        several_hosts=True, read_only=False, synchronous_commit="on", fsync="on", full_page_writes="on", names="",
        standbys=0,
    )  # fmt: skip
    assert "no standby follows the primary" in alone.problems(production=True)[0]
    assert attrs.evolve(alone, several_hosts=False).problems(production=True) == []


async def test_processes_warn_of_losses_when_they_start(pair: Pair) -> None:
    await set_and_reload(pair, "SET synchronous_commit = off")
    pair.stack.start("jobs")
    async with asyncio.timeout(10):
        while "a crash loses the latest acknowledged data" not in pair.stack.log("jobs"):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    await set_and_reload(pair, "RESET synchronous_commit")


async def test_doctor_requires_commits_on_disk(pair: Pair) -> None:
    await set_and_reload(pair, "SET synchronous_commit = off")
    assert "set synchronous_commit = on" in (await durability(pair))[1]
    await set_and_reload(pair, "RESET synchronous_commit")
    well, said = await durability(pair, environment="production")
    assert not well  # the servers of tests do not wait for the disk
    assert "set fsync = on" in said
    assert "set full_page_writes = on" in said
