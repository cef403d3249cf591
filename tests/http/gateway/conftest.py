"""A service with a simulated gateway, at sixty times real speed."""

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.forked import PATIENT
from tests.http.gateway.simulated_gateway import SimulatedGateway
from tests.stack import Stack, World


@pytest.fixture(scope="package")
def simulated() -> Iterator[SimulatedGateway]:
    """Yield the simulated gateway."""
    made = SimulatedGateway()
    yield made
    made.close()


@pytest.fixture(scope="package")
def stack(simulated: SimulatedGateway) -> Iterator[Stack]:
    """Yield a service with the gateway enabled."""
    made = Stack(scale=60, **simulated.environment, ACCESS_TOKEN_SECONDS="86400", **PATIENT)
    yield made
    made.close()


async def let_requests_wait(world: World) -> None:
    """Let mitras be silent, and requests pending, for as long as the tests take."""
    await world.scale_silence()
    # 24 real minutes: a test that needs a deadline sets it itself
    await world.config("payment_session_timeout_minutes", 1_440)


@pytest.fixture
async def world(stack: Stack, simulated: SimulatedGateway) -> AsyncIterator[World]:
    """Yield the users of the test; the gateway behaves normally again at the end."""
    made = World(stack)
    await let_requests_wait(made)
    yield made
    simulated.answer_normally()
    await made.close()
