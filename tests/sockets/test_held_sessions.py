"""While a transaction holds row locks, only messages and marks that need these rows wait."""

import asyncio

import pytest

from tests.stack import World
from tools.driving.device import Device

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

ROUNDS = 8


async def chat(world: World) -> tuple[Device, Device, str]:
    """Return a customer and a mitra in a running chat."""
    customer, mitra = await world.customer(), await world.mitra()
    return customer, mitra, await world.session(customer, mitra)


async def until_waiting(world: World, count: int) -> None:
    """Wait until `count` batches wait for a lock."""

    async def waiting() -> int:
        rows = await world.stack.sql(
            "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%chat_commit%'"
        )
        return len(rows)

    await world.until(waiting, lambda seen: seen == count, timeout=2)


async def test_locked_session_does_not_delay_messages_and_marks_of_others(world: World) -> None:
    held = [await chat(world) for _ in range(2)]
    customer, mitra, session_id = await chat(world)
    phones = [await one.open("chat") for one, _, _ in held]
    phone, other = await customer.open("chat"), await mitra.open("chat")
    for turn in range(1, ROUNDS + 1):
        async with asyncio.TaskGroup() as group, world.stack.transaction() as holder:
            waiting = []
            for device, (_, _, held_id) in zip(phones, held, strict=True):
                await holder.execute("SELECT 1 FROM chat_sessions WHERE id = $1::uuid FOR UPDATE", held_id)
                waiting.append(group.create_task(device.say(held_id, f"held {turn}")))
                await until_waiting(world, len(waiting))
            ack = await phone.say(session_id, f"free {turn}")
            assert (ack["type"], ack.get("seq")) == ("message_ack", turn)
            await other.wait("message", where=lambda frame, turn=turn: frame["message"]["seq"] == turn)
            await other.send({"type": "read", "session_id": session_id, "up_to": turn})
            await phone.wait(
                "message_status",
                where=lambda frame, turn=turn: (frame["status"], frame["up_to"]) == ("read", turn),
            )
            assert not any(task.done() for task in waiting)
        assert [task.result()["seq"] for task in waiting] == [turn, turn]


async def test_message_of_a_mitra_does_not_wait_for_the_heartbeat_write(world: World) -> None:
    customer, mitra, session_id = await chat(world)
    phone = await customer.open("chat")
    async with world.stack.transaction() as holder:
        hers = "SELECT 1 FROM mitra_online_status WHERE mitra_id = $1::uuid FOR UPDATE"
        await holder.execute(hers, mitra.user["id"])
        desk = await mitra.open("chat", ack=False)
        ack = await desk.say(session_id, "still here")
        assert (ack["type"], ack.get("seq")) == ("message_ack", 1)
        await phone.wait("message", where=lambda frame: frame["message"]["seq"] == 1)
