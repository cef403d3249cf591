"""The goodbyes that both parties write at the end, and who can read them when (docs/product.md#goodbyes)."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from tests.http.pairing.steps import end_now, session_of, time_is_up
from tests.stack import Stack, World
from tools.driving.device import Device

pytestmark = pytest.mark.anyio
DEWIS, AYUS = "terima kasih Kak", "jaga diri, Dewi"
Said = list[tuple[str, str]]


@pytest.fixture(scope="module")
def separate_stack() -> Iterator[Stack]:
    """Yield a service whose realtime process is killed."""
    made = Stack()
    yield made
    made.close()


def said(session: dict[str, Any]) -> Said:
    """Return the goodbyes that a session shows."""
    return [(closure["user_type"], closure["message"]) for closure in session["closures"]]


async def saying(party: Device, session_id: str, message: str) -> dict[str, Any]:
    """Say goodbye; return the answer."""
    return await party.post(f"/api/shared/chat/sessions/{session_id}/closure", {"message": message})


async def ended(world: World) -> tuple[Device, Device, str]:
    """Return a customer, a mitra and their session, which the customer has ended."""
    customer, mitra = await world.customer(), await world.mitra()
    session_id = await world.session(customer, mitra)
    await end_now(world, customer, session_id)
    return customer, mitra, session_id


async def seen_by_customer(customer: Device, session_id: str) -> list[Said]:
    """Return the goodbyes everywhere the customer's app shows the session."""
    (row,) = (await customer.get("/api/client/chat/history"))["items"]
    assert row["last_session_id"] == session_id
    return [said(await session_of(customer, session_id)), said(row)]


async def seen_by_mitra(mitra: Device, session_id: str) -> list[Said]:
    """Return the goodbyes everywhere the mitra's app shows the session."""
    (row,) = (await mitra.get("/api/mitra/chat/history"))["items"]
    return [said(await session_of(mitra, session_id)), said(row)]


async def running_of(party: Device) -> list[Said]:
    """Return the goodbyes in the lists of running sessions, over REST and in a socket's snapshot."""
    socket = await party.open("chat")
    (snapshot,) = socket.frames[0]["sessions"]
    await socket.close()
    if "is_anonymous" in party.user:
        listed = (await party.get("/api/client/chat/session/active-with-unread"))["session"]
    else:
        (listed,) = (await party.get("/api/mitra/chat-requests/sessions/active-with-unread"))["items"]
    return [said(snapshot), said(listed)]


async def in_deliveries(world: World, session_id: str) -> str:
    """Return the stored events of a session as text."""
    rows = await world.stack.sql("SELECT payload FROM deliveries WHERE session_id = $1", session_id)
    return "\n".join(row["payload"] for row in rows)


async def test_goodbye_is_shown_to_the_writer_and_to_the_other_after_their_own(world: World) -> None:
    customer, mitra, session_id = await ended(world)
    first = [("customer", DEWIS)]
    both = [*first, ("mitra", AYUS)]
    assert await running_of(customer) == await running_of(mitra) == [[], []]
    assert said(await saying(customer, session_id, DEWIS)) == first
    assert await seen_by_customer(customer, session_id) == [first, first]
    assert await running_of(customer) == [first, first]
    assert await seen_by_mitra(mitra, session_id) == [[], []]
    assert await running_of(mitra) == [[], []]
    done = await saying(mitra, session_id, AYUS)
    assert (done["status"], said(done)) == ("completed", both)
    assert [set(closure) for closure in done["closures"]] == [{"user_type", "message", "created_at", "blanked"}] * 2
    assert await seen_by_customer(customer, session_id) == [both, both]
    assert await seen_by_mitra(mitra, session_id) == [both, both]


async def test_goodbye_is_shown_to_operators_with_its_text(world: World) -> None:
    customer, _, session_id = await ended(world)
    await saying(customer, session_id, DEWIS)
    operator = await world.operator()
    view = await operator.get(f"/internal/sessions/{session_id}")
    assert said(view) == [("customer", DEWIS)]
    listed = await operator.get("/internal/sessions", q=session_id)
    assert said(listed["items"][0]) == said(view)
    timeline = await operator.get(f"/internal/payment-requests/{view['payment_request_id']}/timeline")
    assert [entry["text"] for entry in timeline["entries"] if entry["kind"] == "goodbye"] == [
        f"The customer said goodbye: “{DEWIS}”"
    ]


async def test_events_of_the_end_carry_goodbyes_for_each_recipient_and_store_none(world: World) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    session_id = await world.session(customer, mitra)
    phones = [await party.open("chat", ack=False) for party in (customer, mitra)]
    await time_is_up(world, session_id)
    for phone in phones:
        assert (await phone.wait("session_expired"))["session"]["closures"] == []
    await saying(customer, session_id, DEWIS)
    closing = [(await phone.wait("session_closing"))["session"] for phone in phones]
    assert [said(session) for session in closing] == [[("customer", DEWIS)], []]
    assert all(session["grace_ends_at"] is not None for session in closing)
    await saying(mitra, session_id, AYUS)
    completed = [(await phone.wait("session_completed"))["session"] for phone in phones]
    assert [said(session) for session in completed] == [[("customer", DEWIS), ("mitra", AYUS)]] * 2
    stored = await in_deliveries(world, session_id)
    assert stored.count('"type":"session_completed"') == 2
    assert DEWIS not in stored
    assert AYUS not in stored


@pytest.mark.slow
async def test_event_read_back_after_a_kill_has_the_goodbyes(separate_stack: Stack) -> None:
    world = World(separate_stack)
    try:
        customer, mitra, session_id = await ended(world)
        await saying(customer, session_id, DEWIS)
        separate_stack.kill("realtime")
        await saying(mitra, session_id, AYUS)
        separate_stack.start("realtime")
        for party, at_closing in ((customer, 2), (mitra, 2)):
            phone = await party.open("chat")
            closing, completed = await phone.wait("session_closing"), await phone.wait("session_completed")
            assert len(closing["session"]["closures"]) == at_closing  # both have written a goodbye by now
            assert said(completed["session"]) == [("customer", DEWIS), ("mitra", AYUS)]
    finally:
        await world.close()


@pytest.mark.slow
async def test_single_goodbye_is_shown_to_the_other_after_the_grace_period(fast_world: World) -> None:
    world = fast_world
    customer, mitra, session_id = await ended(world)
    phone = await mitra.open("chat")
    await saying(customer, session_id, DEWIS)
    assert said(await session_of(mitra, session_id)) == []
    done = await phone.wait("session_completed")
    assert said(done["session"]) == [("customer", DEWIS)]
    assert said(await session_of(mitra, session_id)) == [("customer", DEWIS)]


async def test_concurrent_goodbyes_are_both_shown_to_both(world: World) -> None:
    customer, mitra, session_id = await ended(world)
    phones = [await party.open("chat") for party in (customer, mitra)]
    await asyncio.gather(saying(customer, session_id, DEWIS), saying(mitra, session_id, AYUS))
    for phone in phones:
        done = await phone.wait("session_completed")
        assert sorted(said(done["session"])) == [("customer", DEWIS), ("mitra", AYUS)]
