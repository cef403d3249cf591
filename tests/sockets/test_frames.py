"""Limits of frames: sizes, rates and shapes; and the fields that every answer has."""

import json
from typing import Any

import aiohttp
import pytest

from tests.sockets.plain_socket import bare_and_known, end_early, moment
from tests.stack import World, new_id

pytestmark = pytest.mark.anyio


def padded(size: int) -> str:
    """Return a ping of `size` bytes."""
    bare = '{"type":"ping"}'
    return bare[:-1] + " " * (size - len(bare)) + "}"


async def test_frame_of_16_kib_is_accepted_and_a_longer_one_closes_with_1009(world: World) -> None:
    socket, _ = await bare_and_known(await world.customer())
    await socket.ws.send_str(padded(16_384))
    assert (await socket.next_frame())["type"] == "pong"
    await socket.ws.send_str(padded(16_385))
    assert await socket.code() == 1009


async def test_text_frame_that_is_not_utf_8_closes_with_1007(world: World) -> None:
    socket, _ = await bare_and_known(await world.customer())
    await socket.ws._writer.send_frame(b'{"type": "p\xffng"}', aiohttp.WSMsgType.TEXT)
    assert await socket.code() == 1007


async def test_burst_of_200_frames_is_answered_and_continuing_closes_with_4429(world: World) -> None:
    socket, _ = await bare_and_known(await world.customer())
    for _ in range(200):
        await socket.say({"type": "ping"})
    for _ in range(200):
        assert (await socket.next_frame())["type"] == "pong"
    for _ in range(600):
        if socket.ws.closed:
            break
        await socket.say({"type": "ping"})
    assert await socket.code() == 4429


async def test_binary_frames_count_as_frames(world: World) -> None:
    socket, _ = await bare_and_known(await world.customer())
    for _ in range(600):
        if socket.ws.closed:
            break
        await socket.ws.send_bytes(b"x")
    assert await socket.code() == 4429


async def test_invalid_frame_is_refused_with_a_code_and_the_socket_stays_open(world: World) -> None:
    socket, _ = await bare_and_known(await world.customer())
    some = new_id()
    wrong: list[tuple[str, str, str | None]] = [
        ("nonsense", "INVALID_FRAME", None),
        ("[]", "INVALID_FRAME", None),
        ('"ping"', "INVALID_FRAME", None),
        ('{"ref": "a"}', "INVALID_FRAME", "a"),
        ('{"type": 5, "ref": "b"}', "INVALID_FRAME", "b"),
        ('{"type": "dance", "ref": "c"}', "UNKNOWN_TYPE", "c"),
        ('{"type": "accept", "session_id": "<id>", "ref": "d"}', "UNKNOWN_TYPE", "d"),
        ('{"type": "ping", "more": 1, "ref": "e"}', "INVALID_FRAME", "e"),
        ('{"type": "typing", "session_id": "<id>", "is_typing": "yes", "ref": "f"}', "INVALID_FRAME", "f"),
        ('{"type": "sync", "session_id": "nobody", "after": 0, "ref": "g"}', "INVALID_FRAME", "g"),
        ('{"type": "sync", "session_id": "<id>", "after": -1, "ref": "h"}', "INVALID_FRAME", "h"),
        ('{"type": "read", "session_id": "<id>", "up_to": 1e99, "ref": "i"}', "INVALID_FRAME", "i"),
        ('{"type": "read", "session_id": "{<id>}", "up_to": 1, "ref": "j"}', "INVALID_FRAME", "j"),
        ('{"type": "ping", "ref": 7}', "INVALID_FRAME", None),
        (f'{{"type": "ping", "ref": "{"l" * 16_000}"}}', "INVALID_FRAME", "l" * 16_000),
        ('{"type": "ack", "event_id": "x", "ref": "k"}', "INVALID_FRAME", "k"),
        ("[" * 5000, "INVALID_FRAME", None),
        ('{"type": "ping", "ref": "n", "more": ' + "[" * 5000, "INVALID_FRAME", "n"),
        ('{"type": "ping", "ref": "o", ', "INVALID_FRAME", "o"),
        ('{"type": "ping", "ref": "p", "more": "\\ud83d"}', "VALIDATION_ERROR", "p"),
        ('{"type": "sync", "session_id": "<id>", "after": 0, "ref": "l"}', "NOT_FOUND", "l"),
        ('{"type": "read", "session_id": "<id>", "up_to": 1, "ref": "m"}', "NOT_FOUND", "m"),
    ]
    for text, code, ref in wrong:
        await socket.ws.send_str(text.replace("<id>", some))
        answer = await socket.next_frame()
        assert (answer["type"], answer["code"], answer.get("ref")) == ("error", code, ref), text[:60]
        assert answer["message"]
        moment(answer["server_time"])
    await socket.ws.send_bytes(b'{"type": "ping", "ref": "y"}')
    answer = await socket.next_frame()
    assert (answer["code"], answer["ref"]) == ("INVALID_FRAME", "y")
    await socket.say({"type": "ping", "ref": "z"})
    answer = await socket.next_frame()
    assert (answer["type"], answer["ref"]) == ("pong", "z")


