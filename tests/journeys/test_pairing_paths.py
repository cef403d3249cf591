"""Paths of a paid search and of a session, over the real processes."""

import contextlib
from collections.abc import Awaitable
from typing import Any

import pytest

from tests.http.pairing.steps import cancelling, failed, now_in, open_request, read_payment
from tests.stack import World, open_failure, within
from tools.driving.device import Device
from tools.driving.sesi_client import Refused

pytestmark = pytest.mark.anyio


async def refusal(call: Awaitable[Any]) -> tuple[int, str]:
    """Return status and code of a call that must be refused."""
    with pytest.raises(Refused) as refused:
        await call
    return refused.value.status, refused.value.code


async def wait_for_invitation(world: World, mitra: Device, payment: dict[str, Any]) -> dict[str, Any]:
    """Wait until a mitra has an open invitation; return it."""
    return await world.until(lambda: open_request(mitra, payment["session_id"]), bool)


async def responses(world: World, payment: dict[str, Any]) -> dict[str, list[str | None]]:
    """Return each mitra's responses, oldest first."""
    found: dict[str, list[str | None]] = {}
    for row in await world.stack.sql(
        "SELECT mitra_id::text, response FROM chat_request_notifications WHERE session_id = $1 ORDER BY round_number, id",
        payment["session_id"],
    ):
        found.setdefault(row["mitra_id"], []).append(row["response"])
    return found


def accepting(mitra: Device, payment: dict[str, Any]) -> Awaitable[Any]:
    return mitra.post(f"/api/mitra/chat-requests/{payment['session_id']}/accept")


def rejecting(mitra: Device, payment: dict[str, Any]) -> Awaitable[Any]:
    return mitra.post(f"/api/mitra/chat-requests/{payment['session_id']}/reject")


# -- the blast


async def test_mitra_who_comes_online_during_a_search_is_invited_at_once(world: World) -> None:
    customer, mitra = await world.customer(), await world.mitra(online=False)
    payment = await world.paid(customer)
    assert payment["status"] == "confirmed"
    desk = await mitra.open("pairing")
    await mitra.post("/api/mitra/status/online")
    ours = await desk.wait(
        "chat_request", where=lambda f: f["request"]["session_id"] == payment["session_id"], timeout=within(2)
    )
    assert ours["request"] == await open_request(mitra, payment["session_id"])
    assert (ours["request"]["kind"], ours["request"]["customer_display_name"]) == ("blast", "Dewi")
    await accepting(mitra, payment)
    assert await responses(world, payment) == {mitra.user["id"]: ["ACCEPTED"]}


async def test_search_without_eligible_mitra_runs_rounds_until_its_end(fast_world: World) -> None:
    world = fast_world
    # Three real seconds for nine rounds: the jobs process needs time between two rounds.
    async with world.setting(pairing_blast_timeout_seconds=20, searching_timeout_minutes=3):
        customer = await world.customer()
        search = await customer.open("pairing")
        payment = await world.paid(customer)
        assert await failed(world, customer, payment) == "no_mitra_available"
    (row,) = await world.stack.sql(
        "SELECT round_number, extract(epoch FROM ended_at - created_at)::float8 AS lasted FROM chat_sessions WHERE id = $1",
        payment["session_id"],
    )
    assert row["lasted"] >= 180
    assert 3 <= row["round_number"] <= 9
    over = await search.wait("pairing_status", where=lambda f: f["status"] == "failed")
    assert (over["cause_tag"], over["session_id"]) == ("no_mitra_available", payment["session_id"])
    assert over["payment_request_id"] == payment["payment_request_id"]
    session = await customer.get(f"/api/shared/chat/sessions/{payment['session_id']}")
    assert (session["status"], session["mitra"]) == ("failed", None)
    assert session["ended_at"] is not None


async def test_mitra_who_comes_online_in_a_later_round_is_invited(world: World) -> None:
    async with world.setting(pairing_blast_timeout_seconds=1):
        customer, no, mitra = await world.customer(), await world.mitra("Bima"), await world.mitra(online=False)
        payment = await world.paid(customer)
        await wait_for_invitation(world, no, payment)
        await no.post("/api/mitra/status/offline")  # no mitra is left, but not all have rejected
        rounds = "SELECT round_number FROM chat_sessions WHERE id = $1"
        await world.until(lambda: world.stack.sql(rounds, payment["session_id"]), lambda rows: rows[0][0] >= 3)
        await mitra.post("/api/mitra/status/online")
        await wait_for_invitation(world, mitra, payment)
    assert (await accepting(mitra, payment))["status"] == "active"


