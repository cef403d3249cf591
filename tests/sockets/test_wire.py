"""The WebSocket protocol byte by byte: upgrade, control frames, fragments, order (RFC 6455)."""

import asyncio
import base64
import contextlib
import hashlib
import itertools
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from realtime import close_codes
from tests.stack import World, new_id
from tools.driving.device import Device

pytestmark = pytest.mark.anyio

KEY = "dGhlIHNhbXBsZSBub25jZQ=="  # the example of RFC 6455, 1.3
GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
ASKED = {
    "Host": "x",
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Key": KEY,
    "Sec-WebSocket-Version": "13",
}
MORE, TEXT, CLOSE, PING, PONG = 0, 1, 8, 9, 10
END = 0x80
TWENTY = 20


def upgrade(**change: str | None) -> bytes:
    """Return an upgrade request; `change` replaces headers, None leaves one out."""
    headers = ASKED | {name.replace("_", "-"): value for name, value in change.items()}
    lines = [f"{name}: {value}" for name, value in headers.items() if value is not None]
    return "\r\n".join(["GET /ws/chat HTTP/1.1", *lines, "", ""]).encode()


def frame(opcode: int, payload: bytes = b"", *, first: int = END) -> bytes:
    """Return a masked client frame; `first` holds the bits before the opcode."""
    mask = b"\x01\x02\x03\x04"
    size = len(payload)
    length = bytes((END | size,)) if size < 126 else bytes((END | 126,)) + size.to_bytes(2, "big")
    return bytes((first | opcode,)) + length + mask + bytes(b ^ m for b, m in zip(payload, itertools.cycle(mask)))


def said(**fields: Any) -> bytes:
    return frame(TEXT, json.dumps(fields).encode())


class RawConnection:
    """A TCP connection to the realtime process."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.send = writer.write
        self.drain = writer.drain

    async def answer(self) -> tuple[int, dict[str, str], bytes]:
        """Read the answer to the upgrade: status, headers, body."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
        body = await self.reader.readexactly(int(headers.get("content-length", 0)))
        return int(head[0].split()[1]), headers, body

    async def frame(self) -> tuple[int, bytes]:
        """Read the next frame of the server, which is never masked and never fragmented."""
        first, size = await self.reader.readexactly(2)
        assert first & 0xF0 == END
        assert size < END
        if size == 126:
            size = int.from_bytes(await self.reader.readexactly(2), "big")
        return first & 0x0F, await self.reader.readexactly(size)

    async def receive(self) -> dict[str, Any]:
        """Return the next text frame, decoded."""
        opcode, payload = await self.frame()
        assert opcode == TEXT, (opcode, payload)
        return json.loads(payload)

    async def ended(self) -> bool:
        """Return whether the server closes the connection without sending more."""
        return await self.reader.read() == b""


@contextlib.asynccontextmanager
async def open_raw_connection(client: Device) -> AsyncIterator[RawConnection]:
    host, port = client.addresses.realtime.removeprefix("http://").removeprefix("ws://").split(":")
    async with asyncio.timeout(30):
        reader, writer = await asyncio.open_connection(host, int(port))
        try:
            yield RawConnection(reader, writer)
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()


@contextlib.asynccontextmanager
async def open_authenticated_connection(client: Device) -> AsyncIterator[RawConnection]:
    """Yield an upgraded and authenticated connection."""
    async with open_raw_connection(client) as wire:
        wire.send(upgrade())
        assert (await wire.answer())[0] == 101
        wire.send(said(type="auth", token=client.access_token))
        assert (await wire.receive())["type"] == "auth_ok"
        yield wire


async def test_upgrade_is_answered_with_the_accept_key_of_the_rfc(world: World) -> None:
    async with open_raw_connection(await world.customer()) as wire:
        wire.send(upgrade(Connection="keep-alive, Upgrade", Upgrade="WebSocket"))
        status, headers, _ = await wire.answer()
        assert (status, headers["upgrade"], headers["connection"]) == (101, "websocket", "upgrade")
        digest = base64.b64encode(hashlib.sha1((KEY + GUID).encode()).digest()).decode()
        assert digest.lower() == headers["sec-websocket-accept"] == "s3pplmbitxaq9kygzzhzrbk+xoo="


@pytest.mark.parametrize(
    "change",
    [
        {"Upgrade": None},
        {"Upgrade": "h2c"},
        {"Connection": "keep-alive"},
        {"Sec_WebSocket_Version": "12"},
        {"Sec_WebSocket_Version": None},
        {"Sec_WebSocket_Key": None},
        {"Sec_WebSocket_Key": "dGhl"},
        {"Sec_WebSocket_Key": "no base64 at all"},
    ],
)
async def test_invalid_upgrade_is_refused(world: World, change: dict[str, str | None]) -> None:
    async with open_raw_connection(await world.customer()) as wire:
        wire.send(upgrade(**change))
        status, headers, body = await wire.answer()
        assert headers["sec-websocket-version"] == "13"
        assert (status, json.loads(body)["error"]["code"]) == (400, "MALFORMED")


async def test_connection_header_in_two_lines_is_accepted(world: World) -> None:
    async with open_raw_connection(await world.customer()) as wire:
        wire.send(upgrade().replace(b"Connection: Upgrade", b"Connection: keep-alive\r\nConnection: Upgrade"))
        assert (await wire.answer())[0] == 101


