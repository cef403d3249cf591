"""The mitra marks a topic as sensitive: one-way latch, log, and recipients (docs/product.md#topic-sensitivity)."""

from typing import Any

import pytest

from tests.http.extensions.steps import answer_extension, ask_for_extension, chatting, count, wait_for_event
from tests.http.pairing.steps import (
    accepting,
    falling_back,
    friends,
    rejecting,
    returning,
    run_out,
    session_of,
    time_is_up,
    wait_for_invitation,
)
from tests.stack import World, new_id, refused
from tools.driving.device import Device

pytestmark = pytest.mark.anyio


def marking(party: Device, session_id: str, value: str) -> Any:
    """Set the flag."""
    return party.call("PATCH", f"/api/shared/chat/sessions/{session_id}/topic", {"topic_sensitivity": value})


async def log_of(world: World, session_id: str) -> list[tuple[str, str, str]]:
    """Return the session's log, oldest first: who changed it, from what, to what."""
    rows = await world.stack.sql(
        "SELECT changed_by_mitra_id::text AS who, from_value, to_value FROM session_sensitivity_log WHERE session_id = $1 ORDER BY id",
        session_id,
    )
    return [(row["who"], row["from_value"], row["to_value"]) for row in rows]


async def test_each_change_is_logged_and_sent_to_every_device_of_both(world: World) -> None:
    customer, mitra, session_id = await chatting(world)
    sockets = [await party.open("chat") for party in (customer, customer, mitra, mitra)]
    assert (await session_of(mitra, session_id))["topic_sensitivity"] == "regular"
    expected = []
    for n, (before, after) in enumerate([("regular", "sensitive"), ("sensitive", "regular"), ("regular", "sensitive")]):
        view = await marking(mitra, session_id, after)
        assert (view["id"], view["topic_sensitivity"]) == (session_id, after)
        assert (await session_of(customer, session_id))["topic_sensitivity"] == after
        expected.append((mitra.user["id"], before, after))
        assert await log_of(world, session_id) == expected
        for socket in sockets:
            frame = await wait_for_event(socket, "session_topic_updated", session_id)
            assert frame["topic_sensitivity"] == after
            assert count(socket, "session_topic_updated") == n + 1


async def test_setting_the_same_value_logs_and_sends_nothing(world: World) -> None:
    customer, mitra, session_id = await chatting(world)
    phone, desk = await customer.open("chat", ack=False), await mitra.open("chat", ack=False)
    assert (await marking(mitra, session_id, "regular"))["topic_sensitivity"] == "regular"
    assert await log_of(world, session_id) == []
    await marking(mitra, session_id, "sensitive")
    for _ in range(2):
        assert (await marking(mitra, session_id, "sensitive"))["topic_sensitivity"] == "sensitive"
    await marking(mitra, session_id, "regular")
    assert len(await log_of(world, session_id)) == 2
    for socket in (phone, desk):
        for value in ("sensitive", "regular"):
            assert (await wait_for_event(socket, "session_topic_updated", session_id))["topic_sensitivity"] == value
        assert count(socket, "session_topic_updated") == 2


async def test_latch_keeps_a_sensitive_topic_sensitive(world: World) -> None:
    customer, mitra, session_id = await chatting(world)
    async with world.setting(sensitive_flag_one_way_latch=True):
        await marking(mitra, session_id, "sensitive")
        await refused(marking(mitra, session_id, "regular"), 409, "SENSITIVITY_LATCHED")
        assert (await marking(mitra, session_id, "sensitive"))["topic_sensitivity"] == "sensitive"
        assert (await session_of(customer, session_id))["topic_sensitivity"] == "sensitive"
        assert len(await log_of(world, session_id)) == 1
    assert (await marking(mitra, session_id, "regular"))["topic_sensitivity"] == "regular"


async def test_only_the_sessions_mitra_may_set_the_flag(world: World) -> None:
    customer, mitra, session_id = await chatting(world)
    other = await world.mitra("Bima")
    await refused(marking(customer, session_id, "sensitive"), 403, "FORBIDDEN")
    await refused(marking(other, session_id, "sensitive"), 404, "NOT_FOUND")
    await refused(marking(mitra, new_id(), "sensitive"), 404, "NOT_FOUND")
    for wrong in ("Sensitive", "secret", "", None, True):
        await refused(marking(mitra, session_id, wrong), 422, "VALIDATION_ERROR")  # type: ignore[arg-type]
    assert (await session_of(customer, session_id))["topic_sensitivity"] == "regular"
    assert await log_of(world, session_id) == []


