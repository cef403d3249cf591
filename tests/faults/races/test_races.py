"""Calls that arrive at the same time, over the real processes: exactly one outcome, and no violation in the audit."""

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from core.config.keys import KEYS
from tests.stack import World, at_once, open_failure, outcome
from tools.driving.device import Device

pytestmark = pytest.mark.anyio
INVITED = "SELECT 1 FROM chat_request_notifications WHERE session_id = $1::uuid AND mitra_id = $2::uuid"


async def crowd(world: World, size: int) -> list[Device]:
    """Return `size` online mitras."""
    await world.operator()  # signed in before all of them need the operator
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(world.mitra(f"Mitra {n}")) for n in range(size)]
    return [task.result() for task in tasks]


def accepting(mitra: Device, session_id: str) -> Awaitable[Any]:
    return mitra.post(f"/api/mitra/chat-requests/{session_id}/accept")


def rejecting(mitra: Device, session_id: str) -> Awaitable[Any]:
    return mitra.post(f"/api/mitra/chat-requests/{session_id}/reject")


def cancelling(customer: Device, payment: dict[str, Any]) -> Awaitable[Any]:
    return customer.post("/api/client/chat/cancel", {"payment_request_id": payment["payment_request_id"]})


async def wait_for_invitation(world: World, mitra: Device, session_id: str) -> None:
    """Wait until a mitra has an invitation."""
    await world.until(
        lambda: mitra.get("/api/mitra/chat-requests"),
        lambda found: any(item["session_id"] == session_id for item in found["items"]),
    )


async def a_search(world: World, *mitras: Device, **wish: Any) -> tuple[Device, dict[str, Any]]:
    """Create a customer whose search has reached these mitras; return customer and payment."""
    customer = await world.customer()
    payment = await world.paid(customer, **wish)
    for mitra in mitras:
        await wait_for_invitation(world, mitra, payment["session_id"])
    return customer, payment


async def was_invited(world: World, mitra: Device, session_id: str) -> None:
    """Wait until a mitra has had an invitation; the search may be over by then."""
    await world.until(lambda: world.stack.sql(INVITED, session_id, mitra.user["id"]), bool)


async def read_payment(customer: Device, payment: dict[str, Any]) -> dict[str, Any]:
    return await customer.get(f"/api/client/payment/requests/{payment['payment_request_id']}")


async def accepted_rows(world: World, session_id: str) -> int:
    rows = await world.stack.sql(
        "SELECT count(*) FROM chat_request_notifications WHERE session_id = $1 AND response = 'ACCEPTED'", session_id
    )
    return rows[0][0]


async def check_outcome(
    world: World, customer: Device, payment: dict[str, Any], *, won: bool, cause: str | None
) -> None:
    """Check that the request is consumed and its session active, or that it failed with one cause; never both or
    neither.
    """
    view = await read_payment(customer, payment)
    session = await customer.get(f"/api/shared/chat/sessions/{payment['session_id']}")
    transactions = await world.stack.sql(
        "SELECT amount FROM customer_transactions WHERE payment_request_id = $1", payment["payment_request_id"]
    )
    if won:
        assert (view["status"], session["status"], view["failure"]) == ("consumed", "active", None)
        assert [row["amount"] for row in transactions] == [payment["amount"]]
        assert await accepted_rows(world, payment["session_id"]) == 1
    else:
        assert (view["status"], view["failure"]) == ("failed_pairing", open_failure(cause))
        assert session["status"] == ("cancelled" if cause == "customer_cancelled" else "failed")
        assert transactions == []
        assert await accepted_rows(world, payment["session_id"]) == 0


