"""An erasure at the same moment as other calls, and processes that are killed in the middle of one."""

import asyncio
from typing import Any

import pytest

from tests.http.pairing.steps import accepting
from tests.http.privacy.steps import ERASE, completed, finish, phone_customer, say, second_proof
from tests.http.sign_in.people import anonymous, by_phone, device, new_number, proof
from tests.stack import World, at_once, outcome
from tests.verdicts import check_books
from tools.driving.device import Device

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
TIMES = 6
LEFT = """SELECT id::text, erased_at, phone, display_name FROM customers WHERE id = $1"""
MESSAGES = """INSERT INTO chat_messages
  (id, session_id, seq, sender_type, sender_id, client_message_id, type, content, status, created_at)
  SELECT gen_random_uuid(), $1, n, 'customer', $2, gen_random_uuid(), 'text', 'rahasia', 'sent', s.paired_at
  FROM chat_sessions AS s, generate_series(1, $3::int) AS n WHERE s.id = $1"""
TEXTS = "SELECT count(*) AS n FROM chat_messages WHERE session_id = $1 AND content <> ''"
# A code is valid for five minutes, which here pass in five seconds: a start may take longer on a busy machine.
VALID_FOR_LONG = "UPDATE otp_requests SET expires_at = expires_at + interval '1 hour' WHERE id = $1"
WAITING = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE $1"


async def is_erased(world: World, customer: Device) -> bool:
    """Return whether a customer is erased; one that is erased must be so completely."""
    (row,) = await world.stack.sql(LEFT, customer.user["id"])
    if row["erased_at"] is None:
        return False
    assert (row["phone"], row["display_name"]) == (None, None)
    return True


async def test_erasure_and_payment_at_once_have_one_outcome(world: World) -> None:
    seen = set()
    for _ in range(TIMES):
        customer = await anonymous(world)
        payment = await world.request(customer)
        erased, (_, answer) = await asyncio.gather(
            outcome(device(world, like=customer).post(ERASE, {})), world.webhook(payment)
        )
        result = answer["processing_result"]
        assert (erased, result) in {("ok", "late_payment_recorded"), ("SESSION_IN_PROGRESS", "confirmed")}
        assert await is_erased(world, customer) == (erased == "ok")
        seen.add(erased)
        if erased != "ok":
            await customer.post("/api/client/chat/cancel", {"payment_request_id": payment["payment_request_id"]})
    assert seen


async def test_erasure_during_a_search_or_an_accept_is_refused(world: World) -> None:
    mitra = await world.mitra()
    customer = await anonymous(world)
    payment = await world.paid(customer)
    others = [device(world, like=customer) for _ in range(3)]
    outcomes = await at_once(accepting(mitra, payment["session_id"]), *(one.post(ERASE, {}) for one in others))
    assert outcomes == ["ok", *["SESSION_IN_PROGRESS"] * 3]
    assert not await is_erased(world, customer)
    await finish(customer, mitra, payment["session_id"])


async def test_erasure_at_the_end_of_a_session_leaves_no_text(world: World) -> None:
    mitra = await world.mitra()
    for _ in range(TIMES):
        customer = await anonymous(world)
        session_id = await world.session(customer, mitra)
        await say(customer, session_id, "rahasia")
        await customer.post(f"/api/shared/chat/sessions/{session_id}/end")
        goodbye = {"message": "rahasia"}
        await at_once(
            say(customer, session_id, "rahasia"),
            customer.post(f"/api/shared/chat/sessions/{session_id}/closure", goodbye),
            mitra.post(f"/api/shared/chat/sessions/{session_id}/closure", goodbye),
            device(world, like=customer).post(ERASE, {}),
        )
        assert await is_erased(world, customer)
        await completed(world, customer.user["id"])
        assert (await world.stack.sql(TEXTS, session_id))[0]["n"] == 0
        rows = await world.stack.sql("SELECT message FROM session_closures WHERE session_id = $1", session_id)
        assert {row["message"] for row in rows} <= {""}


