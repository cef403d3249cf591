"""A phone can describe its last connections, so that a failed test or a violation of the chaos run can be explained."""

import pytest

from tests.stack import World

pytestmark = pytest.mark.anyio


async def test_connection_log_names_lost_connections_and_the_current_state(world: World) -> None:
    """After a lost network the log says when the connection ended and that there is a new one."""
    phone = await (await world.customer()).start("chat")
    await phone.until(lambda: phone.connection_log().count("connected for") == 1)
    assert "no connection ended yet" in phone.connection_log()
    await phone.cut()
    await phone.until(lambda: "close code" in phone.connection_log() and " connected for" in phone.connection_log())
    await phone.stop()
    assert "not connected" in phone.connection_log()
