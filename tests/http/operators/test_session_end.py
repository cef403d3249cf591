"""An operator ends a session: a chat closes, a search is cancelled, an ended session stays; alone and in races."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from typing import Any

import pytest

from tests.http.extensions.steps import (
    ask_for_extension,
    chatting,
    check_safeguard_tripped,
    create_extension_payment,
    extension_of,
)
from tests.http.operators.steps import audits, unique
from tests.http.pairing.steps import (
    accepting,
    cancelling,
    count_deliveries,
    earned,
    failures,
    now_in,
    read_payment,
    run_out,
    session_of,
    time_is_up,
    wait_for_invitation,
)
from tests.stack import World, at_once, new_id, open_failure, refused
from tests.tiers import rounds
from tests.verdicts import check_books
from tools.driving.device import Device

pytestmark = pytest.mark.anyio

ROUNDS = rounds(8)
REASON = "The customer asked support to end the session."


@pytest.fixture(autouse=True)
async def the_ledger(world: World) -> AsyncIterator[None]:
    """Check after each test that the ledger audit finds nothing."""
    yield
    check_books(await world.audit())


def ending(operator: Device, session_id: str, reason: str = REASON) -> Awaitable[Any]:
    """End a session as the operator."""
    return operator.post(f"/internal/sessions/{session_id}/end", {"reason": reason})


async def ends_of(world: World, session_id: str) -> list[dict[str, Any]]:
    """Return the audit rows of a session's end: status before and after, and the reason."""
    return [
        {**row["before"], "became": row["after"]["status"], "reason": row["after"]["reason"]}
        for row in await audits(world, session_id)
        if row["action"] == "session.ended"
    ]


async def test_end_of_active_session_closes_it_for_both_parties(world: World) -> None:
    operator = await world.operator()
    customer, mitra, session_id = await chatting(world)
    ended = await ending(operator, session_id, f"  {REASON} ")
    assert (ended["status"], ended["ended_by"], ended["id"]) == ("closing", "operator", session_id)
    for party in (customer, mitra):
        view = await session_of(party, session_id)
        assert (view["status"], view["ended_by"], view["ended_at"]) == ("closing", "operator", ended["ended_at"])
    assert await count_deliveries(world, session_id, "session_closing") == {"customer": 1, "mitra": 1}
    assert await ends_of(world, session_id) == [{"status": "active", "became": "closing", "reason": REASON}]
    assert (await mitra.get("/api/mitra/status"))["active_session_count"] == 0
    for party in (customer, mitra):
        done = await party.post(f"/api/shared/chat/sessions/{session_id}/closure", {"message": "sampai jumpa"})
    assert (done["status"], done["ended_by"]) == ("completed", "operator")


async def test_end_of_expired_session_closes_it(world: World) -> None:
    customer, _, session_id = await chatting(world)
    await run_out(world, customer, session_id)
    ended = await ending(await world.operator(), session_id)
    assert (ended["status"], ended["ended_by"]) == ("closing", "operator")
    assert [one["status"] for one in await ends_of(world, session_id)] == ["expired"]


async def test_end_of_search_cancels_it_and_fails_the_payment(world: World) -> None:
    operator, customer, mitra = await world.operator(), await world.customer(unique("Dewi")), await world.mitra()
    payment = await world.paid(customer)
    session_id = payment["session_id"]
    await wait_for_invitation(world, mitra, session_id)
    ended = await ending(operator, session_id)
    assert (ended["status"], ended["ended_by"], ended["mitra"]) == ("cancelled", None, None)
    view = await read_payment(customer, payment)
    assert (view["status"], view["failure"]) == ("failed_pairing", open_failure("customer_cancelled", "by_operator"))
    assert await failures(world, payment) == [("customer_cancelled", False)]
    assert await count_deliveries(world, session_id, "chat_request_closed") == {"mitra": 1}
    assert "pairing_status" in str(
        await world.stack.sql(
            "SELECT event, payload FROM deliveries WHERE payload LIKE '%\"cancelled\"%' AND session_id = $1", session_id
        )
    )
    await refused(accepting(mitra, session_id), 409, "REQUEST_CLOSED")
    assert await ends_of(world, session_id) == [{"status": "searching", "became": "cancelled", "reason": REASON}]
    story = await operator.get(f"/internal/payment-requests/{payment['payment_request_id']}/timeline")
    assert story["why_no_chat"].startswith(
        "The customer paid, and an operator ended the search before a mitra accepted."
    )
    texts = {entry["kind"]: entry["text"] for entry in story["entries"]}
    assert texts["ended_by_operator"] == f"Root ended the session: {REASON}"
    assert texts["search_cancelled"] == "An operator ended the search."


