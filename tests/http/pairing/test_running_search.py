"""A customer's running search: an app that was killed finds all of it again, over REST and over its socket."""

import asyncio
import datetime as dt
import itertools
from typing import Any

import pytest

from tests.http.pairing.steps import (
    cancelling,
    falling_back,
    friends,
    rejecting,
    responses,
    returning,
    session_of,
    wait_for_invitation,
)
from tests.stack import World
from tools.driving.device import Device

pytestmark = pytest.mark.anyio
LENGTH = dt.timedelta(minutes=5)  # of a search
ROUND = dt.timedelta(seconds=60)


def at(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text)


async def listed(customer: Device) -> dict[str, Any] | None:
    """Return the running search from the list of running sessions."""
    return (await customer.get("/api/client/chat/session/active-with-unread"))["searching"]


async def snapshot(customer: Device) -> dict[str, Any] | None:
    """Return the running search from a socket's snapshot."""
    socket = await customer.open("pairing")
    await socket.close()
    return socket.frames[0]["searching"]


async def test_restarted_app_finds_its_search_with_payment_deadlines_and_invited_count(world: World) -> None:
    async with world.setting(pairing_blast_timeout_seconds=int(ROUND.total_seconds())):
        customer, first = await world.customer(), await world.mitra("Ayu")
        payment = await world.paid(customer)
    await wait_for_invitation(world, first, payment["session_id"])
    found = await listed(customer)
    assert found is not None
    assert await session_of(customer, payment["session_id"]) == await snapshot(customer) == found
    assert (found["id"], found["status"], found["mitra"]) == (payment["session_id"], "searching", None)
    search = found["search"]
    assert (search["asked"], search["payment_request_id"]) == (1, payment["payment_request_id"])
    began = at(found["created_at"])
    assert at(search["answer_by"]) - began == ROUND
    assert at(search["ends_at"]) - began == LENGTH
    second = await world.mitra("Bima")
    await wait_for_invitation(world, second, payment["session_id"])
    await rejecting(second, payment["session_id"])
    found = await listed(customer)
    assert found is not None
    assert found["search"]["asked"] == 2
    await cancelling(customer, search)  # with the ids that the search itself contains
    assert await listed(customer) is await snapshot(customer) is None
    assert (await session_of(customer, payment["session_id"]))["search"] is None


async def test_mitra_who_is_invited_again_counts_once(world: World) -> None:
    async with world.setting(pairing_blast_timeout_seconds=1):
        customer, mitra = await world.customer(), await world.mitra()
        payment = await world.paid(customer)
        await world.until(
            lambda: responses(world, payment["session_id"]), lambda found: len(found.get(mitra.user["id"], [])) >= 3
        )
        found = await listed(customer)
    assert found is not None
    assert found["search"]["asked"] == 1


async def test_sessions_in_other_states_show_no_search(world: World) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    session_id = await world.session(customer, mitra)
    for party in (customer, mitra):
        view = await session_of(party, session_id)
        assert (view["search"], view["grace_ends_at"], view["closures"]) == (None, None, [])
    async with world.setting(early_end_customer_enabled=True):
        closing = await customer.post(f"/api/shared/chat/sessions/{session_id}/end")
    assert at(closing["grace_ends_at"]) - at(closing["ended_at"]) == dt.timedelta(minutes=5)
    assert (await session_of(mitra, session_id))["grace_ends_at"] == closing["grace_ends_at"]
    for party in (customer, mitra):
        done = await party.post(f"/api/shared/chat/sessions/{session_id}/closure", {"message": "daa"})
    assert done["grace_ends_at"] is None


@pytest.mark.slow
async def test_invited_count_is_repeated_at_most_every_two_seconds_during_the_search(world: World) -> None:
    customer = await world.customer()
    phone = await customer.open("pairing", ack=False)
    payment = await world.paid(customer)
    first = await phone.wait("pairing_status")
    assert (first["status"], first["asked"], "event_id" in first) == ("searching", 0, True)
    mitras = [await world.mitra(name, online=False) for name in ("Ayu", "Bima", "Citra", "Eka")]
    for mitra in mitras:
        await mitra.post("/api/mitra/status/online")
        await wait_for_invitation(world, mitra, payment["session_id"])
        await asyncio.sleep(0.9)
    repeats = []
    while not repeats or repeats[-1]["asked"] < len(mitras):
        repeats.append(await phone.wait("pairing_status"))
    numbers = [first["asked"], *(frame["asked"] for frame in repeats)]
    assert numbers == sorted(set(numbers))
    assert all(set(frame) == set(first) - {"event_id"} for frame in repeats)
    times = [at(frame["server_time"]) for frame in (first, *repeats)]
    # The moment of sending is up to half a second late on a busy machine. Without a pause they would be 0.9 s apart.
    assert all(after - before >= dt.timedelta(seconds=1.5) for before, after in itertools.pairwise(times))
    assert len(repeats) >= 2
    stored = await world.stack.sql("SELECT event FROM deliveries WHERE recipient_id = $1", customer.user["id"])
    assert [row["event"] for row in stored] == ["pairing_status"]
    last = await world.mitra("Fitri")
    await wait_for_invitation(world, last, payment["session_id"])
    await cancelling(customer, payment)
    cancelled = await phone.wait("pairing_status", where=lambda frame: frame["status"] == "cancelled")
    await asyncio.sleep(3)  # the repeat would have been due
    later = phone.frames[phone.frames.index(cancelled) + 1 :]
    assert [frame for frame in later if frame["type"] == "pairing_status"] == []


async def test_invited_count_of_a_targeted_search_is_one_until_its_fallback(world: World) -> None:
    customer, mitra = await friends(world)
    other = await world.mitra("Bima")
    phone = await customer.open("pairing")
    payment = await returning(world, customer, mitra)

    def ours(frame: dict[str, Any]) -> bool:
        return frame["session_id"] == payment["session_id"]

    assert (await phone.wait("pairing_status", where=ours))["asked"] == 1
    await falling_back(customer, payment)
    await wait_for_invitation(world, other, payment["session_id"])
    repeat = await phone.wait("pairing_status", where=ours)
    assert (repeat["status"], repeat["asked"]) == ("searching", 2)
