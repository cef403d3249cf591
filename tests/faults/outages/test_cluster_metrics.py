"""One jobs process exports the cluster's metrics. When it dies, stops or is cut off, another one does, and never both."""

import asyncio
import time
from collections.abc import Iterator

import pytest

from jobs.cluster_metrics import LEASE_S, READ_S, RENEW_EVERY_S
from tests.faults.proxy import Mode
from tests.faults.service import Service
from tests.scrape import CLUSTER_NAMES, cluster_names
from tests.stack import within

pytestmark = pytest.mark.anyio
JOBS = ("jobs", "jobs2")

TAKEOVER_S = LEASE_S + RENEW_EVERY_S + READ_S


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    """Run two jobs processes behind proxies."""
    made = Service(counts={"jobs": 2})
    yield made
    made.close()


async def exporters(service: Service) -> list[str]:
    """Return which jobs processes expose metrics of the cluster. One that does must expose all of them."""
    found = []
    for key in JOBS:
        if service.processes[key].poll() is not None:
            continue
        names = await asyncio.to_thread(cluster_names, service.nodes[key].probe)
        if names:
            assert names == CLUSTER_NAMES, key
            found.append(key)
    return found


async def exporter(service: Service, *, seconds: float = TAKEOVER_S) -> str:
    """Return the process that exports within a time. Two at a time fail."""
    deadline = time.monotonic() + within(seconds)
    while time.monotonic() < deadline:
        found = await exporters(service)
        assert len(found) <= 1
        if found:
            return found[0]
        await asyncio.sleep(0.1)
    raise AssertionError(f"no process exports the cluster's metrics after {seconds} s")


def other_than(key: str) -> str:
    return JOBS[1 - JOBS.index(key)]


async def test_api_and_realtime_expose_no_metrics_of_the_cluster(service: Service) -> None:
    await exporter(service)
    for key in ("api", "realtime"):
        assert await asyncio.to_thread(cluster_names, service.nodes[key].probe) == set()


async def test_killed_exporter_is_replaced_within_its_lease_and_stays_silent_afterwards(service: Service) -> None:
    first = await exporter(service)
    service.kill(first)
    second = await exporter(service)
    assert second == other_than(first)
    service.begin(first)
    service.await_ready(first)
    until = time.monotonic() + RENEW_EVERY_S * 2
    while time.monotonic() < until:
        assert await exporters(service) == [second]
        await asyncio.sleep(0.2)


async def test_stopped_exporter_releases_its_lease(service: Service) -> None:
    first = await exporter(service)
    assert service.stop(first) == 0
    try:
        assert await exporter(service, seconds=RENEW_EVERY_S + READ_S) == other_than(first)
    finally:
        service.begin(first)
        service.await_ready(first)


async def test_exporter_without_a_database_exports_until_its_lease_ends(service: Service) -> None:
    first = await exporter(service)
    await service.network("postgres", Mode.HANG, [first])
    try:
        began = time.monotonic()
        while await exporters(service) == [first]:
            assert time.monotonic() < began + within(LEASE_S + 1)
            await asyncio.sleep(0.05)
        assert time.monotonic() > began + LEASE_S - RENEW_EVERY_S - 1  # no gap in the figures before
        assert await exporter(service) == other_than(first)
    finally:
        await service.network("postgres", Mode.PASS, [first])


async def test_frozen_exporter_exposes_nothing_when_it_goes_on(service: Service) -> None:
    first = await exporter(service)
    frozen = service.nodes[first].probe
    service.freeze(first)
    try:
        # The frozen process does not answer, so only the other one is asked.
        other = service.nodes[other_than(first)].probe
        deadline = time.monotonic() + within(TAKEOVER_S)
        while not await asyncio.to_thread(cluster_names, other):
            assert time.monotonic() < deadline
            await asyncio.sleep(0.1)
    finally:
        service.thaw(first)
    assert await asyncio.to_thread(cluster_names, frozen) == set()
    assert await exporter(service) == other_than(first)
