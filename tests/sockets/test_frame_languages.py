"""Error frames are in the language of the upgrade's headers; codes are the same in both."""

from typing import Any

import pytest

from tests.sockets.plain_socket import PlainSocket
from tests.stack import World, new_id
from tools.driving.device import Device

pytestmark = pytest.mark.anyio

FRAMES: list[dict[str, Any]] = [
    {"type": "nothing"},
    {"no": "type"},
    {"type": "sync", "session_id": new_id()},
    {"type": "sync", "session_id": "x", "after": 0},
    {"type": "sync", "session_id": new_id(), "after": -1},
    {"type": "sync", "session_id": new_id(), "after": 0, "more": 1},
    {"type": "sync", "session_id": new_id(), "after": 0},
    {"type": "typing", "session_id": new_id(), "is_typing": 1},
]


async def known(client: Device, **headers: str) -> PlainSocket:
    """Open a socket with these headers and authenticate it."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    url = f"{client.addresses.realtime}/ws/chat"
    socket = PlainSocket(await client._http.ws_connect(url, headers=named, max_msg_size=0), "chat")
    await socket.say({"type": "auth", "token": client.access_token})
    await socket.next_frame_of("auth_ok")
    return socket


async def error(socket: PlainSocket, frame: dict[str, Any]) -> tuple[str, str]:
    """Send a frame that is refused; return code and message."""
    await socket.say(frame)
    refused = await socket.next_frame_of("error")
    return refused["code"], refused["message"]


@pytest.mark.parametrize(
    ("headers", "language"),
    [
        ({}, "en"),
        ({"Accept_Language": "id"}, "id"),
        ({"X_Locale": "id"}, "id"),
        ({"Accept_Language": "en", "X_Locale": "id"}, "en"),
        ({"Accept_Language": "fr", "X_Locale": "id"}, "id"),
        ({"X_Locale": "fr"}, "en"),
    ],
    ids=repr,
)
async def test_error_frame_is_in_the_language_of_the_upgrade(
    world: World, headers: dict[str, str], language: str
) -> None:
    socket = await known(await world.customer(), **headers)
    said = {"en": "This endpoint has no frame of this type.", "id": "Tidak ada frame berjenis ini di sini."}
    assert await error(socket, {"type": "nothing"}) == ("UNKNOWN_TYPE", said[language])


async def test_error_frames_in_both_languages_differ_only_in_the_message(world: World) -> None:
    customer = await world.customer()
    english, indonesian = await known(customer), await known(customer, Accept_Language="id")
    for frame in FRAMES:
        one, two = await error(english, frame), await error(indonesian, frame)
        assert one[0] == two[0], frame
        assert one[1] != two[1], frame


async def test_refused_message_explains_its_fields_in_the_language(world: World) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    session_id = await world.session(customer, mitra)
    socket = await known(customer, Accept_Language="id")
    await socket.say(
        {"type": "send_message", "session_id": session_id, "client_message_id": new_id(), "content": "x" * 4_001}
    )
    refused = await socket.next_frame_of("error")
    assert (refused["code"], refused["message"]) == ("VALIDATION_ERROR", "Beberapa isian tidak sah.")
    assert refused["details"] == {
        "fields": [{"field": "content", "message": "harus sepanjang 1 sampai 4.000 karakter"}]
    }
