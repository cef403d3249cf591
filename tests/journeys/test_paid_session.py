"""The main use case: one paid session, from payment to goodbye, over the real processes."""

from collections.abc import AsyncIterator

import attrs
import pytest

from tests.stack import Stack, World
from tools.driving.device import Device
from tools.driving.sesi_client import Refused

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("unattended")]


@attrs.frozen
class Unattended:
    """A session whose parties neither write nor say goodbye."""

    world: World
    customer: Device
    session_id: str


@pytest.fixture(scope="module")
async def unattended(fast_stack: Stack) -> AsyncIterator[Unattended]:
    """Begin a session before the first test, so that its 17 minutes pass while that test runs."""
    world = World(fast_stack)
    await world.scale_silence()
    customer, mitra = await world.customer(), await world.mitra()
    session_id = await world.session(customer, mitra)
    world.hand_over()
    yield Unattended(world, customer, session_id)
    await world.close()


@pytest.mark.slow
async def test_paid_session_runs_from_payment_to_goodbye(fast_world: World) -> None:
    world = fast_world
    customer, first, second = await world.customer(), await world.mitra("Ayu"), await world.mitra("Bima")
    desk, other_desk, search = (
        await first.open("pairing"),
        await second.open("pairing"),
        await customer.open("pairing"),
    )
    phone, mitra_phone = await customer.start("chat"), await first.start("chat")

    # By default a round lasts a second of real time here, and a busy machine may need longer to accept.
    async with world.setting(pairing_blast_timeout_seconds=600, searching_timeout_minutes=30):
        payment = await world.request(customer, topics=["work"])
        assert (payment["status"], payment["amount"]) == ("pending", 12000)
        status, answer = await world.webhook(payment)
        assert (status, answer) == (200, {"received": True, "processing_result": "confirmed"})

        asked = await desk.wait("chat_request")
        session_id = asked["request"]["session_id"]
        assert asked["request"]["topics"] == ["work"]
        assert (await other_desk.wait("chat_request"))["request"]["session_id"] == session_id
        assert (await search.wait("pairing_status"))["status"] == "searching"

        await desk.send({"type": "accept", "session_id": session_id, "ref": "mine"})
        accepted = await desk.wait("accepted")
        assert (accepted["ref"], accepted["session"]["status"]) == ("mine", "active")
    assert (await other_desk.wait("chat_request_closed"))["reason"] == "taken"
    assert (await search.wait("pairing_status"))["mitra"]["display_name"] == "Ayu"
    await phone.wait("session_started")
    await mitra_phone.wait("session_started")

    assert (await phone.say(session_id, "halo"))["seq"] == 1
    await mitra_phone.until(lambda: [m["content"] for m in mitra_phone.transcript(session_id)] == ["halo"])
    assert (await mitra_phone.say(session_id, "hai"))["seq"] == 2
    await mitra_phone.mark_read(session_id)

    warning = await phone.wait("session_warning")
    assert warning is not None
    assert warning["seconds_left"] == 180
    expired = await phone.wait("session_expired")
    assert expired is not None
    assert expired["session"]["status"] == "expired"
    with pytest.raises(Refused) as late:
        await phone.say(session_id, "too late")
    assert late.value.code == "SESSION_NOT_ACTIVE"

    closing = await customer.post(f"/api/shared/chat/sessions/{session_id}/closure", {"message": "terima kasih"})
    assert (closing["status"], closing["ended_by"]) == ("closing", "customer")
    done = await first.post(f"/api/shared/chat/sessions/{session_id}/closure", {"message": "sama-sama"})
    assert done["status"] == "completed"
    await phone.wait("session_completed")
    await mitra_phone.wait("session_completed")

    consumed = await customer.get(f"/api/client/payment/requests/{payment['payment_request_id']}")
    assert (consumed["status"], consumed["session_id"]) == ("consumed", session_id)
    messages = (await customer.get(f"/api/shared/chat/sessions/{session_id}/messages"))["items"]
    assert [(m["seq"], m["content"]) for m in messages] == [(1, "halo"), (2, "hai")]
    assert messages[0]["status"] == "read"
    for one in (phone, mitra_phone):
        assert [m["id"] for m in one.transcript(session_id)] == [m["id"] for m in messages]
        await one.stop()
    history = (await customer.get("/api/client/chat/history"))["items"]
    assert [(row["display_name"], row["sessions_count"]) for row in history] == [("Ayu", 1)]


async def test_session_without_goodbyes_completes_after_the_grace_period(unattended: Unattended) -> None:
    done = await unattended.world.until(
        lambda: unattended.customer.get(f"/api/shared/chat/sessions/{unattended.session_id}"),
        lambda seen: seen["status"] == "completed",
        timeout=30,
    )
    assert done["ended_by"] == "timer"


async def test_session_is_hidden_from_other_users(fast_world: World) -> None:
    world = fast_world
    customer, mitra, stranger = await world.customer(), await world.mitra(), await world.customer("Eka")
    session_id = await world.session(customer, mitra)
    for path in ("", "/messages"):
        with pytest.raises(Refused) as refused:
            await stranger.get(f"/api/shared/chat/sessions/{session_id}{path}")
        assert (refused.value.status, refused.value.code) == (404, "NOT_FOUND")
