"""Races of an extension with other events: there is exactly one outcome, and the ledger audit finds nothing."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.http.extensions.steps import (
    answer_extension,
    ask_for_extension,
    chatting,
    check_safeguard_tripped,
    create_extension_payment,
    extension_of,
    request_extension,
    wait_for_status,
)
from tests.http.pairing.steps import (
    count_deliveries,
    earned,
    end_now,
    failures,
    now_in,
    read_payment,
    run_out,
    session_of,
    time_is_up,
)
from tests.stack import World, at_once, outcome
from tests.verdicts import check_books
from tools.driving.device import Device

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

ROUNDS = 8


@pytest.fixture(autouse=True)
async def check_ledger(world: World) -> AsyncIterator[None]:
    """Check after every race that the ledger audit finds nothing."""
    yield
    check_books(await world.audit())


async def settled(world: World, customer: Device, payment: dict[str, Any]) -> str:
    """Check that the extension has one outcome and the payment agrees with it; return the outcome."""
    extension = await world.until(lambda: extension_of(world, payment), lambda found: found["status"] != "pending")
    view, session = await read_payment(customer, payment), await session_of(customer, extension["session_id"])
    if extension["status"] in ("approved", "auto_approved"):
        assert (view["status"], view["failure"], session["extended_minutes"]) == ("consumed", None, 12)
        assert await earned(world, session["id"]) == [("session", 12000), ("extension", 12000)]
    else:
        cause = {"rejected": "extension_rejected", "safeguard_tripped": "extension_safeguard_tripped"}
        assert await failures(world, payment) == [(cause[extension["status"]], False)]
        assert (view["status"], session["extended_minutes"]) == ("failed_pairing", 0)
        assert await earned(world, session["id"]) == [("session", 12000)]
    return extension["status"]


async def test_concurrent_approval_and_rejection_have_one_outcome(world: World) -> None:
    customer, mitra, session_id = await chatting(world)
    before = 0
    for n in range(ROUNDS):
        payment, extension = await ask_for_extension(world, customer, session_id)
        calls = [answer_extension(mitra, extension, accept=accept) for accept in (True, False, True, False)]
        outcomes = await at_once(*(calls if n % 2 else reversed(calls)))
        assert sorted(outcomes) == ["EXTENSION_RESOLVED"] * 3 + ["ok"]
        said_yes = outcomes.index("ok") % 2 == (0 if n % 2 else 1)
        after = (await session_of(customer, session_id))["extended_minutes"]
        assert after - before == (12 if said_yes else 0)
        assert (await read_payment(customer, payment))["status"] == ("consumed" if said_yes else "failed_pairing")
        before = after


async def test_answer_racing_with_session_end_has_one_outcome(world: World) -> None:
    for n in range(ROUNDS):
        customer, mitra, session_id = await chatting(world)
        await time_is_up(world, session_id)
        payment, extension = await ask_for_extension(world, customer, session_id)
        ending = customer.post(f"/api/shared/chat/sessions/{session_id}/end")
        calls = [answer_extension(mitra, extension, accept=True), ending]
        outcomes = await at_once(*(calls if n % 2 else reversed(calls)))
        yes, ended = outcomes if n % 2 else reversed(outcomes)
        assert (yes, ended) in {("ok", "EARLY_END_DISABLED"), ("EXTENSION_RESOLVED", "ok")}
        status = await settled(world, customer, payment)
        assert status == ("approved" if yes == "ok" else "safeguard_tripped")
        assert (await session_of(customer, session_id))["status"] == ("active" if yes == "ok" else "closing")


async def test_answer_racing_with_two_goodbyes_has_one_outcome(world: World) -> None:
    for n in range(ROUNDS // 2):
        customer, mitra, session_id = await chatting(world)
        await time_is_up(world, session_id)
        payment, extension = await ask_for_extension(world, customer, session_id)
        path, bye = f"/api/shared/chat/sessions/{session_id}/closure", {"message": "sampai jumpa"}
        calls = [answer_extension(mitra, extension, accept=True), customer.post(path, bye), mitra.post(path, bye)]
        outcomes = await at_once(*(calls if n % 2 else reversed(calls)))
        yes, *said = outcomes if n % 2 else reversed(outcomes)
        status = await settled(world, customer, payment)
        if yes == "ok":
            assert (status, said) == ("approved", ["SESSION_NOT_CLOSABLE"] * 2)
        else:
            assert (yes, status, said) == ("EXTENSION_RESOLVED", "safeguard_tripped", ["ok", "ok"])


async def test_answer_racing_with_its_timeout_has_one_outcome(world: World, fast_world: World) -> None:
    here = fast_world
    found = set()
    customer, mitra, session_id = await chatting(here)
    before = 0
    async with here.setting(extension_timeout_seconds=6):  # a tenth of a real second
        for n in range(10):
            payment = await create_extension_payment(customer, session_id)
            await here.webhook(payment)
            extension = await here.until(lambda p=payment: extension_of(here, p), lambda found: found is not None)
            await asyncio.sleep(n * 0.012)
            no = await outcome(answer_extension(mitra, extension, accept=False))
            assert no in {"ok", "EXTENSION_RESOLVED"}
            ended = await wait_for_status(here, payment, "rejected" if no == "ok" else "auto_approved")
            after = (await session_of(customer, session_id))["extended_minutes"]
            assert after - before == (0 if no == "ok" else 12)
            assert await failures(here, payment) == ([("extension_rejected", False)] if no == "ok" else [])
            before, _ = after, found.add(ended["status"])
    assert "auto_approved" in found
    check_books(await here.audit())


async def test_timeout_racing_with_session_end_has_one_outcome(world: World) -> None:
    pairs = []
    for _ in range(ROUNDS):
        customer, mitra, session_id = await chatting(world)
        await time_is_up(world, session_id)
        payment, extension = await ask_for_extension(world, customer, session_id)
        pairs.append((customer, mitra, payment, extension))
    # All are due at once. While the jobs process handles them one after the other, the customers end the sessions.
    await world.stack.sql(
        f"UPDATE session_extensions SET answer_by = {now_in(world)} WHERE id = ANY($1::uuid[])",
        [extension["id"] for *_, extension in pairs],
    )
    await world.until(lambda: extension_of(world, pairs[0][2]), lambda found: found["status"] != "pending")
    paths = [f"/api/shared/chat/sessions/{extension['session_id']}/end" for *_, extension in pairs]
    outcomes = await at_once(*(pair[0].post(path) for pair, path in zip(pairs, paths, strict=True)))
    for (customer, _, payment, extension), ended in zip(pairs, outcomes, strict=True):
        status = await settled(world, customer, payment)
        session = await session_of(customer, extension["session_id"])
        if status == "auto_approved":
            assert (ended, session["status"]) == ("EARLY_END_DISABLED", "active")
        else:
            assert (status, ended, session["status"]) == ("safeguard_tripped", "ok", "closing")


async def test_answer_racing_with_expiry_has_one_outcome(world: World) -> None:
    pairs = []
    for _ in range(ROUNDS):
        customer, mitra, session_id = await chatting(world)
        pairs.append((customer, mitra, *await ask_for_extension(world, customer, session_id)))

    async def at(n: int) -> None:
        """Approve `n` tenths of a second after the first one; in between the jobs process expires the sessions."""
        _, mitra, _, extension = pairs[n]
        await asyncio.sleep(n * 1.1 / ROUNDS)
        await answer_extension(mitra, extension, accept=True)

    for *_, extension in pairs:
        await time_is_up(world, extension["session_id"])
    async with asyncio.TaskGroup() as group:
        for n in range(ROUNDS):
            group.create_task(at(n))
    for customer, _, payment, extension in pairs:
        assert await settled(world, customer, payment) == "approved"
        rows = await world.stack.sql(
            "SELECT s.status, s.expires_at - e.responded_at = interval '12 minutes' AS from_her_yes FROM chat_sessions s "
            "JOIN session_extensions e ON e.session_id = s.id WHERE s.id = $1",
            extension["session_id"],
        )
        assert (rows[0]["status"], rows[0]["from_her_yes"]) == ("active", True)


async def test_concurrent_webhook_calls_offer_the_extension_once(world: World) -> None:
    customer, _, session_id = await chatting(world)
    payment = await create_extension_payment(customer, session_id)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(world.webhook(payment)) for _ in range(12)]
        asks = [group.create_task(outcome(request_extension(customer, session_id, payment))) for _ in range(6)]
    # On a busy machine a call may be answered 500; the gateway then calls again.
    answers = [task.result() for task in tasks]
    answers = [await world.webhook(payment) if status == 500 else (status, body) for status, body in answers]
    results = sorted(body["processing_result"] for _, body in answers)
    assert results in (["confirmed"] + ["duplicate"] * 11, ["duplicate"] * 12)
    assert {ask.result() for ask in asks} <= {"ok", "PAYMENT_NOT_CONFIRMED"}
    extension = await world.until(lambda: extension_of(world, payment), lambda found: found is not None)
    assert (await request_extension(customer, session_id, payment))["id"] == extension["id"]
    rows = await world.stack.sql("SELECT count(*) FROM session_extensions WHERE session_id = $1", session_id)
    assert rows[0][0] == 1
    assert await count_deliveries(world, session_id, "extension_requested") == {"mitra": 1}


async def test_payment_racing_with_session_end_has_one_outcome(world: World) -> None:
    for n in range(ROUNDS):
        customer, mitra, session_id = await chatting(world)
        await run_out(world, customer, session_id)
        payment = await create_extension_payment(customer, session_id)
        async with asyncio.TaskGroup() as group:
            if n % 2:
                ended = group.create_task(outcome(mitra.post(f"/api/shared/chat/sessions/{session_id}/end")))
            paid = group.create_task(world.webhook(payment))
            if not n % 2:
                ended = group.create_task(outcome(mitra.post(f"/api/shared/chat/sessions/{session_id}/end")))
        assert ended.result() == "ok"
        result = paid.result()[1]["processing_result"]
        assert result in {"confirmed", "late_payment_recorded"}
        if result == "confirmed":
            await check_safeguard_tripped(world, customer, payment)
        assert await failures(world, payment) == [("extension_safeguard_tripped", False)]
        assert (await session_of(customer, session_id))["status"] == "closing"


async def test_request_racing_with_session_end_has_one_outcome(world: World) -> None:
    for n in range(ROUNDS // 2):
        customer, mitra, session_id = await chatting(world)
        await time_is_up(world, session_id)
        calls = [create_extension_payment(customer, session_id), end_now(world, mitra, session_id)]
        outcomes = await at_once(*(calls if n % 2 else reversed(calls)))
        wanted, ended = outcomes if n % 2 else reversed(outcomes)
        assert ended == "ok"
        assert wanted in {"ok", "SESSION_NOT_EXTENDABLE"}
        rows = await world.stack.sql("SELECT status FROM payment_requests WHERE extends_session_id = $1", session_id)
        assert [row["status"] for row in rows] == (["abandoned"] if wanted == "ok" else [])
