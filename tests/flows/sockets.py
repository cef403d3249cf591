"""Sockets of a hub in the test's own process, without a handshake."""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from typing import Any

from core.base.actor import Actor
from realtime.connection import Connection
from realtime.hub import Hub


@contextlib.asynccontextmanager
async def connected(hub: Hub, actor: Actor, path: str) -> AsyncIterator[socket.socket]:
    """Yield the other end of a user's socket."""
    ours, theirs = socket.socketpair()
    for end in (ours, theirs):
        end.setblocking(False)
    transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=ours)
    connection = Connection(hub.connections, transport, path, "203.0.113.1")
    connection.actor, connection.ready = actor, True
    hub.connections.register(connection)
    try:
        yield theirs
    finally:
        hub.connections.unregister(connection)
        transport.abort()
        theirs.close()


async def frames_of(phone: socket.socket) -> list[dict[str, Any]]:
    """Return the frames that the phone was sent since the last call."""
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    with contextlib.suppress(BlockingIOError):
        return list(_frames(phone.recv(1 << 16)))
    return []


def _frames(data: bytes) -> list[dict[str, Any]]:
    """Decode unmasked text frames of less than 64 KiB (RFC 6455, 5.2)."""
    found = []
    while data:
        assert data[0] == 0x81
        start, size = (2, data[1]) if data[1] < 126 else (4, int.from_bytes(data[2:4], "big"))
        found.append(json.loads(data[start : start + size]))
        data = data[start + size :]
    return found