@pytest.mark.parametrize(
    "before", [b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", upgrade(Sec_WebSocket_Version=None), b""]
)
@pytest.mark.parametrize("path", [b"/ws/chat", b"/ws/%63hat", b"/ws/chat?from=app"])
async def test_upgrade_and_frames_behind_another_request_are_accepted(world: World, before: bytes, path: bytes) -> None:
    """Only an upgrade that is the first request of its connection, with the plain path, needs no task of aiohttp."""
    customer = await world.customer()
    async with open_raw_connection(customer) as wire:
        if before:
            wire.send(before)
            await wire.answer()
        wire.send(upgrade().replace(b"/ws/chat", path) + said(type="auth", token=customer.access_token, ref="first"))
        assert (await wire.answer())[0] == 101
        known = await wire.receive()
        assert (known["type"], known["ref"]) == ("auth_ok", "first")
        wire.send(frame(CLOSE, b"\x03\xe8"))
        assert await wire.frame() == (CLOSE, b"\x03\xe8")
        assert await wire.ended()


async def test_client_that_pings_and_never_reads_is_disconnected(world: World) -> None:
    async with open_authenticated_connection(await world.customer()) as wire:
        pings = frame(PING, b"x" * 125) * 1000

        async def flood() -> None:
            while True:
                wire.send(pings)
                await wire.drain()

        with pytest.raises(ConnectionError):
            await flood()


async def test_ping_is_answered_with_its_payload(world: World) -> None:
    async with open_authenticated_connection(await world.customer()) as wire:
        for payload in (b"", b"x" * 125):
            wire.send(frame(PING, payload))
            assert await wire.frame() == (PONG, payload)


@pytest.mark.parametrize(
    ("sent", "code"),
    [(b"\x03\xe9bye", 1001), (b"\x0f\xa0", 4000), (b"", 1000), (b"\x03\xee", 1002), (b"\x13\x88", 1002)],
)
async def test_close_frame_is_answered_and_the_connection_closed(world: World, sent: bytes, code: int) -> None:
    async with open_authenticated_connection(await world.customer()) as wire:
        wire.send(said(type="ping", ref="before") + frame(CLOSE, sent) + said(type="ping", ref="behind"))
        assert (await wire.receive())["ref"] == "before"
        assert await wire.frame() == (CLOSE, code.to_bytes(2, "big"))
        assert await wire.ended()


@pytest.mark.parametrize(
    ("broken", "code"),
    [
        (frame(3, b"x"), 1002),
        (frame(TEXT, b"{}", first=END | 0x40), 1002),
        (frame(MORE, b"x"), 1002),
        (frame(PING, b"x", first=0), 1002),
        (frame(PING, b"x" * 126), 1002),
        (frame(CLOSE, b"\x03"), 1002),
        (frame(CLOSE, b"\x03\xed"), 1002),
        (frame(TEXT, b'{"type":"ping"}', first=0) + frame(TEXT, b"{}"), 1002),
        (frame(TEXT, b"x" * 16_000, first=0) + frame(MORE, b"x" * 1_000), 1009),
    ],
)
async def test_invalid_frame_closes_with_its_code(world: World, broken: bytes, code: int) -> None:
    assert code in close_codes.REFUSALS
    async with open_authenticated_connection(await world.customer()) as wire:
        wire.send(broken)
        assert await wire.frame() == (CLOSE, code.to_bytes(2, "big"))
        assert await wire.ended()


async def test_fragmented_frame_with_a_ping_in_between_is_accepted(world: World) -> None:
    async with open_authenticated_connection(await world.customer()) as wire:
        whole = b'{"type":"ping","ref":"in parts"}'
        wire.send(frame(TEXT, whole[:9], first=0) + frame(PING, b"now"))
        assert await wire.frame() == (PONG, b"now")
        wire.send(frame(MORE, whole[9:], first=0) + frame(MORE))
        assert (await wire.receive())["ref"] == "in parts"
        for byte in frame(TEXT, whole):
            wire.send(bytes((byte,)))
        assert (await wire.receive())["ref"] == "in parts"


async def test_frames_are_answered_in_order_even_if_one_waits_for_the_database(world: World) -> None:
    """A `sync` reads the database, a broken frame is refused at once, and all frames arrived in one TCP segment."""
    customer, mitra = await world.customer(), await world.mitra()
    session_id = await world.session(customer, mitra)
    async with open_raw_connection(customer) as wire:
        wire.send(upgrade())
        assert (await wire.answer())[0] == 101
        wire.send(
            said(type="auth", token=customer.access_token)
            + b"".join(
                said(type="sync", session_id=session_id, after=0, ref=f"{number}")
                + said(type="dance", ref=f"{number}'")
                for number in range(TWENTY)
            )
        )
        assert (await wire.receive())["type"] == "auth_ok"
        seen = []
        while len(seen) < 2 * TWENTY:
            heard = await wire.receive()
            if "ref" in heard:
                seen.append(heard["ref"])
        assert seen == [ref for number in range(TWENTY) for ref in (f"{number}", f"{number}'")]


async def test_messages_after_a_waiting_frame_keep_their_order(world: World) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    session_id = await world.session(customer, mitra)
    async with open_authenticated_connection(customer) as wire:
        wire.send(
            b"".join(
                said(
                    type="send_message",
                    session_id=session_id,
                    client_message_id=new_id(),
                    content=str(number),
                    ref=str(number),
                )
                + said(type="sync", session_id=session_id, after=10_000)
                for number in range(TWENTY)
            )
        )
        acks: list[tuple[int, str]] = []
        while len(acks) < TWENTY:
            heard = await wire.receive()
            if heard["type"] == "message_ack":
                acks.append((heard["seq"], heard["ref"]))
        assert acks == [(number + 1, str(number)) for number in range(TWENTY)]


async def test_close_frame_before_the_first_frame_is_answered(world: World) -> None:
    async with open_raw_connection(await world.customer()) as wire:
        wire.send(upgrade() + frame(CLOSE, b"\x03\xe8"))
        assert (await wire.answer())[0] == 101
        assert await wire.frame() == (CLOSE, b"\x03\xe8")
        assert await wire.ended()
