"""A service with a simulated gateway, at sixty times real speed."""

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.http.gateway.played import PlayedGateway
from tests.stack import Stack, World


@pytest.fixture(scope="module")
def played() -> Iterator[PlayedGateway]:
    """Yield the simulated gateway."""
    made = PlayedGateway()
    yield made
    made.close()


@pytest.fixture(scope="module")
def gateway_stack(played: PlayedGateway) -> Iterator[Stack]:
    """Yield a service with the gateway enabled."""
    made = Stack(scale=60, **played.environment, ACCESS_TOKEN_SECONDS="86400")
    yield made
    made.close()


@pytest.fixture
async def people(gateway_stack: Stack, played: PlayedGateway) -> AsyncIterator[World]:
    """Yield the users of the test; the gateway behaves normally again at the end."""
    made = World(gateway_stack)
    await made.scale_silence()
    # 24 real minutes: a test that needs a deadline sets it itself
    await made.config("payment_session_timeout_minutes", 1_440)
    yield made
    played.answer_normally()
    await made.close()
