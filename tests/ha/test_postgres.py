"""A service over Patroni: the quick faults. `make ha` runs all of them, with the timing of production."""

from collections.abc import AsyncIterator

import pytest

from core.settings.environment import read
from tests.faults import people as app
from tests.ha import programs
from tests.ha.postgres import QUICK_TTL_S, SEVERAL_HOSTS, THROUGH_PGBOUNCER, Deployment
from tests.stack import within
from tools.doctor import database
from tools.doctor.findings import Result
from tools.driving.throwaway import free_port

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(bool(programs.missing()), reason=programs.missing())]
RECONNECT_S = 5.0  # the longest that a phone waits before it connects again
IGNORED = "ignore_startup_parameters = statement_timeout,lock_timeout,idle_in_transaction_session_timeout,jit"


@pytest.fixture(scope="module")
async def deployment() -> AsyncIterator[Deployment]:
    """Yield a service over three servers."""
    made = Deployment(ttl=QUICK_TTL_S)
    try:
        await made.begin()
        yield made
    finally:
        made.close()


async def timeouts(url: str, pooler: str) -> tuple[bool, str]:
    """Return whether doctor's check of the timeouts passes, and its text."""
    settings = read({"DATABASE_URL": url, "DATABASE_POOLER": pooler})
    found = await app.retry(lambda: database.check_sessions(settings), timeout=10)
    return found.result is Result.OK, found.text


async def test_doctor_finds_a_pgbouncer_without_its_setting(deployment: Deployment) -> None:
    cluster, port = deployment.cluster, free_port()
    cluster.start_pgbouncer("careless", port, more=IGNORED)
    for url in (cluster.pgbouncer_url, cluster.url_at(port)):  # one refuses our timeouts, one drops them
        well, said = await timeouts(url, "none")
        assert not well
        assert "Set DATABASE_POOLER=transaction" in said
        assert await timeouts(url, "transaction") == (True, "the server applies them")


async def test_switchover_by_patroni_loses_nothing(deployment: Deployment) -> None:
    outcome = await deployment.measure("switchover", SEVERAL_HOSTS)
    assert outcome.good, outcome
    assert outcome.longest_gap_s < RECONNECT_S + within(4.0)


async def test_death_of_the_leader_behind_pgbouncer_loses_nothing(deployment: Deployment) -> None:
    outcome = await deployment.measure("leader killed (SIGKILL)", THROUGH_PGBOUNCER)
    assert outcome.good, outcome
    assert outcome.longest_gap_s < QUICK_TTL_S + RECONNECT_S + within(6.0)
