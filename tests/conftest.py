"""Shared fixtures: a service at real speed, and one on which a minute passes each second. Both are real processes."""

import fcntl
import pathlib
from collections.abc import AsyncIterator, Iterator

import hypothesis
import pytest

from core.providers.http_client import HttpClient
from tests.forked import Forked
from tests.sockets.declared import UNDECLARED, check_frame
from tests.stack import Stack, World, make_template
from tools.client import Socket
from tools.phone import Reconnection

# Property tests are seeded by their own text: each run has the same examples, and earlier ones are not stored.
hypothesis.settings.register_profile("sesi", max_examples=150, deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("sesi")
Socket.check_frame = staticmethod(check_frame)
Stack.launch = Forked
Stack.execute = Forked.command
Reconnection.pace = 1 / 6  # tests of outages do not wait for an app's backoff of up to 30 s
ROOT = pathlib.Path(__file__).parent
# Many tests send messages without pauses. The tests of this limit start processes with the default.
FAST_TALKERS = {"WS_MESSAGES_PER_SECOND": "1000000", "WS_MESSAGES_BURST": "1000000"}
# The files that take longest, in this order, so that at the end no worker is left alone with a slow file. Those that
# mostly wait alternate with those that mostly compute.
SLOWEST = (
    "faults/test_presence.py",
    "pages/test_pages.py",
    "faults/test_absent_parties.py",
    "sockets/push/test_pushes.py",
    "ha/test_rolling.py",
    "migrations/test_schema_upgrades.py",
    "faults/outages/test_fair_clock.py",
    "pages/test_mitra_app.py",
    "faults/test_networks.py",
    "pages/test_work.py",
    "faults/test_bus_failover.py",
    "tools/test_growth.py",
    "faults/chaos/test_short_chaos.py",
    "apps/test_accessibility.py",
    "http/gateway/test_polls.py",
    "apps/test_client_behaviour.py",
    "ha/test_postgres.py",
    "apps/test_paid_session.py",
    "faults/outages/test_outages.py",
    "deploy/test_checks.py",
    "sockets/test_http_connections.py",
    "pages/test_three_phones.py",
    "journeys/test_deadlines.py",
    "tools/test_database_roles.py",
    "faults/outages/test_cluster_metrics.py",
    "traces/test_export.py",
    "deploy/test_proxies.py",
    "http/gateway/test_invoices.py",
    "ha/test_valkey.py",
    "sockets/push/test_fcm.py",
    "faults/test_kill_points.py",
    "backup/test_restore.py",
    "http/conventions/test_hostile_connections.py",
    "flows/test_webhook_retention.py",
    "tools/test_start.py",
    "http/pairing/test_receipts.py",
    "tools/test_reachability.py",
    "tools/test_secret_rotation.py",
    "faults/failover/test_failover.py",
    "pages/test_second_factor.py",
    "faults/test_frozen.py",
    "http/gateway/test_fallback_file.py",
    "sockets/test_socket_floods.py",
    "tools/test_embedded.py",
    "migrations/test_partitioning.py",
    "http/privacy/test_erasure_races.py",
    "journeys/test_paid_session.py",
    "http/conventions/test_answer_headers.py",
    "http/sign_in/test_mitra_codes.py",
    "sockets/phones/test_many_devices.py",
    "pages/test_audit_banner.py",
    "tools/test_compare.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the slowest files first, and at the end those of the fast service, which is the most expensive while it idles."""
    place = {ROOT / name: number for number, name in enumerate(SLOWEST)}
    fast = {item.path for item in items if "fast_stack" in getattr(item, "fixturenames", ())}
    items.sort(key=lambda item: (place.get(item.path, len(place)), item.path in fast))


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Run async tests on asyncio."""
    return "asyncio"


@pytest.fixture
async def http_client() -> AsyncIterator[HttpClient]:
    """Yield a client for calls to providers."""
    made = HttpClient()
    yield made
    await made.close()


@pytest.fixture(scope="session", autouse=True)
def database_template(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Create the database template that all services are copied from, once for all workers."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if base.name.startswith("popen-") else base  # xdist gives each worker a subfolder
    with (shared / "template.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        folder = shared / "template"
        if not folder.exists():
            make_template(folder)
    Stack.template = folder


@pytest.fixture(autouse=True)
def every_frame_is_declared() -> Iterator[None]:
    """Fail a test that received a frame which the AsyncAPI document does not declare, or declares differently."""
    UNDECLARED.clear()
    yield
    assert UNDECLARED == []


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    """Run a service at real speed, shared by the tests of one worker."""
    made = Stack(REFUNDS_ENABLED="true", **FAST_TALKERS)
    yield made
    made.close()


@pytest.fixture(scope="session")
def fast_stack() -> Iterator[Stack]:
    """Run a service at sixty times real speed, shared by the tests of one worker."""
    # At this speed an operator's sign-in would expire after 12 minutes of test time.
    made = Stack(scale=60, OPERATOR_REFRESH_TOKEN_HOURS="720", **FAST_TALKERS)
    yield made
    made.close()


@pytest.fixture
async def world(stack: Stack) -> AsyncIterator[World]:
    """Return a World on the service at real speed."""
    made = World(stack)
    yield made
    await made.leave_searches()
    await made.close()


@pytest.fixture
async def fast_world(fast_stack: Stack) -> AsyncIterator[World]:
    """Return a World on the service at sixty times real speed."""
    made = World(fast_stack)
    await made.scale_silence()
    yield made
    await made.leave_searches()
    await made.close()