async def test_thirty_concurrent_accepts_have_one_winner(world: World) -> None:
    mitras = await crowd(world, 30)
    customer, payment = await a_search(world, mitras[0], mitras[-1])
    outcomes = await at_once(*(accepting(mitra, payment["session_id"]) for mitra in mitras))
    assert sorted(outcomes) == sorted(["ok"] + ["REQUEST_TAKEN"] * 29)
    winner = mitras[outcomes.index("ok")]
    session = await customer.get(f"/api/shared/chat/sessions/{payment['session_id']}")
    assert session["mitra"]["id"] == winner.user["id"]
    rows = await world.stack.sql(
        "SELECT mitra_id::text, response, lost_by_ms FROM chat_request_notifications WHERE session_id = $1",
        payment["session_id"],
    )
    assert all((row["lost_by_ms"] is None) == (row["mitra_id"] == winner.user["id"]) for row in rows)
    assert all(row["lost_by_ms"] >= 0 for row in rows if row["lost_by_ms"] is not None)
    others = {mitra.user["id"]: "MISSED" for mitra in mitras if mitra is not winner}
    assert {row["mitra_id"]: row["response"] for row in rows} == {**others, winner.user["id"]: "ACCEPTED"}
    await check_outcome(world, customer, payment, won=True, cause=None)


async def test_two_concurrent_accepts_with_capacity_for_one_get_one(world: World) -> None:
    await world.config("max_customers_per_mitra", 1)
    try:
        for _ in range(5):
            mitra = await world.mitra()
            searches = [await a_search(world, mitra) for _ in range(2)]
            outcomes = await at_once(*(accepting(mitra, payment["session_id"]) for _, payment in searches))
            assert sorted(outcomes) == ["MITRA_AT_CAPACITY", "ok"]
            status = await mitra.get("/api/mitra/status")
            assert (status["active_session_count"], status["max_sessions"]) == (1, 1)
            await cancelling(*searches[outcomes.index("MITRA_AT_CAPACITY")])
    finally:
        await world.config("max_customers_per_mitra", KEYS["max_customers_per_mitra"].default)


async def test_accept_racing_a_cancel_has_one_outcome(world: World) -> None:
    for n in range(15):
        if n % 3 == 0:  # their capacity of three is used up by then
            first, second = await world.mitra("Ayu"), await world.mitra("Bima")
        customer, payment = await a_search(world, first, second)
        session_id = payment["session_id"]
        calls = [accepting(first, session_id), cancelling(customer, payment), accepting(second, session_id)]
        turn = n % 3
        outcomes = await at_once(*calls[turn:], *calls[:turn])
        one, left, two = outcomes[3 - turn :] + outcomes[: 3 - turn]
        if left == "ok":
            assert {one, two} == {"REQUEST_CLOSED"}
        else:
            assert (left, sorted([one, two])) == ("SESSION_NOT_SEARCHING", ["REQUEST_TAKEN", "ok"])
        await check_outcome(world, customer, payment, won=left != "ok", cause="customer_cancelled")


async def test_accept_racing_a_reject_of_the_same_mitra_has_one_outcome(world: World) -> None:
    for n in range(8):
        mitra = await world.mitra()
        customer, payment = await a_search(world, mitra)
        session_id = payment["session_id"]
        calls = [accepting(mitra, session_id), rejecting(mitra, session_id)]
        outcomes = await at_once(*(calls if n % 2 else reversed(calls)))
        yes, no = outcomes if n % 2 else reversed(outcomes)
        assert (yes, no) in {("ok", "REQUEST_TAKEN"), ("REQUEST_CLOSED", "ok")}
        await check_outcome(world, customer, payment, won=yes == "ok", cause="all_mitras_rejected")
        await mitra.post("/api/mitra/status/offline")


async def test_accept_racing_going_offline_leaves_no_open_invitation(world: World) -> None:
    for n in range(8):
        mitra = await world.mitra()
        customer, payment = await a_search(world, mitra)
        session_id = payment["session_id"]
        calls = [accepting(mitra, session_id), mitra.post("/api/mitra/status/offline")]
        outcomes = await at_once(*(calls if n % 2 else reversed(calls)))
        yes, left = outcomes if n % 2 else reversed(outcomes)
        assert left == "ok"
        assert yes in {"ok", "REQUEST_CLOSED", "MITRA_OFFLINE"}
        rows = await world.stack.sql(
            "SELECT response FROM chat_request_notifications WHERE session_id = $1 AND mitra_id = $2",
            session_id,
            mitra.user["id"],
        )
        assert [row["response"] for row in rows] == ["ACCEPTED" if yes == "ok" else "IGNORED"]
        if yes != "ok":
            await cancelling(customer, payment)
        await check_outcome(world, customer, payment, won=yes == "ok", cause="customer_cancelled")


