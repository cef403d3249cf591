"""Waves of a blast over the real processes: the jobs process begins the next ones (docs/product.md#waves)."""

from typing import Any

import pytest

from tests.http.pairing.steps import cancelling, open_request, rejecting, responses, wait_for_invitation
from tests.stack import World, within
from tools.driving.device import Device

pytestmark = pytest.mark.anyio


async def in_turn(world: World, count: int) -> list[Device]:
    """Return mitras who have come online one after another."""
    return [await world.mitra(f"Mitra {number}") for number in range(count)]


async def invited(world: World, payment: dict[str, Any], mitras: list[Device]) -> list[Device]:
    """Return those of the mitras that the search has asked."""
    found = await responses(world, payment["session_id"])
    return [mitra for mitra in mitras if mitra.user["id"] in found]


async def test_waves_follow_in_time_and_after_rejections(world: World) -> None:
    async with world.setting(blast_size=1, blast_wave_seconds=60):
        mitras = await in_turn(world, 3)
        desk = await mitras[1].open("pairing")
        payment = await world.paid(await world.customer())
        await wait_for_invitation(world, mitras[0], payment["session_id"])
        assert await invited(world, payment, mitras) == mitras[:1]
        await rejecting(mitras[0], payment["session_id"])
        frame = await desk.wait("chat_request", timeout=within(2))
        assert frame["request"] == await open_request(mitras[1], payment["session_id"])
        assert await invited(world, payment, mitras) == mitras[:2]
        await world.stack.sql(
            "UPDATE chat_sessions SET wave_ends_at = clock_timestamp() WHERE id = $1", payment["session_id"]
        )
        await wait_for_invitation(world, mitras[2], payment["session_id"])
        assert (await open_request(mitras[2], payment["session_id"]))["answer_by"] == frame["request"]["answer_by"]


async def test_newcomers_of_a_full_wave_wait_for_the_next(world: World) -> None:
    async with world.setting(blast_size=1, blast_wave_seconds=2):
        customer, (first,) = await world.customer(), await in_turn(world, 1)
        second = await world.mitra("Bima", online=False)
        desk = await second.open("pairing")
        payment = await world.paid(customer)
        await wait_for_invitation(world, first, payment["session_id"])
        await second.post("/api/mitra/status/online")  # within the first wave
        frame = await desk.wait("chat_request", timeout=within(6))
        times = await world.stack.sql(
            "SELECT notified_at FROM chat_request_notifications WHERE session_id = $1 ORDER BY notified_at",
            frame["request"]["session_id"],
        )
        assert 2 <= (times[1][0] - times[0][0]).total_seconds() < within(4)
        await cancelling(customer, payment)
        await desk.wait("chat_request_closed")
