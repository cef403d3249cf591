"""Shared fixtures: a service at real speed, and one on which a minute passes each second. Both are real processes."""

import fcntl
import functools
import gc
import os
import pathlib
import tempfile
from collections.abc import AsyncIterator, Iterator

import hypothesis
import pytest

from core.providers.http_client import HttpClient
from tests.forked import PATIENT, Forked
from tests.memory import use_memory
from tests.sockets.declared import UNDECLARED, check_frame
from tests.stack import Stack, World, make_template
from tools.client import Socket
from tools.phone import Reconnection

# Property tests are seeded by their own text: each run has the same examples, and earlier ones are not stored.
hypothesis.settings.register_profile("sesi", max_examples=150, deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("sesi")
# A full collection visits all modules and test items, and by default the parsed files and examples cause hundreds.
gc.set_threshold(100_000, *gc.get_threshold()[1:])
Socket.check_frame = staticmethod(check_frame)
Stack.launch = Forked
Stack.execute = Forked.command
Reconnection.pace = 1 / 6  # tests of outages do not wait for an app's backoff of up to 30 s
# Many tests send messages without pauses. The tests of this limit start processes with the default.
FAST_TALKERS = {"WS_MESSAGES_PER_SECOND": "1000000", "WS_MESSAGES_BURST": "1000000"}
# Folders with the slowest files come first, so that at the end no worker is left alone with a slow file.
LONG = (
    "ha",
    "migrations",
    "deploy",
    "traces",
    "pages",
    "apps",
    "push",
    "tools",
    "faults",
    "outages",
    "failover",
    "backup",
    "extensions",
    "conventions",
    "payments",
    "chaos",
    "operators",
    "privacy",
    "sign_in",
    "flows",
    "gateway",
)


def shared_services(item: pytest.Item) -> int:
    """Return which shared services a test uses: 0 for none, 1 for `stack` alone, 2 for `fast_stack`."""
    if not isinstance(item, pytest.Function):
        return 0
    used = item._fixtureinfo.name2fixturedefs
    shared = {name for name in ("stack", "fast_stack") if name in used and used[name][-1].baseid == "tests"}
    return 2 if "fast_stack" in shared else len(shared)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that turns the order of files around."""
    parser.addoption("--services-first", action="store_true", help="run first the files that use a shared service")


def pytest_configure() -> None:
    """Keep the temporary files of the run in memory, except those of pytest: they may be read after a failure.

    The workers inherit both variables.
    """
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
    use_memory()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run first the files that use no shared service, and last those that use the fast one, each with slow folders first.

    A shared service runs until the end, and uses 2 to 3 % of a processor core while it is idle. With `--services-first`
    the files that use one come first: a few that wait, in a run of many that compute.
    """
    direction = -1 if config.getoption("services_first") else 1
    services: dict[pathlib.Path, int] = {}
    for item in items:
        services[item.path] = max(services.get(item.path, 0), shared_services(item))
    places = {folder: place for place, folder in enumerate(LONG)}
    items.sort(key=lambda item: (direction * services[item.path], places.get(item.path.parent.name, len(LONG))))


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
    """Copy all services from one database template."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if base.name.startswith("popen-") else base  # xdist gives each worker a subfolder
    Stack.template = staticmethod(functools.partial(made_template, shared))


@functools.cache
def made_template(shared: pathlib.Path) -> pathlib.Path:
    """Return the database template of all workers, which the first service creates."""
    folder = shared / "template"
    with (shared / "template.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            make_template(folder)
    return folder


@pytest.fixture(scope="module")
def servers() -> Iterator[Stack]:
    """Yield the servers of a service without its processes; the database has the present schema."""
    made = Stack(only_database=True)
    yield made
    made.close()


@pytest.fixture(autouse=True)
def every_frame_is_declared() -> Iterator[None]:
    """Fail a test that received a frame which the AsyncAPI document does not declare, or declares differently."""
    UNDECLARED.clear()
    yield
    assert UNDECLARED == []


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    """Run a service at real speed, shared by the tests of one worker."""
    made = Stack(REFUNDS_ENABLED="true", **FAST_TALKERS, **PATIENT)
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