async def test_accept_racing_the_end_of_a_round_always_succeeds(fast_world: World) -> None:
    world = fast_world
    await world.config("pairing_blast_timeout_seconds", 1)  # a new round every 17 ms
    mitras = await crowd(world, 8)
    try:
        for n in range(12):
            customer, payment = await a_search(world)
            mitra = mitras[n % len(mitras)]
            await wait_for_invitation(world, mitra, payment["session_id"])
            assert await outcome(accepting(mitra, payment["session_id"])) == "ok"
            await check_outcome(world, customer, payment, won=True, cause=None)
    finally:
        await world.config("pairing_blast_timeout_seconds", KEYS["pairing_blast_timeout_seconds"].default)


async def test_accept_racing_the_end_of_the_search_has_one_outcome(fast_world: World) -> None:
    world = fast_world
    await world.config("searching_timeout_minutes", 1)  # one real second
    mitras = await crowd(world, 8)
    try:
        searches = [await a_search(world) for _ in mitras]
        for mitra, (_, payment) in zip(mitras, searches, strict=True):
            await was_invited(world, mitra, payment["session_id"])
        ends = {}
        for row in await world.stack.sql(
            "SELECT id::text, search_ends_at, created_at FROM chat_sessions WHERE id = ANY($1::uuid[])",
            [payment["session_id"] for _, payment in searches],
        ):
            ends[row["id"]] = row["search_ends_at"]
        assert len(ends) == 8

        async def insist(mitra: Device, session_id: str) -> list[str]:
            """Each mitra is invited to every search, so each accepts their own search, repeating until it is over."""
            found = []
            while True:
                rows = await world.stack.sql("SELECT status FROM chat_sessions WHERE id = $1", session_id)
                if rows[0]["status"] != "searching":
                    return found
                late = await world.stack.sql(
                    "SELECT $2::timestamptz - (a.anchor + (clock_timestamp() - a.anchor) * 60) < interval '2 seconds' "
                    "AS near FROM service_clock a, chat_sessions s WHERE s.id = $1",
                    session_id,
                    ends[session_id],
                )
                if late[0]["near"]:
                    found.append(await outcome(accepting(mitra, session_id)))

        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(insist(mitra, payment["session_id"]))
                for mitra, (_, payment) in zip(mitras, searches, strict=True)
            ]
        for task, (customer, payment) in zip(tasks, searches, strict=True):
            assert set(task.result()) <= {"ok", "REQUEST_CLOSED"}
            won = "ok" in task.result()
            await check_outcome(world, customer, payment, won=won, cause="no_mitra_available")
    finally:
        await world.config("searching_timeout_minutes", KEYS["searching_timeout_minutes"].default)


async def test_concurrent_duplicate_webhooks_confirm_once(world: World) -> None:
    for _ in range(4):
        customer = await world.customer()
        payment = await world.request(customer)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(world.webhook(payment)) for _ in range(12)]
        answers = [(status, body["processing_result"]) for status, body in (task.result() for task in tasks)]
        assert sorted(answers) == [(200, "confirmed")] + [(200, "duplicate")] * 11
        begun = await world.until(lambda c=customer, p=payment: read_payment(c, p), lambda view: view["session_id"])
        rows = await world.stack.sql(
            "SELECT count(*) FROM chat_sessions WHERE payment_request_id = $1", payment["payment_request_id"]
        )
        assert (begun["status"], rows[0][0]) == ("confirmed", 1)
        await cancelling(customer, payment)


async def test_webhook_racing_an_abandonment_never_loses_the_payment(world: World) -> None:
    for n in range(10):
        customer = await world.customer()
        payment = await world.request(customer)
        path = f"/api/client/payment/requests/{payment['payment_request_id']}/abandon"
        async with asyncio.TaskGroup() as group:
            if n % 2:
                left = group.create_task(outcome(customer.post(path)))
            paid = group.create_task(world.webhook(payment))
            if not n % 2:
                left = group.create_task(outcome(customer.post(path)))
        status, body = paid.result()
        assert status == 200
        result = (left.result(), body["processing_result"])
        assert result in {("ok", "late_payment_recorded"), ("PAYMENT_NOT_PENDING", "confirmed")}
        view = await read_payment(customer, payment)
        if result[0] == "ok":
            assert (view["status"], view["failure"]) == (
                "failed_pairing",
                open_failure("payment_session_expired", "given_up"),
            )
        else:
            assert view["status"] == "confirmed"
            await cancelling(customer, payment)


