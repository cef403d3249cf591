"""Shared fixtures: a service at real speed, and one on which a minute passes each second. Both are real processes."""

import collections
import fcntl
import functools
import gc
import os
import pathlib
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from typing import Any

import hypothesis
import pytest
from xdist.scheduler import LoadFileScheduling

from core.providers.http_client import HttpClient
from tests import tiers
from tests.forked import PATIENT, Forked
from tests.memory import use_memory
from tests.sockets.declared import UNDECLARED, check_frame
from tests.stack import Stack, World, make_template
from tests.verdicts import Outcomes, Violation, pytest_runtest_makereport
from tools.driving.sesi_client import Reconnection, Socket

# A hook of pytest stands where its rule is.
__all__ = ["pytest_runtest_makereport"]
# Property tests are seeded by their own text: each run has the same examples, and earlier ones are not stored.
hypothesis.settings.register_profile(
    "sesi", max_examples=tiers.examples(150), deadline=None, derandomize=True, database=None
)
hypothesis.settings.load_profile("sesi")
# A full collection visits all modules and test items, and by default the parsed files and examples cause hundreds.
gc.set_threshold(100_000, *gc.get_threshold()[1:])
# No schema of ours has an IRI, and jsonschema's parser of them takes more than a second of each worker to load.
sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]
Socket.check_frame = staticmethod(check_frame)
Stack.launch = Forked
Stack.execute = Forked.command
Reconnection.pace = 1 / 6  # tests of outages do not wait for an app's backoff of up to 30 s
# Many tests send messages without pauses. The tests of this limit start processes with the default.
FAST_TALKERS = {"WS_MESSAGES_PER_SECOND": "1000000", "WS_MESSAGES_BURST": "1000000"}
# Files, and folders, that wait while the processors could work: the longest first.
WAITING = (
    "journeys",
    "test_extension_ends",
    "extensions",
    "ha",
    "migrations",
    "deploy",
    "traces",
    "pages",
    "apps",
    "sign_in",
    "gateway",
    "push",
    "tools",
    "faults",
    "outages",
    "failover",
    "backup",
    "chaos",
    "privacy",
)
SHARED = ("stack", "fast_stack")  # services that the tests of a worker share
RUNNING: dict[str, Any] = {}  # the requests for the fixtures of those that run
NEEDED = pytest.StashKey[frozenset[str]]()  # the shared services that a test or a later one uses
# Folders with a service for all their files: each is run by one worker, so that it is started once.
TOGETHER = ("tests/http/gateway", "tests/http/privacy", "tests/http/sign_in", "tests/sockets/push")


def scope_of(nodeid: str) -> str:
    """Return the file of a test, or its folder if it is one of TOGETHER: the tests that one worker runs."""
    file = nodeid.partition("::")[0]
    folder = file.rpartition("/")[0]
    return folder if folder in TOGETHER else file


class Together(LoadFileScheduling):
    """Give each file to one worker, and the files of some folders to the same one.

    Every second worker begins with the last file: so while some wait, the others compute.
    """

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)

    def _assign_work_unit(self, node: Any) -> None:
        if self.nodes.index(node) % 2:
            self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
        super()._assign_work_unit(node)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Together:
    """Schedule the tests of all workers."""
    return Together(config, log)


def shared_services(item: pytest.Item) -> frozenset[str]:
    """Return which of the shared services a test uses."""
    if not isinstance(item, pytest.Function):
        return frozenset()
    used = item._fixtureinfo.name2fixturedefs
    return frozenset(name for name in SHARED if name in used and used[name][-1].baseid == "tests")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of a run."""
    parser.addoption("--tier", choices=("quick", "all"), default="all", help="`quick`: the tests of `make test`")
    parser.addoption(
        "--grown", type=pathlib.Path, help="a folder for logs with the plans of all statements (tests/plans.py)"
    )
    parser.addoption("--outcomes", type=pathlib.Path, help="a file for the failed and the long tests (tests/run.py)")


def pytest_configure(config: pytest.Config) -> None:
    """Keep the temporary files of the run in memory, except those of pytest: they may be read after a failure.

    The workers inherit both variables, and that SIGINT is not ignored, as it is after `nohup` or in the background of a
    script: services under test inherit it again.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.option.outcomes is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Outcomes(config.option.outcomes, tiers.LIMIT_S))
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
    use_memory()


