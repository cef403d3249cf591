"""An asynchronous standby without the last commits becomes the primary: both sides of a chat show the same again."""

import pytest

from tests.faults.failover.cluster import Pair
from tests.faults.failover.load import (
    check_all_stored,
    no_process_restarts,
    phones_show_what_is_stored,
    under_load,
)
from tests.faults.proxy import Mode
from tests.stack import Stack, World
from tools.driving.device import Device

pytestmark = pytest.mark.anyio
MESSAGES = "SELECT count(*) FROM chat_messages"
GOING_AWAY = 1012


@pytest.fixture
def synchronous() -> bool:
    """Return False: the standby may be behind."""
    return False


async def test_failover_that_loses_commits_resyncs_phones_and_signs_out_no_device(
    pair: Pair, failover_world: World
) -> None:
    async with under_load(failover_world, payments=False) as load:
        with no_process_restarts(pair):
            await pair.caught_up()
            pair.replication.switch(Mode.HANG)
            before = len(load.messages)
            for client in load.clients:
                await client.refresh()
            await load.acknowledged(20)
            lost = len(load.messages) - before
            stored = (await pair.on_standby(MESSAGES))[0][0]
            assert stored < (await pair.on_primary(MESSAGES))[0][0]
            pair.kill()
            await pair.promote()
            await load.acknowledged(60, timeout=60)
            for client in load.clients:
                await client.refresh()  # with a token that the database does not know
            await load.end()
            assert lost >= 20
            for client in load.clients:
                await signed_in(client)
            for n, phone in enumerate(load.phones):
                said = {message_id for message_id in load.messages if message_id in phone.chats.said}
                await phone.until(lambda p=phone, n=n, said=said: said <= shown(p, load.sessions[n // 2]))
            await check_all_stored(pair, load, same_ids=False)
            await phones_show_what_is_stored(load)


def shown(phone: object, session_id: str) -> set[str]:
    """Return the client_message_ids of the messages that a phone shows."""
    return {message["client_message_id"] for message in phone.transcript(session_id)}


async def signed_in(client: Device) -> None:
    """Check that the device's access token and refresh token are valid."""
    await client.refresh()
    await client.get(f"/api/{'client' if 'is_anonymous' in client.user else 'mitra'}/auth/me")


async def test_hub_ahead_of_the_database_closes_the_chat_sockets(stack: Stack, world: World) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    session_id = await world.session(customer, mitra)
    phone, desk = await customer.open("chat"), await mitra.open("chat")
    first = (await customer.open("pairing")).frames[0]["epoch"]
    for n in range(3):
        frame = {
            "session_id": session_id,
            "client_message_id": f"00000000-0000-4000-8000-00000000000{n}",
            "content": "x",
        }
        await phone.send({"type": "send_message", **frame})
        await desk.wait("message")
    async with stack.transaction() as other:  # as if the third message had been lost
        await other.execute("SET LOCAL session_replication_role = replica")
        await other.execute("DELETE FROM chat_messages WHERE session_id = $1::uuid AND seq = 3", session_id)
        await other.execute("UPDATE chat_sessions SET last_seq = 2 WHERE id = $1::uuid", session_id)
    assert [await socket.wait_closed() for socket in (phone, desk)] == [GOING_AWAY] * 2
    again = await desk_with(mitra, session_id)
    assert [message["seq"] for message in again["messages"]] == [1, 2]
    assert again["epoch"] == first
    phone = await customer.open("chat")
    await phone.send({"type": "send_message", **frame})
    assert (await phone.wait("message_ack"))["seq"] == 3


async def desk_with(mitra: Device, session_id: str) -> dict:
    """Read the mitra's chat from the start over a new socket."""
    socket = await mitra.open("chat")
    await socket.send({"type": "sync", "session_id": session_id, "after": 0})
    return await socket.wait("sync")