async def test_two_requests_of_a_customer_paid_at_once_start_one_search(fast_world: World) -> None:
    world = fast_world
    await world.config("payment_session_timeout_minutes", 1)
    try:
        customer = await world.customer()
        first = await world.request(customer)
        await world.until(lambda: read_payment(customer, first), lambda view: view["status"] == "expired")
        await world.config("payment_session_timeout_minutes", 20)
        second = await world.request(customer)
    finally:
        await world.config("payment_session_timeout_minutes", KEYS["payment_session_timeout_minutes"].default)
    # The first one was paid in time and reported late, so both may be confirmed.
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(world.webhook(payment, paid_at=first["created_at"])) for payment in (first, second)]
    answers = [task.result() for task in tasks]
    assert sorted(body["processing_result"] for _, body in answers) == ["confirmed", "paid_not_pairable"]
    views = [await read_payment(customer, payment) for payment in (first, second)]
    assert sorted(view["status"] for view in views) == ["confirmed", "failed_pairing"]
    failed = next(view for view in views if view["status"] == "failed_pairing")
    assert failed["failure"] in [open_failure("payment_session_expired", one) for one in ("double", "live_session")]
    await cancelling(customer, next(view for view in views if view["status"] == "confirmed"))


async def test_early_end_racing_a_goodbye_has_one_order(world: World) -> None:
    await world.config("early_end_customer_enabled", True)
    try:
        for n in range(6):
            customer, mitra = await world.customer(), await world.mitra()
            session_id = await world.session(customer, mitra)
            path = f"/api/shared/chat/sessions/{session_id}"
            calls = [customer.post(f"{path}/end"), mitra.post(f"{path}/closure", {"message": "sampai jumpa"})]
            outcomes = await at_once(*(calls if n % 2 else reversed(calls)))
            ended, said = outcomes if n % 2 else reversed(outcomes)
            assert ended == "ok"
            assert said in {"ok", "SESSION_NOT_CLOSABLE"}
            view = await mitra.get(path)
            assert (view["status"], view["ended_by"]) == ("closing", "customer")
            rows = await world.stack.sql("SELECT user_type FROM session_closures WHERE session_id = $1", session_id)
            assert [row["user_type"] for row in rows] == (["mitra"] if said == "ok" else [])
    finally:
        await world.config("early_end_customer_enabled", False)


async def test_concurrent_goodbyes_complete_the_session_once(world: World) -> None:
    await world.config("early_end_mitra_enabled", True)
    try:
        for _ in range(6):
            customer, mitra = await world.customer(), await world.mitra()
            session_id = await world.session(customer, mitra)
            path = f"/api/shared/chat/sessions/{session_id}"
            await mitra.post(f"{path}/end")
            goodbye = {"message": "sampai jumpa"}
            outcomes = await at_once(
                customer.post(f"{path}/closure", goodbye),
                mitra.post(f"{path}/closure", goodbye),
                customer.post(f"{path}/closure", goodbye),
            )
            assert outcomes[1] == "ok"
            assert "ok" in outcomes[::2]
            assert set(outcomes[::2]) <= {"ok", "CLOSURE_EXISTS", "SESSION_NOT_CLOSABLE"}
            assert outcomes.count("ok") == 2
            view = await customer.get(path)
            assert (view["status"], view["ended_by"]) == ("completed", "mitra")
            told = await world.stack.sql(
                "SELECT recipient_type, count(*) AS n FROM deliveries WHERE session_id = $1 AND event = 'session_completed' "
                "GROUP BY recipient_type",
                session_id,
            )
            assert {row["recipient_type"]: row["n"] for row in told} == {"customer": 1, "mitra": 1}
    finally:
        await world.config("early_end_mitra_enabled", False)