async def test_search_ignored_in_every_round_fails_with_no_mitra_available(fast_world: World) -> None:
    world = fast_world
    async with world.setting(pairing_blast_timeout_seconds=30, searching_timeout_minutes=3):
        customer, mitra = await world.customer(), await world.mitra()
        payment = await world.paid(customer)
        assert await failed(world, customer, payment) == "no_mitra_available"
    answers = (await responses(world, payment))[mitra.user["id"]]
    assert len(answers) >= 2
    assert set(answers) == {"IGNORED"}
    assert await refusal(accepting(mitra, payment)) == (409, "REQUEST_CLOSED")


async def test_search_fails_at_once_when_all_mitras_have_rejected(world: World) -> None:
    customer, first, second = await world.customer(), await world.mitra("Ayu"), await world.mitra("Bima")
    payment = await world.paid(customer)
    for mitra in (first, second):
        await wait_for_invitation(world, mitra, payment)
        assert (await read_payment(customer, payment))["status"] == "confirmed"
        await rejecting(mitra, payment)
    view = await read_payment(customer, payment)
    assert (view["status"], view["failure"]) == ("failed_pairing", open_failure("all_mitras_rejected"))
    assert await responses(world, payment) == {first.user["id"]: ["REJECTED"], second.user["id"]: ["REJECTED"]}
    assert await refusal(accepting(first, payment)) == (409, "REQUEST_CLOSED")


async def test_next_round_invites_mitras_who_ignored_and_not_those_who_rejected(world: World) -> None:
    customer, ignoring, no = await world.customer(), await world.mitra("Ayu"), await world.mitra("Bima")
    desk, other_desk = await ignoring.open("pairing"), await no.open("pairing")
    payment = await world.paid(customer)
    session_id = payment["session_id"]

    def ours(frame: dict[str, Any]) -> bool:
        return frame["request"]["session_id"] == session_id

    first = await desk.wait("chat_request", where=ours)
    await other_desk.wait("chat_request", where=ours)
    await rejecting(no, payment)
    async with world.setting(pairing_blast_timeout_seconds=1):
        # The first round was long, so that both invitations arrived in it. By its end all processes know the setting.
        ends = f"UPDATE chat_sessions SET round_ends_at = {now_in(world)} + interval '1 second' WHERE id = $1"
        await world.stack.sql(ends, session_id)
        second = await desk.wait("chat_request", where=ours)
        assert second["request"]["notified_at"] > first["request"]["notified_at"]
        again = await world.until(
            lambda: open_request(ignoring, session_id),
            lambda item: item is not None and item["answer_by"] >= second["request"]["answer_by"],
        )
        assert again["kind"] == "blast"
        await desk.wait("chat_request", where=ours)
        assert await open_request(no, session_id) is None
        found = await responses(world, payment)
        assert found[no.user["id"]] == ["REJECTED"]
        assert set(found[ignoring.user["id"]][:-1]) == {"IGNORED"}
        assert len([f for f in other_desk.frames if f["type"] == "chat_request" and ours(f)]) == 1
        await accepting(ignoring, payment)


async def test_going_offline_closes_an_open_invitation_as_ignored(world: World) -> None:
    customer, mitra, other = await world.customer(), await world.mitra(), await world.mitra("Bima")
    desk = await mitra.open("pairing")
    payment = await world.paid(customer)
    for one in (mitra, other):
        await wait_for_invitation(world, one, payment)
    await mitra.post("/api/mitra/status/offline")
    closed = await desk.wait("chat_request_closed", where=lambda f: f["session_id"] == payment["session_id"])
    assert closed["reason"] == "timeout"
    assert (await responses(world, payment))[mitra.user["id"]] == ["IGNORED"]
    assert await refusal(accepting(mitra, payment)) == (409, "MITRA_OFFLINE")
    assert await refusal(mitra.post("/api/mitra/status/heartbeat")) == (409, "MITRA_OFFLINE")
    await mitra.post("/api/mitra/status/online")
    await wait_for_invitation(world, mitra, payment)
    await accepting(mitra, payment)
    assert await responses(world, payment) == {mitra.user["id"]: ["IGNORED", "ACCEPTED"], other.user["id"]: ["MISSED"]}


