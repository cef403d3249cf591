"""A service at real speed behind bad networks: two jobs processes and one of each other kind."""

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.faults.proxy import Mode
from tests.faults.service import Service
from tests.stack import World


@pytest.fixture(scope="module")
def proxied_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Yield the service; its fallback file for webhook calls is in a separate folder."""
    made = Service(
        counts={"jobs": 2},
        WEBHOOK_FALLBACK_ENABLED="true",
        WEBHOOK_FALLBACK_DIR=str(tmp_path_factory.mktemp("calls")),
        WEBHOOK_FALLBACK_NAME="kept",
    )
    yield made
    made.close()


@pytest.fixture
async def proxied_world(proxied_stack: Service) -> AsyncIterator[World]:
    """Yield the users of the test; at the end restore the networks and run the audit."""
    made = World(proxied_stack)
    yield made
    for server in ("postgres", "redis"):
        await proxied_stack.network(server, Mode.PASS)
    await made.close()