async def test_flag_can_be_set_from_acceptance_until_completion(world: World) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    payment = await world.paid(customer)
    session_id = payment["session_id"]
    await wait_for_invitation(world, mitra, session_id)
    await refused(marking(mitra, session_id, "sensitive"), 404, "NOT_FOUND")  # the session is not this mitra's yet
    await accepting(mitra, session_id)
    await marking(mitra, session_id, "sensitive")
    await run_out(world, customer, session_id)
    await marking(mitra, session_id, "regular")
    path = f"/api/shared/chat/sessions/{session_id}/closure"
    await customer.post(path, {"message": "sampai jumpa"})
    assert (await marking(mitra, session_id, "sensitive"))["status"] == "closing"
    await mitra.post(path, {"message": "sampai jumpa"})
    for value in ("regular", "sensitive"):
        await refused(marking(mitra, session_id, value), 409, "SESSION_NOT_ACTIVE")
    assert len(await log_of(world, session_id)) == 3


async def test_extension_frames_carry_the_current_flag(world: World) -> None:
    customer, mitra, session_id = await chatting(world)
    desk, phone = await mitra.open("chat"), await customer.open("chat")
    await marking(mitra, session_id, "sensitive")
    _, extension = await ask_for_extension(world, customer, session_id)
    assert (await wait_for_event(desk, "extension_requested", session_id))["extension"][
        "topic_sensitivity"
    ] == "sensitive"
    [session] = (await mitra.open("chat")).frames[0]["sessions"]
    assert (session["topic_sensitivity"], session["extension"]["topic_sensitivity"]) == ("sensitive", "sensitive")
    await marking(mitra, session_id, "regular")
    assert (await answer_extension(mitra, extension, accept=True))["topic_sensitivity"] == "regular"
    for socket in (desk, phone):
        assert (await wait_for_event(socket, "extension_resolved", session_id))["extension"][
            "topic_sensitivity"
        ] == "regular"
        assert (await wait_for_event(socket, "session_resumed", session_id))["session"][
            "topic_sensitivity"
        ] == "regular"


async def test_pairing_frames_and_requests_carry_the_flag(world: World) -> None:
    customer, mitra = await friends(world)
    desk, search = await mitra.open("pairing"), await customer.open("pairing")
    payment = await returning(world, customer, mitra)
    frames = [await desk.wait("chat_request", where=lambda f: f["request"]["session_id"] == payment["session_id"])]
    assert frames[0]["request"]["topic_sensitivity"] == "regular"
    await rejecting(mitra, payment["session_id"])
    view = await falling_back(customer, payment)
    assert (await wait_for_invitation(world, mitra, view["session_id"]))["topic_sensitivity"] == "regular"
    # A search cannot be marked, but its frames show the flag that the row has.
    await world.stack.sql(
        "UPDATE chat_sessions SET topic_sensitivity = 'sensitive' WHERE id = $1 AND status = 'searching'",
        view["session_id"],
    )
    assert (await wait_for_invitation(world, mitra, view["session_id"]))["topic_sensitivity"] == "sensitive"
    await accepting(mitra, view["session_id"])
    paired = await search.wait(
        "pairing_status", where=lambda f: f["status"] == "paired" and f["session_id"] == view["session_id"]
    )
    assert paired["topic_sensitivity"] == "sensitive"
    closed = await desk.wait("chat_request_closed", where=lambda f: f["session_id"] == view["session_id"])
    assert (closed["reason"], closed["topic_sensitivity"]) == ("accepted", "sensitive")
    await world.stack.sql(  # removed, because a flag needs a log row
        "UPDATE chat_sessions SET topic_sensitivity = 'regular' WHERE id = $1", view["session_id"]
    )


async def test_next_session_starts_regular(world: World) -> None:
    customer, mitra, session_id = await chatting(world)
    await marking(mitra, session_id, "sensitive")
    await time_is_up(world, session_id)
    await customer.post(f"/api/shared/chat/sessions/{session_id}/end")
    other = await world.session(customer, mitra, targeted_mitra_id=mitra.user["id"])
    assert (await session_of(mitra, other))["topic_sensitivity"] == "regular"