async def test_ack_of_an_unknown_event_is_accepted(world: World) -> None:
    socket, _ = await bare_and_known(await world.customer())
    await socket.say({"type": "ack", "event_id": new_id()})
    await socket.say({"type": "ping"})
    assert (await socket.next_frame())["type"] == "pong"


async def test_every_server_frame_has_a_time_and_every_event_has_an_id(world: World) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    desk, search = (await mitra.open("pairing")), (await customer.open("pairing"))
    phone, mitra_phone = await customer.open("chat"), await mitra.open("chat")
    session_id = await world.session(customer, mitra)
    await phone.wait("session_started")
    await mitra_phone.wait("session_started")
    assert (await phone.say(session_id, "halo"))["seq"] == 1
    await mitra_phone.wait("message")
    await mitra_phone.send({"type": "read", "session_id": session_id, "up_to": 1})
    await phone.wait("message_status", where=lambda frame: frame["status"] == "read")
    await mitra_phone.send({"type": "typing", "session_id": session_id, "is_typing": True})
    await phone.wait("typing")
    await phone.send({"type": "sync", "session_id": session_id, "after": 0, "ref": "s"})
    await phone.wait("sync")
    await end_early(world, customer, session_id)
    await phone.wait("session_closing")
    for client in (customer, mitra):
        await client.post(f"/api/shared/chat/sessions/{session_id}/closure", {"message": "bye"})
    await phone.wait("session_completed")
    await search.wait("pairing_status", where=lambda frame: frame["status"] == "paired")
    await desk.wait("chat_request")
    seen: list[dict[str, Any]] = [f for socket in (desk, search, phone, mitra_phone) for f in socket.frames]
    for frame in seen:
        moment(frame["server_time"])
        if frame["type"].startswith(("session_", "chat_request", "pairing_status", "extension_")):
            assert frame["event_id"], frame["type"]
    assert {"chat_request", "pairing_status", "session_started", "session_closing", "session_completed"} <= {
        frame["type"] for frame in seen if "event_id" in frame
    }
    mine = [frame["event_id"] for frame in phone.frames if "event_id" in frame]
    assert len(mine) == len(set(mine))


async def test_request_without_upgrade_is_refused_with_an_error_body(world: World) -> None:
    url = world.stack.addresses.realtime.replace("ws:", "http:") + "/ws/chat"
    async with world.client()._http.get(url) as answer:
        assert 400 <= answer.status < 500
        assert json.loads(await answer.text())["error"]["code"]


async def test_unknown_paths_of_the_realtime_process_return_an_error_body(world: World) -> None:
    base = f"http://127.0.0.1:{world.stack.ports['REALTIME']}"
    for method, path, status, code in (
        ("GET", "/nowhere", 404, "NOT_FOUND"),
        ("POST", "/healthz", 405, "METHOD_NOT_ALLOWED"),
    ):
        async with world.client()._http.request(method, base + path) as answer:
            assert answer.status == status
            assert (await answer.json())["error"]["code"] == code
            assert "X-Server-Time" in answer.headers