def pytest_ignore_collect(collection_path: pathlib.Path, config: pytest.Config) -> bool | None:
    """Leave out what is not of the tier, without importing it."""
    is_out = config.getoption("tier") == "quick" and not tiers.is_in_quick_tier(collection_path)
    return True if is_out else None


def leave_out_slow(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the slow tests, except one journey of each kind. Raises UsageError if one is missing."""
    named = [(item.path, item.name) for item in items]
    if config.args == config.getini("testpaths") and (lost := tiers.missing(named)):
        raise pytest.UsageError(f"tests/tiers.py names tests that do not exist: {lost}")
    out = [
        item
        for item, (path, name) in zip(items, named, strict=True)
        if (tiers.is_slow(path) or item.get_closest_marker("slow")) and not tiers.is_journey(path, name)
    ]
    if out:
        config.hook.pytest_deselected(items=out)
        left_out = set(out)
        items[:] = [item for item in items if item not in left_out]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Order the tests from those that wait most to those that only compute: the workers take them from both ends.

    The files that use the shared fast service come first, then others that wait (WAITING), those that use the shared
    service at real speed, and those without. A shared service uses 3 to 4 % of a processor core while it is idle, so each
    is started late and stopped early.
    """
    if config.getoption("tier") == "quick":
        leave_out_slow(config, items)
    services: dict[str, frozenset[str]] = collections.defaultdict(frozenset)
    for item in items:
        services[scope_of(item.nodeid)] |= shared_services(item)

    def turn(item: pytest.Item) -> tuple[int, int]:
        used, names = services[scope_of(item.nodeid)], (item.path.stem, item.path.parent.name)
        waits = min(WAITING.index(name) if name in WAITING else len(WAITING) for name in names)
        if "fast_stack" in used:
            return 0, waits
        if used:
            return 2, waits
        return 1 if waits < len(WAITING) else 3, waits

    items.sort(key=turn)
    needed: frozenset[str] = frozenset()
    for item in reversed(items):
        needed |= services[scope_of(item.nodeid)]
        item.stash[NEEDED] = needed


def pytest_collection_finish() -> None:
    """Let no later collection of garbage look through the tests and modules: they stay until the end."""
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Stop the shared services that neither this test nor a later one uses. One that is used again starts again."""
    for name in RUNNING.keys() - item.stash[NEEDED]:
        request = RUNNING.pop(name)
        request._fixturedef.finish(request)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Tell worlds whether this is the last test of its file on this worker."""
    World.is_last = nextitem is None or nextitem.path != item.path


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    """Run async tests on the event loop of the service."""
    return "asyncio", {"use_uvloop": True}


@pytest.fixture
async def http_client() -> AsyncIterator[HttpClient]:
    """Yield a client for calls to providers."""
    made = HttpClient()
    yield made
    await made.close()


@pytest.fixture(scope="session", autouse=True)
def database_template(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> None:
    """Copy all services from one database template."""
    Stack.kept_logs = pytestconfig.getoption("grown")
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
            make_template(folder, grown=Stack.kept_logs is not None)
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
    if UNDECLARED:
        raise Violation(f"frames that the AsyncAPI document does not declare: {UNDECLARED}")


@pytest.fixture(scope="session")
def stack(request: pytest.FixtureRequest) -> Iterator[Stack]:
    """Run a service at real speed, shared by the tests of one worker."""
    RUNNING["stack"] = request
    made = Stack(REFUNDS_ENABLED="true", **FAST_TALKERS, **PATIENT)
    yield made
    made.close()


@pytest.fixture(scope="session")
def fast_stack(request: pytest.FixtureRequest) -> Iterator[Stack]:
    """Run a service at sixty times real speed, shared by the tests of one worker."""
    RUNNING["fast_stack"] = request
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
