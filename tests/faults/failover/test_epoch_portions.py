"""A promotion closes the sockets of a realtime process in portions, so that clients do not all reconnect at once."""

import asyncio
import datetime as dt
import json

import pytest

from realtime.connections import PORTION, PORTION_EVERY_S, SOCKETS_A_USER
from tests.faults.failover.cluster import Pair
from tests.sockets.plain_socket import bare_and_known
from tests.stack import World

pytestmark = pytest.mark.anyio
PATHS = ("chat", "pairing")
USERS = PORTION // (SOCKETS_A_USER * len(PATHS)) + 10
GOING_AWAY = 1012


async def test_sockets_close_with_1012_in_portions_when_the_epoch_changes(pair: Pair, failover_world: World) -> None:
    sockets, epochs = [], set()
    clients = [await failover_world.customer() for _ in range(USERS)]
    for client in clients:
        opening = [bare_and_known(client, path) for path in PATHS for _ in range(SOCKETS_A_USER)]
        for socket, first in await asyncio.gather(*opening):
            sockets.append(socket)
            epochs.add(first["epoch"])
    assert len(sockets) > PORTION
    closing = [asyncio.create_task(socket.code(timeout=30)) for socket in sockets]
    pair.kill()
    await pair.promote()
    assert set(await asyncio.gather(*closing)) == {GOING_AWAY}
    closed_at = dt.datetime.now(dt.UTC)
    # A busy client may see the closes late, even all at once, but never too early.
    assert closed_at - noticed_at(pair) >= dt.timedelta(seconds=PORTION_EVERY_S)
    _, again = await bare_and_known(clients[0])
    assert {again["epoch"]}.isdisjoint(epochs)


def noticed_at(pair: Pair) -> dt.datetime:
    """Return when the realtime process noticed the new epoch, from its log."""
    lines = [json.loads(line) for line in pair.stack.log("realtime").splitlines() if "has a new history" in line]
    return dt.datetime.fromisoformat(lines[0]["timestamp"])
