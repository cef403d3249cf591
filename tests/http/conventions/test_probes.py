"""Probes and documents: frequent calls by strangers are cheap, and every answer can be found in the log."""

import asyncio
import urllib.error
import urllib.request
from collections.abc import Iterator

import aiohttp
import pytest

from tests.access.wire import ask
from tests.stack import Stack, World, new_id, outcome

pytestmark = pytest.mark.anyio

COMMITS = "SELECT xact_commit + xact_rollback AS n FROM pg_stat_database WHERE datname = current_database()"


@pytest.fixture(scope="module")
def stack_without_docs() -> Iterator[Stack]:
    """Run a service without the interface documents."""
    made = Stack(DOCS_ENABLED="false")
    yield made
    made.close()


@pytest.mark.parametrize("name", ["INTERNAL", "REALTIME", "JOBS"])
@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/nothing"])
async def test_probe_answers_have_the_time_and_the_request_id(stack: Stack, name: str, path: str) -> None:
    request_id = new_id()
    request = urllib.request.Request(
        f"http://127.0.0.1:{stack.ports[name]}{path}", headers={"X-Request-Id": request_id}
    )
    try:
        answer = await asyncio.to_thread(urllib.request.urlopen, request)
    except urllib.error.HTTPError as error:
        answer = error
    assert answer.headers["X-Request-Id"] == request_id
    assert answer.headers["X-Server-Time"].endswith("Z")
    answer.close()


@pytest.mark.slow
async def test_readiness_checks_the_database_once_a_second(
    stack_without_docs: Stack, http: aiohttp.ClientSession
) -> None:
    [before] = await stack_without_docs.sql(
        "SELECT pg_stat_clear_snapshot(), coalesce(sum(seq_scan), 0) AS n FROM pg_stat_user_tables WHERE relname = 'migration'"
    )
    began = asyncio.get_running_loop().time()
    url = f"http://127.0.0.1:{stack_without_docs.ports['INTERNAL']}/readyz"
    for _ in range(200):
        assert (await ask(http, url)).status == 200
    seconds = asyncio.get_running_loop().time() - began

    async def scans() -> int:
        [row] = await stack_without_docs.sql(
            "SELECT sum(seq_scan) AS n FROM pg_stat_user_tables WHERE relname = 'migration'"
        )
        return row["n"] - before["n"]

    await asyncio.sleep(1.2)  # a backend writes its statistics at most once a second
    # At their start the three processes read it, too, twice each, and those reads may be reported during the test.
    assert await scans() <= seconds + 1 + 6


@pytest.mark.slow
async def test_interface_documents_are_404_when_switched_off(
    stack_without_docs: Stack, http: aiohttp.ClientSession
) -> None:
    for base in (stack_without_docs.addresses.public, stack_without_docs.addresses.internal):
        for path in ("/docs", "/openapi.json", "/docs/start.js"):
            assert (await ask(http, base + path)).status == 404


@pytest.mark.slow
async def test_repeats_waiting_for_a_key_poll_the_database_one_at_a_time(stack_without_docs: Stack) -> None:
    world = World(stack_without_docs)
    customer, key = await world.customer(), new_id()
    headers, body = {"Idempotency-Key": key}, {"duration_minutes": 12}
    async with stack_without_docs.transaction() as held:
        await held.execute("SELECT pg_advisory_xact_lock(hashtextextended($1, 4))", f"{customer.user['id']} {key}")
        [before] = await stack_without_docs.sql(COMMITS)
        async with asyncio.TaskGroup() as group:
            calls = [
                group.create_task(outcome(customer.call("POST", "/api/client/payment/requests", body, headers=headers)))
                for _ in range(30)
            ]
        assert {call.result() for call in calls} == {"IDEMPOTENCY_IN_FLIGHT"}
        await asyncio.sleep(1.2)  # as above
        [after] = await stack_without_docs.sql(COMMITS)
    assert after["n"] - before["n"] < 1_000  # each repeat polling twenty times a second would make 3,000
    await world.close()
