"""Access to sockets: an invalid token closes with 4401, and each frame's sender is checked (docs/security.md)."""

import pytest

from tests.access.callers import bad_tokens, signed_out_token
from tests.sockets.plain_socket import bare, bare_and_known
from tests.stack import World, new_id
from tools.driving.device import Device

pytestmark = pytest.mark.anyio

PATHS = ("chat", "pairing")


@pytest.fixture
async def idle(world: World) -> Device:
    """Create a mitra who takes no requests."""
    await world.config("otp_max_per_ip_per_hour", 1_000_000)
    return await world.mitra(online=False)


@pytest.mark.parametrize("path", PATHS)
async def test_socket_with_invalid_token_is_closed_with_4401(world: World, idle: Device, path: str) -> None:
    customer, operator = await world.customer(), await world.operator()
    bad = bad_tokens(world.stack, customer.access_token or "")
    bad |= {f"mitra's, {name}": token for name, token in bad_tokens(world.stack, idle.access_token or "").items()}
    bad |= {
        f"operator's, {name}": token for name, token in bad_tokens(world.stack, operator.access_token or "").items()
    }
    # This token is not invalid here: the operator's token with the audience of the public listener.
    del bad["operator's, another audience"]
    bad |= {"an operator's": operator.access_token or "", "with its scheme": f"Bearer {customer.access_token}"}
    seen = {}
    for name, token in bad.items():
        socket = await bare(customer, path)
        await socket.say({"type": "auth", "token": token})
        seen[name] = await socket.code()
    assert seen == dict.fromkeys(bad, 4401)


@pytest.mark.parametrize("path", PATHS)
async def test_socket_with_token_of_ended_auth_session_is_closed(world: World, path: str) -> None:
    token = await signed_out_token(await world.customer(), "/api/shared/auth/logout")
    socket = await bare(world.client(), path)
    await socket.say({"type": "auth", "token": token})
    assert await socket.code() in {4401, 4403}


@pytest.mark.parametrize("path", PATHS)
async def test_token_in_query_string_or_header_does_not_authenticate_a_socket(world: World, path: str) -> None:
    customer = await world.customer()
    url = f"{world.stack.addresses.realtime}/ws/{path}?token={customer.access_token}"
    headers = {"Authorization": f"Bearer {customer.access_token}"}
    async with customer._http.ws_connect(url, headers=headers) as ws:
        await ws.send_json({"type": "ping"})
        await ws.receive()
        assert ws.close_code == 4401


@pytest.mark.parametrize("path", PATHS)
async def test_invalid_token_on_open_socket_closes_it(world: World, path: str) -> None:
    customer = await world.customer()
    for name, token in bad_tokens(world.stack, customer.access_token or "").items():
        if name in {"three words", "forged", "expired", "alg none", "RS256", "another audience"}:
            socket, _ = await bare_and_known(customer, path)
            await socket.say({"type": "auth", "token": token})
            assert await socket.code() == 4401, name


async def test_mitra_commands_from_customer_are_forbidden(world: World, idle: Device) -> None:
    customer, other = await world.customer(), await world.customer()
    payment = await world.paid(other)
    socket, _ = await bare_and_known(customer, "pairing")
    for command in ("accept", "reject"):
        for session_id in (payment["session_id"], new_id()):
            await socket.say({"type": command, "session_id": session_id, "ref": f"{command} {session_id}"})
            answer = await socket.next_frame()
            assert (answer["type"], answer["code"], answer["ref"]) == ("error", "FORBIDDEN", f"{command} {session_id}")
    desk, _ = await bare_and_known(idle, "pairing")
    for command in ("accept", "reject"):  # never invited, so the request does not exist for this mitra
        for session_id in (payment["session_id"], new_id()):
            await desk.say({"type": command, "session_id": session_id, "ref": session_id})
            answer = await desk.next_frame()
            assert (answer["type"], answer["code"], answer["ref"]) == ("error", "NOT_FOUND", session_id)
    await other.post("/api/client/chat/cancel", {"payment_request_id": payment["payment_request_id"]})


async def test_frames_about_foreign_chat_answer_not_found(world: World, idle: Device) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    session_id = await world.session(customer, mitra)
    tries = ((idle, session_id), (await world.customer(), session_id), (await world.customer(), session_id.upper()))
    for stranger, place in (*tries, (await world.customer(), new_id())):  # ten frames are within one user's limit
        socket, _ = await bare_and_known(stranger)
        for frame in (
            {"type": "send_message", "client_message_id": new_id(), "content": "halo"},
            {"type": "delivered", "up_to": 0},
            {"type": "read", "up_to": 0},
            {"type": "typing", "is_typing": True},
            {"type": "sync", "after": 0},
        ):
            await socket.say({**frame, "session_id": place, "ref": "r"})
            answer = await socket.next_frame()
            assert (answer["type"], answer["code"], answer["ref"]) == ("error", "NOT_FOUND", "r"), frame
    assert (await mitra.get(f"/api/shared/chat/sessions/{session_id}/messages"))["items"] == []
