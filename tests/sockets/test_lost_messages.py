"""Messages whose publication was lost are found in the database, however many sessions are open."""

import asyncio

import pytest

from core.base.actor import UserType
from tests.faults.chaos.multitude import User, active_sessions, users
from tests.stack import World, new_id

pytestmark = pytest.mark.anyio

SESSIONS = 250  # more than one lookup handles
# Stored by a process that died before it could publish the message.
FIRST_WORDS = """WITH told AS (UPDATE chat_sessions s SET last_seq = 1 FROM unnest($1::uuid[], $2::uuid[]) AS said(session_id, id)
    WHERE s.id = said.session_id RETURNING said.id, s.id AS session_id, s.customer_id)
  INSERT INTO chat_messages (id, session_id, seq, sender_type, sender_id, client_message_id, content)
  SELECT id, session_id, 1, 'customer', customer_id, gen_random_uuid(), 'halo' FROM told"""


async def test_message_lost_by_the_bus_arrives_once_in_every_session(world: World) -> None:
    mitra, customers = await world.mitra(), await users(world.stack, UserType.CUSTOMER, SESSIONS)
    everybodys = User(mitra.user["id"], mitra.access_token or "")
    sessions, socket = list[str](), None
    try:
        sessions = await active_sessions(world.stack, [(customer, everybodys) for customer in customers])
        socket = await mitra.open("chat")
        await world.stack.sql(FIRST_WORDS, sessions, [new_id() for _ in sessions])
        async with asyncio.timeout(20):
            for _ in sessions:
                await socket.wait("message")
        found = [frame["message"]["session_id"] for frame in socket.frames if frame["type"] == "message"]
        assert sorted(found) == sorted(sessions)
    finally:
        if socket is not None:
            await socket.close()
        await forget(world, sessions)


async def test_unpublished_session_reaches_a_connected_party_when_the_other_connects(world: World) -> None:
    mitra, customer = await world.mitra(), await world.customer()
    sessions, sockets = list[str](), []
    try:
        sockets.append(await mitra.open("chat"))
        parties = [User(one.user["id"], one.access_token or "") for one in (customer, mitra)]
        sessions = await active_sessions(world.stack, [(parties[0], parties[1])])
        await world.stack.sql(FIRST_WORDS, sessions, [new_id()])
        sockets.append(await customer.open("chat"))
        frame = await sockets[0].wait("message")
        assert (frame["message"]["session_id"], frame["message"]["seq"]) == (sessions[0], 1)
    finally:
        for socket in sockets:
            await socket.close()
        await forget(world, sessions)


async def forget(world: World, sessions: list[str]) -> None:
    """Delete sessions that the test inserted: they have no payment."""
    for table, key in (("chat_messages", "session_id"), ("chat_sessions", "id")):
        await world.stack.sql(f"DELETE FROM {table} WHERE {key} = ANY($1::uuid[])", sessions)