async def test_repeated_accept_of_the_winner_succeeds_and_others_are_too_late(world: World) -> None:
    customer, winner, late = await world.customer(), await world.mitra("Ayu"), await world.mitra("Bima")
    payment = await world.paid(customer)
    for mitra in (winner, late):
        await wait_for_invitation(world, mitra, payment)
    uninvited = await world.mitra("Citra", online=False)
    first, again = await accepting(winner, payment), await accepting(winner, payment)
    assert first == again
    assert first["mitra"]["id"] == winner.user["id"]
    assert await refusal(accepting(late, payment)) == (409, "REQUEST_TAKEN")
    assert await refusal(rejecting(late, payment)) == (409, "REQUEST_TAKEN")
    for answer in (accepting, rejecting):
        assert await refusal(answer(uninvited, payment)) == (404, "NOT_FOUND")
    assert await responses(world, payment) == {winner.user["id"]: ["ACCEPTED"], late.user["id"]: ["MISSED"]}


async def test_mitra_at_capacity_is_not_invited_until_a_session_ends(world: World) -> None:
    async with world.setting(max_customers_per_mitra=1, early_end_customer_enabled=True):
        mitra, first, second = await world.mitra(), await world.customer("Dewi"), await world.customer("Eka")
        session_id = await world.session(first, mitra)
        payment = await world.paid(second)
        assert await responses(world, payment) == {}
        desk = await mitra.open("pairing")
        await first.post(f"/api/shared/chat/sessions/{session_id}/end")
        await desk.wait(
            "chat_request", where=lambda f: f["request"]["session_id"] == payment["session_id"], timeout=within(2)
        )
        await accepting(mitra, payment)
        status = await mitra.get("/api/mitra/status")
        assert (status["active_session_count"], status["max_sessions"]) == (1, 1)


@pytest.mark.slow
async def test_silent_mitra_is_taken_offline_and_one_with_heartbeats_is_not(fast_world: World) -> None:
    world = fast_world
    silent, heard = await world.mitra("Ayu"), await world.mitra("Bima")
    world.stop_heartbeats(silent)
    seconds = 5 * 60  # 5 s of real time: the phone below sends a heartbeat in that time even on a busy machine
    async with world.setting(mitra_stale_after_seconds=seconds):

        async def look() -> tuple[bool, bool]:
            with contextlib.suppress(Refused):
                await heard.post("/api/mitra/status/heartbeat")
            return (await silent.get("/api/mitra/status"))["is_online"], (await heard.get("/api/mitra/status"))[
                "is_online"
            ]

        assert await world.until(look, lambda both: not both[0]) == (False, True)
        assert await refusal(silent.post("/api/mitra/status/heartbeat")) == (409, "MITRA_OFFLINE")
        rows = await world.stack.sql(
            'SELECT l.status, l."timestamp" - s.last_heartbeat_at AS after FROM mitra_online_logs l '
            'JOIN mitra_online_status s USING (mitra_id) WHERE l.mitra_id = $1 ORDER BY l."timestamp"',
            silent.user["id"],
        )
        assert [row["status"] for row in rows] == ["online", "offline"]
        assert rows[-1]["after"].total_seconds() >= seconds


# -- the customer cancels


async def test_search_is_cancelled_once_and_its_mitras_are_notified(world: World) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    desk, search = await mitra.open("pairing"), await customer.open("pairing")
    payment = await world.paid(customer)
    await wait_for_invitation(world, mitra, payment)
    left = await cancelling(customer, payment)
    assert (left["status"], left["failure"]) == ("failed_pairing", open_failure("customer_cancelled"))
    closed = await desk.wait("chat_request_closed", where=lambda f: f["session_id"] == payment["session_id"])
    assert closed["reason"] == "cancelled"
    told = await search.wait("pairing_status", where=lambda f: f["status"] == "cancelled")
    assert told["cause_tag"] == "customer_cancelled"
    assert await cancelling(customer, payment) == left
    assert await responses(world, payment) == {mitra.user["id"]: ["CANCELLED"]}
    assert await refusal(accepting(mitra, payment)) == (409, "REQUEST_CLOSED")
    session = await customer.get(f"/api/shared/chat/sessions/{payment['session_id']}")
    assert session["status"] == "cancelled"


# -- targeted requests


async def returning(world: World) -> tuple[Device, Device]:
    """Return a customer and a mitra who have chatted before; the switch for early ends is on."""
    customer, mitra = await world.customer(), await world.mitra()
    session_id = await world.session(customer, mitra)
    await customer.post(f"/api/shared/chat/sessions/{session_id}/end")
    return customer, mitra