async def test_calls_of_an_erased_customer_store_nothing_more(world: World) -> None:
    for _ in range(TIMES):
        customer = await anonymous(world)
        name = {"display_name": "Kembali"}
        await at_once(
            *(device(world, like=customer).call("PATCH", "/api/client/auth/profile", name) for _ in range(3)),
            device(world, like=customer).post(ERASE, {}),
            *(device(world, like=customer).call("PATCH", "/api/client/auth/profile", name) for _ in range(3)),
            device(world, like=customer).post("/api/client/payment/requests", {"duration_minutes": 12}),
        )
        assert await is_erased(world, customer)
        customer_id = customer.user["id"]
        await completed(world, customer_id)
        pending = "SELECT 1 FROM payment_requests WHERE customer_id = $1 AND status IN ('pending', 'confirmed')"
        assert await world.stack.sql(pending, customer_id) == []
        assert await world.stack.sql("SELECT 1 FROM idempotency_keys WHERE user_id = $1", customer_id) == []
        assert await is_erased(world, customer)


async def test_sign_in_at_the_moment_of_the_erasure_never_keeps_the_erased_customer(world: World) -> None:
    for _ in range(TIMES):
        number = new_number()
        customer = await phone_customer(world, number)
        first, second = await proof(world, number), await second_proof(world, number)
        joining = await anonymous(world)
        # One right code uses up the other, so at most one of both calls succeeds.
        erased, joined = await at_once(
            customer.post(ERASE, first), joining.call("POST", "/api/client/auth/otp/verify", second)
        )
        assert (erased, joined) in {("ok", "OTP_EXPIRED"), ("OTP_EXPIRED", "ok")}
        assert await is_erased(world, customer) == (erased == "ok")
        again = device(world)
        again._keep(await by_phone(world, again, number))
        assert (again.user["id"] == customer.user["id"]) == (joined == "ok")
    check_books(await world.audit())


async def test_block_that_waits_for_an_erasure_is_404_and_leaves_no_reason(world: World) -> None:
    customer, operator = await anonymous(world), await world.operator()
    path = f"/internal/customers/{customer.user['id']}/block"
    async with world.stack.transaction() as connection:
        await connection.execute("SELECT 1 FROM customers WHERE id = $1 FOR UPDATE", customer.user["id"])
        erased = asyncio.create_task(outcome(device(world, like=customer).post(ERASE, {})))
        await waits(world, "customers")
        blocked = asyncio.create_task(outcome(operator.post(path, {"reason": "rahasia"})))
        await waits(world, "customers", 2)
    assert await asyncio.gather(erased, blocked) == ["ok", "NOT_FOUND"]
    (row,) = await world.stack.sql("SELECT * FROM customers WHERE id = $1", customer.user["id"])
    assert (row["blocked_at"], row["block_reason"]) == (None, None)


async def test_block_between_people_that_waits_for_an_erasure_is_404(world: World) -> None:
    customer, mitra = await anonymous(world), await world.mitra()
    session_id = await world.session(customer, mitra)
    await finish(customer, mitra, session_id)
    async with world.stack.transaction() as connection:
        await connection.execute("SELECT 1 FROM customers WHERE id = $1 FOR UPDATE", customer.user["id"])
        erased = asyncio.create_task(outcome(device(world, like=customer).post(ERASE, {})))
        await waits(world, "customers")
        blocked = asyncio.create_task(outcome(mitra.post(f"/api/shared/chat/sessions/{session_id}/block")))
        await waits(world, "customers", 2)
    assert await asyncio.gather(erased, blocked) == ["ok", "NOT_FOUND"]
    assert await world.stack.sql("SELECT 1 FROM blocks WHERE customer_id = $1", customer.user["id"]) == []


