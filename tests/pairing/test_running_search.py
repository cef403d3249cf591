"""A customer's running search: an app that was killed finds all of it again, over REST and over its socket."""

import datetime as dt
from typing import Any

import pytest

from tests.pairing.steps import asked, cancelling, rejecting, responses, session_of
from tests.stack import World
from tools.client import Client

pytestmark = pytest.mark.anyio
LENGTH = dt.timedelta(minutes=5)  # of a search
ROUND = dt.timedelta(seconds=60)


def at(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text)


async def listed(customer: Client) -> dict[str, Any] | None:
    """The running search, as the list of running sessions has it."""
    return (await customer.get("/api/client/chat/session/active-with-unread"))["searching"]


async def snapshot(customer: Client) -> dict[str, Any] | None:
    """The running search, as a socket's snapshot has it."""
    socket = await customer.open("pairing")
    await socket.close()
    return socket.frames[0]["searching"]


async def test_killed_app_finds_its_search_with_payment_deadlines_and_number_of_mitras(world: World) -> None:
    async with world.setting(pairing_blast_timeout_seconds=int(ROUND.total_seconds())):
        customer, first = await world.customer(), await world.mitra("Ayu")
        payment = await world.paid(customer)
    await asked(world, first, payment["session_id"])
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
    await asked(world, second, payment["session_id"])
    await rejecting(second, payment["session_id"])
    found = await listed(customer)
    assert found is not None
    assert found["search"]["asked"] == 2
    await cancelling(customer, search)  # with what the search says of itself
    assert await listed(customer) is await snapshot(customer) is None
    assert (await session_of(customer, payment["session_id"]))["search"] is None


async def test_mitra_who_is_asked_again_counts_once(world: World) -> None:
    async with world.setting(pairing_blast_timeout_seconds=1):
        customer, mitra = await world.customer(), await world.mitra()
        payment = await world.paid(customer)
        await world.until(
            lambda: responses(world, payment["session_id"]), lambda found: len(found.get(mitra.user["id"], [])) >= 3
        )
        found = await listed(customer)
    assert found is not None
    assert found["search"]["asked"] == 1


async def test_other_states_show_no_search_and_only_an_ended_session_its_grace(world: World) -> None:
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
