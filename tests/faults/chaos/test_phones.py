"""The phones of a chaos run that are apps of the client library: what a command leaves behind."""

import asyncio

import pytest

from tests.faults.chaos.library import LibraryClient, PhoneHost
from tests.stack import World

pytestmark = pytest.mark.anyio

RESTARTS = 10


async def test_message_that_was_written_before_a_restart_is_acknowledged_after_it(world: World) -> None:
    violations: list[str] = []
    host = await PhoneHost(violations.append).start()
    try:
        app = LibraryClient(world.stack.addresses, host, "c0", "customer")
        world.clients.append(app)
        await app.begin()
        await app.sign_in_anonymously("Dewi")
        session_id = await world.session(app, await world.mitra())
        for n in range(RESTARTS):  # both commands reach the process in one read
            ack, _ = await asyncio.gather(app.phone.say(session_id, f"{n}", timeout=20), app.phone.restart())
            assert ack["seq"] == n + 1
    finally:
        await host.stop()
    assert violations == []
