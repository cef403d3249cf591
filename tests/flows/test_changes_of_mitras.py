"""A change of a mitra takes its locks in the order of docs/architecture.md#lock-order."""

import asyncio

import attrs
import pytest

from core.base.actor import Actor
from core.flows import (
    mitra_status,
    operator_work,
)
from core.flows.operator_work import MitraChange
from tests.flows.chats import Chat, a_chat
from tests.flows.conftest import Harness

HOLD_DELIVERY = "SELECT 1 FROM deliveries WHERE id = $1 FOR UPDATE"
NAMES = """SELECT id::text, recipient_id::text, payload::json ->> 'display_name' AS name FROM deliveries
  WHERE event = 'peer_renamed' ORDER BY id"""


async def change(harness: Harness, mitra: Actor, **values: object) -> None:
    """Change a mitra as an operator."""
    await operator_work.change_mitra(
        harness.runtime,
        await harness.operator(),
        mitra_id=mitra.user_id,
        change=MitraChange(**values),  # pyright: ignore[reportArgumentType]
        stepped_up=True,
    )


async def second_chat(harness: Harness, first: Chat) -> Chat:
    """Start another chat of the same mitra."""
    customer = await harness.customer()
    await mitra_status.go_online(harness.runtime, first.mitra)
    return attrs.evolve(first, id=await harness.start_session(customer, first.mitra), customer=customer)


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("more", [{}, {"is_active": False}])
def test_new_name_waits_for_no_acknowledgement_of_the_last_one(
    clean_harness: Harness, place: int, more: dict[str, bool]
) -> None:
    async def play() -> None:
        runtime = clean_harness.runtime
        first = await a_chat(clean_harness)
        chats = [first, await second_chat(clean_harness, first)]
        await change(clean_harness, first.mitra, display_name="Ayu 1")
        before = await runtime.db.fetch(NAMES)
        assert [row["name"] for row in before] == ["Ayu 1"] * 2
        async with runtime.db.pool.acquire() as acknowledging, acknowledging.transaction():
            # One statement acknowledges the events of many users. It has locked one of them so far.
            await acknowledging.fetch(HOLD_DELIVERY, before[place]["id"])
            async with asyncio.timeout(10):
                await change(clean_harness, first.mitra, display_name="Ayu 2", **more)
            await acknowledging.fetch(HOLD_DELIVERY, before[1 - place]["id"])
            await acknowledging.execute("DELETE FROM deliveries WHERE id = $1", before[place]["id"])
        after = await runtime.db.fetch(NAMES)
        assert {row["recipient_id"]: row["name"] for row in after} == {one.customer.user_id: "Ayu 2" for one in chats}
        assert len(after) == len(chats)

    clean_harness.run(play())