async def test_targeted_request_invites_only_its_mitra(world: World) -> None:
    async with world.setting(early_end_customer_enabled=True):
        (customer, mitra), other = await returning(world), await world.mitra("Bima")
        search = await customer.open("pairing")
        payment = await world.paid(customer, targeted_mitra_id=mitra.user["id"])
        assert (await wait_for_invitation(world, mitra, payment))["kind"] == "targeted"
        assert await refusal(accepting(other, payment)) == (404, "NOT_FOUND")
        await accepting(mitra, payment)
        paired = await search.wait("pairing_status", where=lambda f: f["status"] == "paired")
        assert paired["mitra"] == {"id": mitra.user["id"], "display_name": "Ayu"}
        assert await responses(world, payment) == {mitra.user["id"]: ["ACCEPTED"]}
        view = await read_payment(customer, payment)
        assert (view["status"], view["failure"], view["targeted_mitra_id"]) == ("consumed", None, mitra.user["id"])


# -- the end


async def test_early_end_needs_the_switch_of_its_side(world: World) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    session_id = await world.session(customer, mitra)
    path = f"/api/shared/chat/sessions/{session_id}"
    assert await refusal(customer.post(f"{path}/end")) == (403, "EARLY_END_DISABLED")
    async with world.setting(early_end_mitra_enabled=True):
        assert await refusal(customer.post(f"{path}/end")) == (403, "EARLY_END_DISABLED")
        ended = await mitra.post(f"{path}/end")
    assert (ended["status"], ended["ended_by"]) == ("closing", "mitra")
    assert ended["ended_at"] is not None
    again = await customer.post(f"{path}/end")
    assert (again["status"], again["ended_by"], again["ended_at"]) == ("closing", "mitra", ended["ended_at"])


async def test_end_and_goodbye_of_a_search_are_refused(world: World) -> None:
    customer = await world.customer()
    payment = await world.paid(customer)
    path = f"/api/shared/chat/sessions/{payment['session_id']}"
    assert await refusal(customer.post(f"{path}/end")) == (409, "SESSION_NOT_ACTIVE")
    assert await refusal(customer.post(f"{path}/closure", {"message": "ya"})) == (409, "SESSION_NOT_CLOSABLE")
    await cancelling(customer, payment)
    assert await refusal(customer.post(f"{path}/end")) == (409, "SESSION_NOT_ACTIVE")


async def test_goodbye_is_accepted_once_per_side_and_only_after_the_end(world: World) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    session_id = await world.session(customer, mitra)
    path = f"/api/shared/chat/sessions/{session_id}"
    goodbye = {"message": "terima kasih"}
    assert await refusal(customer.post(f"{path}/closure", goodbye)) == (409, "SESSION_NOT_CLOSABLE")
    assert [(await client.get(path))["closures"] for client in (customer, mitra)] == [[], []]
    async with world.setting(early_end_customer_enabled=True):
        await customer.post(f"{path}/end")
    assert (await customer.post(f"{path}/closure", goodbye))["status"] == "closing"
    assert await refusal(customer.post(f"{path}/closure", goodbye)) == (409, "CLOSURE_EXISTS")
    done = await mitra.post(f"{path}/closure", goodbye)
    assert (done["status"], done["ended_by"]) == ("completed", "customer")
    for client in (customer, mitra):
        assert await refusal(client.post(f"{path}/closure", goodbye)) == (409, "CLOSURE_EXISTS")
    assert (await customer.post(f"{path}/end"))["status"] == "completed"


@pytest.mark.slow
async def test_grace_period_of_closing_is_five_minutes(fast_world: World) -> None:
    world = fast_world
    async with world.setting(early_end_customer_enabled=True):
        customer, mitra = await world.customer(), await world.mitra()
        session_id = await world.session(customer, mitra)
        path = f"/api/shared/chat/sessions/{session_id}"
        phone = await mitra.open("chat")
        closing = await customer.post(f"{path}/end")
        assert closing["status"] == "closing"
        done = await phone.wait("session_completed", timeout=15)
    assert (done["session"]["status"], done["session"]["ended_by"]) == ("completed", "customer")
    rows = await world.stack.sql(
        "SELECT extract(epoch FROM ended_at - $2::text::timestamptz)::float8 AS after FROM chat_sessions WHERE id = $1",
        session_id,
        closing["ended_at"],
    )
    assert 297 <= rows[0]["after"] <= 540  # at most 50 ms early; late by what a busy machine may need
