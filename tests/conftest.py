"""Real servers, real processes: one service at real speed, one where a minute passes each second."""

import fcntl
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.forked import Forked
from tests.realtime.declared import UNDECLARED, check_frame
from tests.stack import Stack, World, make_template
from tools.client import Socket
from tools.phone import Reconnection

Socket.check_frame = staticmethod(check_frame)
Stack.launch = Forked
Reconnection.pace = 1 / 6  # no test of an outage waits for the 30 s of an app
# Many tests send messages as fast as they can; the tests of that limit start processes with the default.
FAST_TALKERS = {"WS_MESSAGES_PER_SECOND": "1000000", "WS_MESSAGES_BURST": "1000000"}
# Folders whose files take longest come first, so that no worker is left with one when the others are done.
LONG = (
    "control_center",
    "push",
    "tools",
    "faults",
    "outages",
    "ha",
    "extensions",
    "api",
    "chaos",
    "desk",
    "flows",
    "gateway",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put what takes long first."""
    items.sort(key=lambda item: LONG.index(item.path.parent.name) if item.path.parent.name in LONG else len(LONG))


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Tests run on asyncio."""
    return "asyncio"


@pytest.fixture(scope="session", autouse=True)
def database_template(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The database that all services begin with, made once for all workers."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if base.name.startswith("popen-") else base  # xdist gives each worker a folder in one
    with (shared / "template.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        folder = shared / "template"
        if not folder.exists():
            make_template(folder)
    Stack.template = folder


@pytest.fixture(autouse=True)
def every_frame_is_declared() -> Iterator[None]:
    """Fail a test that was sent a frame which the interface document does not have, or has otherwise."""
    UNDECLARED.clear()
    yield
    assert UNDECLARED == []


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    """A service at real speed."""
    made = Stack(**FAST_TALKERS)
    yield made
    made.close()


@pytest.fixture(scope="session")
def fast_stack() -> Iterator[Stack]:
    """A service at sixty times the speed."""
    # At this speed an operator's sign-in would end after 12 minutes of the tests.
    made = Stack(scale=60, OPERATOR_REFRESH_TOKEN_HOURS="720", **FAST_TALKERS)
    yield made
    made.close()


@pytest.fixture
async def world(stack: Stack) -> AsyncIterator[World]:
    """The people of a test, at real speed."""
    made = World(stack)
    yield made
    await made.leave_searches()
    await made.close()


@pytest.fixture
async def fast_world(fast_stack: Stack) -> AsyncIterator[World]:
    """The people of a test, at sixty times the speed."""
    made = World(fast_stack)
    await made.scale_silence()
    yield made
    await made.leave_searches()
    await made.close()
