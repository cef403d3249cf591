"""A service with a simulated push provider; events are pushed if no device has acknowledged them for a second."""

import json
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.forked import CONSTANTS
from tests.sockets.push.devices import PushedDevices
from tests.stack import Stack, World
from tools.driving.push_inbox import PushInbox

OFTEN = {"realtime.push.TICK_S": 0.1, "realtime.push.CHATS_S": 0.2}  # looks for events and chats without a push


@pytest.fixture(scope="package")
def inbox() -> Iterator[PushInbox]:
    """Yield the simulated provider."""
    made = PushInbox()
    yield made
    made.close()


@pytest.fixture(scope="package")
def stack(inbox: PushInbox) -> Iterator[Stack]:
    """Yield a service at real speed that sends its pushes to the simulated provider."""
    made = Stack(**inbox.environment, PUSH_ACK_SECONDS="1", **{CONSTANTS: json.dumps(OFTEN)})
    yield made
    made.close()


@pytest.fixture
async def phones(stack: Stack, inbox: PushInbox) -> AsyncIterator[PushedDevices]:
    """Yield the users of the test and their phones; the provider behaves normally again at the end."""
    world = World(stack)
    await world.config("otp_max_per_ip_per_hour", 1_000_000)
    await world.config("pairing_blast_timeout_seconds", 600)  # one chat_request for a search
    made = PushedDevices(world, inbox)
    yield made
    inbox.answer = lambda _: None
    await world.leave_searches()
    await world.close()
