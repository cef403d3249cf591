"""A socket without the behaviour of an app: it sends only what the test sends."""

import asyncio
import contextlib
import datetime as dt
from collections.abc import Iterator
from typing import Any

import aiohttp
import attrs
import jwt

from tests.sockets.declared import check_frame
from tests.stack import Stack, World
from tools.driving.device import Device
from tools.driving.throwaway import free_port


class PlainSocket:
    """A WebSocket on which nothing was sent yet. Each received frame is checked against the declared frame classes."""

    def __init__(self, ws: aiohttp.ClientWebSocketResponse, path: str) -> None:
        self.ws = ws
        self._path = path
        self._first: dict[str, Any] | None = None

    async def say(self, frame: dict[str, Any]) -> None:
        """Send a frame."""
        await self.ws.send_json(frame)

    async def next_frame(self, timeout: float = 15) -> dict[str, Any]:
        """Return the next frame."""
        async with asyncio.timeout(timeout):
            return self._heard(await self.ws.receive_json())

    def _heard(self, frame: dict[str, Any]) -> dict[str, Any]:
        self._first = self._first or frame
        check_frame(self._path, frame, self._first)
        return frame

    async def next_frame_of(self, kind: str, timeout: float = 15) -> dict[str, Any]:
        """Return the next frame of a type; skip others."""
        async with asyncio.timeout(timeout):
            while (frame := await self.next_frame(timeout))["type"] != kind:
                pass
            return frame

    async def code(self, timeout: float = 15) -> int | None:
        """Wait for the close, skipping frames; return its code."""
        async with asyncio.timeout(timeout):
            while not self.ws.closed:
                message = await self.ws.receive()
                if message.type is aiohttp.WSMsgType.TEXT:
                    self._heard(message.json())
        return self.ws.close_code


async def bare(client: Device, path: str = "chat") -> PlainSocket:
    """Open a socket without authenticating it. It closes with its client."""
    return PlainSocket(await client._http.ws_connect(f"{client.addresses.realtime}/ws/{path}", max_msg_size=0), path)


async def bare_and_known(client: Device, path: str = "chat") -> tuple[PlainSocket, dict[str, Any]]:
    """Open a socket and authenticate it; return it and its `auth_ok`."""
    socket = await bare(client, path)
    await socket.say({"type": "auth", "token": client.access_token})
    return socket, await socket.next_frame_of("auth_ok")


def at(client: Device, port: int) -> Device:
    """Point a client's sockets at another realtime process."""
    client.addresses = attrs.evolve(client.addresses, realtime=f"ws://127.0.0.1:{port}")
    return client


@contextlib.contextmanager
def another_realtime(stack: Stack, key: str, **settings: str) -> Iterator[int]:
    """Run one more realtime process with its own settings, known to the stack as `key`; yield its port."""
    port = free_port()
    stack.start("realtime", key=key, REALTIME_PORT=str(port), **settings)  # type: ignore[arg-type]  # no setting is called `wait`
    try:
        stack.wait_ready("realtime", port=port)
        yield port
    finally:
        stack.stop(key)
        del stack.processes[key]


def token_like(stack: Stack, client: Device, *, key: str | None = None, **changed: Any) -> str:
    """Return the client's access token with other claims, signed with the service's key (or with `key`)."""
    assert client.access_token is not None
    kid, secret = stack.env["JWT_SECRETS"].split(":")
    claims = jwt.decode(client.access_token, options={"verify_signature": False})
    return jwt.encode({**claims, **changed}, key or secret, algorithm="HS256", headers={"kid": kid})


async def end_early(world: World, client: Device, session_id: str) -> None:
    """End an active session as one of its parties."""
    for side in ("customer", "mitra"):
        await world.config(f"early_end_{side}_enabled", True)
    ended = await world.until(
        lambda: client._once("POST", f"/api/shared/chat/sessions/{session_id}/end", None),
        lambda answer: answer[0] != 403,  # every process knows the switch within a second
    )
    for side in ("customer", "mitra"):
        await world.config(f"early_end_{side}_enabled", False)
    assert (ended[0], ended[1]["status"]) == (200, "closing")


def moment(text: str) -> dt.datetime:
    """Read a time of the protocol: ISO 8601, UTC, with Z."""
    assert text.endswith("Z")
    return dt.datetime.fromisoformat(text)