async def test_end_of_ended_session_changes_nothing(world: World) -> None:
    operator = await world.operator()
    customer, _, session_id = await chatting(world)
    await ending(operator, session_id)
    before = await operator.get(f"/internal/sessions/{session_id}")
    assert await ending(operator, session_id, "again") == before
    assert [one["reason"] for one in await ends_of(world, session_id)] == [REASON]
    payment = await world.paid(customer)
    await cancelling(customer, payment)
    left = await ending(operator, payment["session_id"])
    assert (left["status"], left["ended_by"]) == ("cancelled", None)
    assert await ends_of(world, payment["session_id"]) == []
    assert await count_deliveries(world, session_id, "session_closing") == {"customer": 1, "mitra": 1}


async def test_end_trips_a_pending_extension_and_abandons_an_unpaid_one(world: World) -> None:
    operator = await world.operator()
    customer, _, session_id = await chatting(world)
    waiting, _ = await ask_for_extension(world, customer, session_id)
    await ending(operator, session_id)
    await check_safeguard_tripped(world, customer, waiting)
    customer, _, session_id = await chatting(world)
    unpaid = await create_extension_payment(customer, session_id)
    await ending(operator, session_id)
    assert (await read_payment(customer, unpaid))["status"] == "abandoned"


async def test_end_without_reason_is_422_and_of_unknown_session_is_404(world: World) -> None:
    operator = await world.operator()
    _, _, session_id = await chatting(world)
    path = f"/internal/sessions/{session_id}/end"
    for body in ({}, {"reason": ""}, {"reason": "  \n"}, {"reason": "x" * 501}, {"reason": None}, {"reason": 1}):
        await refused(operator.post(path, body), 422, "VALIDATION_ERROR")
    await refused(operator.post(path), 422, "VALIDATION_ERROR")
    await refused(ending(operator, new_id()), 404, "NOT_FOUND")
    await refused(ending(operator, "nothing"), 404, "NOT_FOUND")
    assert (await operator.get(f"/internal/sessions/{session_id}"))["status"] == "active"
    assert await ends_of(world, session_id) == []
    assert (await ending(operator, session_id, "x" * 500))["status"] == "closing"


async def test_end_racing_with_accept_has_one_outcome(world: World) -> None:
    operator = await world.operator()
    for n in range(ROUNDS):
        customer, mitra = await world.customer(), await world.mitra()
        payment = await world.paid(customer)
        session_id = payment["session_id"]
        await wait_for_invitation(world, mitra, session_id)
        calls = [ending(operator, session_id), accepting(mitra, session_id)]
        outcomes = await at_once(*(calls if n % 2 else reversed(calls)))
        ended, accepted = outcomes if n % 2 else reversed(outcomes)
        assert (ended, accepted) in {("ok", "ok"), ("ok", "REQUEST_CLOSED")}
        session, view = await session_of(customer, session_id), await read_payment(customer, payment)
        (row,) = await ends_of(world, session_id)
        if accepted == "ok":  # the mitra accepted first, and the operator ended the chat
            assert (session["status"], session["ended_by"], row["status"]) == ("closing", "operator", "active")
            assert (view["status"], await earned(world, session_id)) == ("consumed", [("session", 12000)])
        else:
            assert (session["status"], view["status"], row["status"]) == ("cancelled", "failed_pairing", "searching")
            assert await earned(world, session_id) == []


