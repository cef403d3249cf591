"""A service whose gateway is played, at sixty times the speed."""

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.gateway.played import PlayedGateway
from tests.stack import Stack, World


@pytest.fixture(scope="module")
def played() -> Iterator[PlayedGateway]:
    """The gateway."""
    made = PlayedGateway()
    yield made
    made.close()


@pytest.fixture(scope="module")
def gateway_stack(played: PlayedGateway) -> Iterator[Stack]:
    """A service with the gateway enabled."""
    made = Stack(scale=60, **played.environment, ACCESS_TOKEN_SECONDS="86400")
    yield made
    made.close()


@pytest.fixture
async def people(gateway_stack: Stack, played: PlayedGateway) -> AsyncIterator[World]:
    """The people of a test; the gateway behaves again when it ends."""
    made = World(gateway_stack)
    await made.scale_silence()
    await made.config("payment_session_timeout_minutes", 1_440)  # 24 real minutes: a test says itself when one is due
    yield made
    played.behave()
    await made.close()