async def test_reports_and_notes_during_or_after_an_erasure_leave_no_text(world: World) -> None:
    mitra, operator = await world.mitra(), await world.operator()
    text, done = {"reason": "rude", "message": "rahasia"}, {"resolution": "warned", "note": "rahasia"}
    for _ in range(TIMES):
        customer = await anonymous(world)
        session_id = await world.session(customer, mitra)
        await finish(customer, mitra, session_id)
        path = f"/api/shared/chat/sessions/{session_id}/report"
        early = await customer.post(path, text)
        outcomes = await at_once(
            mitra.post(path, text),
            operator.call("PATCH", f"/internal/reports/{early['id']}", done),
            device(world, like=customer).post(ERASE, {}),
        )
        assert outcomes == ["ok"] * 3
        await completed(world, customer.user["id"])
        rows = await world.stack.sql("SELECT message, note FROM session_reports WHERE session_id = $1", session_id)
        assert [(row["message"], row["note"]) for row in rows] == [(None, None)] * 2
    session_id = await world.session(customer := await anonymous(world), mitra)
    await finish(customer, mitra, session_id)
    await customer.post(ERASE, {})
    await completed(world, customer.user["id"])
    late = await mitra.post(f"/api/shared/chat/sessions/{session_id}/report", text)
    await operator.call("PATCH", f"/internal/reports/{late['id']}", done)
    (row,) = await world.stack.sql("SELECT * FROM session_reports WHERE id = $1", late["id"])
    assert (row["reason"], row["message"], row["resolution"], row["note"]) == ("rude", None, "warned", None)


async def long_session(world: World, customer: Device, mitra: Device, count: int) -> str:
    """Create a completed session with many messages."""
    session_id = await world.session(customer, mitra)
    await finish(customer, mitra, session_id)
    async with world.stack.transaction() as connection:
        await connection.execute("SET LOCAL session_replication_role = replica")
        await connection.execute(MESSAGES, session_id, customer.user["id"], count)
        await connection.execute(
            "UPDATE chat_sessions SET last_seq = $2, customer_sent_seq = $2 WHERE id = $1", session_id, count
        )
    return session_id


async def waits(world: World, text: str, count: int = 1) -> None:
    """Wait until `count` statements with this text wait for locks."""
    await world.until(lambda: world.stack.sql(WAITING, f"%{text}%"), lambda rows: len(rows) >= count)


async def test_jobs_process_killed_in_the_middle_of_the_texts_goes_on_later(world: World) -> None:
    customer, mitra = await anonymous(world), await world.mitra()
    session_id = await long_session(world, customer, mitra, 12_000)
    hold = "SELECT 1 FROM chat_messages WHERE session_id = $1 AND seq = 8000 FOR UPDATE"
    async with world.stack.transaction() as connection:
        await connection.fetch(hold, session_id)  # in the second part
        await customer.post(ERASE, {})
        await waits(world, "SET content = ''")
        world.stack.kill("jobs")
    (left,) = await world.stack.sql(TEXTS, session_id)
    assert left["n"] == 7_000
    seen = await mitra.get(f"/api/shared/chat/sessions/{session_id}/messages")
    assert {one["content"] for one in seen["items"]} == {""}  # texts are hidden from the first moment on
    world.stack.start("jobs")
    await completed(world, customer.user["id"])
    assert (await world.stack.sql(TEXTS, session_id))[0]["n"] == 0


async def test_api_process_killed_before_the_commit_erases_nothing(world: World) -> None:
    number = new_number()
    customer = await phone_customer(world, number)
    body: dict[str, Any] = await proof(world, number)
    await world.stack.sql(VALID_FOR_LONG, body["otp_request_id"])
    async with world.stack.transaction() as connection:
        await connection.execute("SELECT 1 FROM customers WHERE id = $1 FOR UPDATE", customer.user["id"])
        call = asyncio.create_task(device(world, like=customer).post(ERASE, body))
        await waits(world, "FROM customers")
        world.stack.kill("api")
        await asyncio.gather(call, return_exceptions=True)
    world.stack.start("api")
    assert not await is_erased(world, customer)
    await customer.post(ERASE, body)  # the code was not used
    assert await is_erased(world, customer)
    await completed(world, customer.user["id"])