@pytest.mark.slow
async def test_end_racing_with_the_customers_end_has_one_author(world: World) -> None:
    operator = await world.operator()
    async with world.setting(early_end_customer_enabled=True):
        for n in range(ROUNDS):
            customer, _, session_id = await chatting(world)
            calls = [ending(operator, session_id), customer.post(f"/api/shared/chat/sessions/{session_id}/end")]
            assert await at_once(*(calls if n % 2 else reversed(calls))) == ["ok", "ok"]
            session, rows = await session_of(customer, session_id), await ends_of(world, session_id)
            assert session["status"] == "closing"
            assert session["ended_by"] == ("operator" if rows else "customer")
            assert len(rows) <= 1
            assert await count_deliveries(world, session_id, "session_closing") == {"customer": 1, "mitra": 1}


async def test_end_racing_with_cancel_fails_the_payment_once(world: World) -> None:
    operator = await world.operator()
    for n in range(ROUNDS):
        customer = await world.customer()
        payment = await world.paid(customer)
        calls = [ending(operator, payment["session_id"]), cancelling(customer, payment)]
        assert await at_once(*(calls if n % 2 else reversed(calls))) == ["ok", "ok"]
        assert await failures(world, payment) == [("customer_cancelled", False)]
        ends, view = await ends_of(world, payment["session_id"]), await read_payment(customer, payment)
        assert (len(ends), view["failure"]["sub_cause"]) in ((0, None), (1, "by_operator"))


@pytest.mark.slow
async def test_end_racing_with_an_extension_payment_never_keeps_the_money(world: World) -> None:
    operator = await world.operator()
    for n in range(ROUNDS):
        customer, _, session_id = await chatting(world)
        payment = await create_extension_payment(customer, session_id)
        async with asyncio.TaskGroup() as group:
            if n % 2:
                group.create_task(ending(operator, session_id))
            paid = group.create_task(world.webhook(payment))
            if not n % 2:
                group.create_task(ending(operator, session_id))
        status, answer = paid.result()
        assert status == 200
        assert answer["processing_result"] in {"confirmed", "late_payment_recorded"}
        view = await world.until(
            lambda c=customer, p=payment: read_payment(c, p), lambda v: v["status"] == "failed_pairing"
        )
        assert view["failure"]["cause_tag"] == "extension_safeguard_tripped"
        extension = await extension_of(world, payment)
        assert extension is None or extension["status"] == "safeguard_tripped"
        session = await session_of(customer, session_id)
        assert (session["status"], session["extended_minutes"]) == ("closing", 0)
        assert await earned(world, session_id) == [("session", 12000)]


@pytest.mark.slow
async def test_end_racing_with_expiry_closes_the_session_once(world: World) -> None:
    operator = await world.operator()
    pairs = [await chatting(world) for _ in range(ROUNDS)]
    for _, _, session_id in pairs:
        await time_is_up(world, session_id)  # the jobs process expires them during the operator's calls
    outcomes = await at_once(*(ending(operator, session_id) for _, _, session_id in pairs))
    assert outcomes == ["ok"] * ROUNDS
    for customer, _, session_id in pairs:
        session = await session_of(customer, session_id)
        assert (session["status"], session["ended_by"]) == ("closing", "operator")
        assert [row["status"] for row in await ends_of(world, session_id)] == ["expired"]


async def test_end_racing_with_the_end_of_the_search_fails_the_payment_once(world: World) -> None:
    operator = await world.operator()
    searches = []
    for _ in range(ROUNDS):
        customer = await world.customer()
        searches.append((customer, await world.paid(customer)))
    ids = [payment["session_id"] for _, payment in searches]
    await world.stack.sql(
        f"UPDATE chat_sessions SET round_ends_at = {now_in(world)}, search_ends_at = {now_in(world)} WHERE id = ANY($1::uuid[])",
        ids,
    )
    assert await at_once(*(ending(operator, session_id) for session_id in ids)) == ["ok"] * ROUNDS
    for customer, payment in searches:
        (failure,) = await failures(world, payment)
        session, rows = await session_of(customer, payment["session_id"]), await ends_of(world, payment["session_id"])
        assert (failure[0], session["status"]) == (
            ("customer_cancelled", "cancelled") if rows else ("no_mitra_available", "failed")
        )
