"""Codes for mitras: the answer reveals nothing about the number and does not wait for the provider.

No code is lost (docs/product.md#phone-codes).
"""

from typing import Any

import pytest

from tests.http.sign_in.people import (
    ASK,
    MITRA_ASK,
    MITRA_VERIFY,
    all_at_once,
    ask,
    device,
    new_number,
    raw,
    refusal,
    verify,
)
from tests.stack import World, new_id, refused

pytestmark = pytest.mark.anyio

LEFT = """INSERT INTO otp_requests (id, phone, ip_address, user_type, channel, send_due_real_at, send_attempts, created_at, expires_at)
  SELECT $1::text::uuid, $2, '10.9.9.9', 'mitra', 'sms', clock_timestamp() - interval '1 s', $3, now(), now() + interval '5 minutes'"""
ROW = "SELECT code_hash, provider_reference, send_due_real_at, send_attempts, delivery_failed FROM otp_requests WHERE id = $1::text::uuid"

# The provider did not accept it: the next attempt is due after RETRY_S, which is before a claim expires.
FAILED = """SELECT 1 FROM otp_requests WHERE id = $1::text::uuid AND code_hash IS NOT NULL
  AND send_due_real_at < clock_timestamp() + interval '10 s'"""


async def a_mitra(world: World, *, active: bool = True) -> str:
    """Create a mitra and return their number."""
    number = new_number()
    operator = await world.operator()
    await operator.post("/internal/mitras", {"phone": number, "display_name": "Ayu", "is_active": active})
    return number


async def row_of(world: World, otp_request_id: str) -> Any:
    """Return the row of a code request."""
    (row,) = await world.stack.sql(ROW, otp_request_id)
    return row


async def settled(world: World, otp_request_id: str) -> Any:
    """Return the row of a code request once no send is pending."""
    return await world.until(lambda: row_of(world, otp_request_id), lambda row: row["send_due_real_at"] is None)


def sent(world: World, otp_request_id: str) -> list[str]:
    """Return the codes that the provider received for a request."""
    return [call["code"] for call in world.stack.inbox.requests if call["otp_request_id"] == otp_request_id]


async def test_mitra_code_request_answers_before_the_provider_for_any_number(world: World) -> None:
    numbers = [await a_mitra(world), await a_mitra(world, active=False), new_number()]
    inbox = world.stack.inbox
    inbox.held.clear()
    try:
        answers = [await raw(device(world), "POST", MITRA_ASK, {"phone": number}) for number in numbers]
        assert [sent(world, answer["otp_request_id"]) for _, answer, _ in answers] == [[], [], []]
    finally:
        inbox.held.set()
    assert [status for status, _, _ in answers] == [201] * 3
    assert {frozenset(answer) for _, answer, _ in answers} == {
        frozenset({"otp_request_id", "expires_at", "resend_after_seconds"})
    }
    known, inactive, unknown = (answer["otp_request_id"] for _, answer, _ in answers)
    code = await inbox.code_of(known)
    assert (await settled(world, known))["provider_reference"] == f"inbox-{known}"
    for request_id in (inactive, unknown):
        row = await settled(world, request_id)
        assert (row["code_hash"], row["provider_reference"], sent(world, request_id)) == (None, None, [])
    assert code not in str(await row_of(world, known))


@pytest.mark.slow
async def test_failing_provider_changes_neither_answer_nor_limits(world: World) -> None:
    known, unknown = await a_mitra(world), new_number()
    world.stack.inbox.fail = True
    try:
        asked = {number: await ask(device(world), number, path=MITRA_ASK) for number in (known, unknown)}
        await world.until(lambda: world.stack.sql(FAILED, asked[known]["otp_request_id"]), bool)
        for number in (known, unknown):
            assert (await refusal(device(world), "POST", MITRA_ASK, {"phone": number}))[:2] == (429, "OTP_COOLDOWN")
    finally:
        world.stack.inbox.fail = False
    # When the provider works again, the code is sent.
    code = await world.stack.inbox.code_of(asked[known]["otp_request_id"])
    answer = await verify(device(world), asked[known], code, path=MITRA_VERIFY)
    assert answer["mitra"]["phone"] == known
    assert (await settled(world, asked[known]["otp_request_id"]))["send_attempts"] >= 2


@pytest.mark.slow
async def test_code_left_by_dead_process_is_sent_by_jobs_process(world: World) -> None:
    left = [(await a_mitra(world), new_id(), attempts) for attempts in (0, 1)]
    for number, request_id, attempts in left:
        await world.stack.sql(LEFT, request_id, number, attempts)
    for number, request_id, attempts in left:
        code = await world.stack.inbox.code_of(request_id)
        row = await settled(world, request_id)
        assert (row["send_attempts"], sent(world, request_id)) == (attempts + 1, [code])
        answer = await verify(device(world), {"otp_request_id": request_id}, code, path=MITRA_VERIFY)
        assert answer["mitra"]["phone"] == number


async def test_code_sent_twice_is_the_same_code(world: World) -> None:
    number = await a_mitra(world)
    asked = await ask(device(world), number, path=MITRA_ASK)
    request_id = asked["otp_request_id"]
    code = await world.stack.inbox.code_of(request_id)
    await settled(world, request_id)
    # As if the process had died after the provider took the code and before the row was updated.
    await world.stack.sql("UPDATE otp_requests SET send_due_real_at = now() WHERE id = $1::text::uuid", request_id)
    await settled(world, request_id)
    assert sent(world, request_id) == [code, code]
    assert (await verify(device(world), asked, code, path=MITRA_VERIFY))["mitra"]["phone"] == number


async def test_number_refused_by_provider_is_not_retried(world: World) -> None:
    number, inbox = await a_mitra(world), world.stack.inbox
    inbox.refused_numbers.add(number)
    asked = await ask(device(world), number, path=MITRA_ASK)
    row = await settled(world, asked["otp_request_id"])
    assert (row["provider_reference"], row["send_attempts"]) == (None, 1)
    assert number not in world.stack.log("api")


async def test_expired_code_is_not_sent(world: World) -> None:
    number, request_id = await a_mitra(world), new_id()
    await world.stack.sql(LEFT.replace("+ interval '5 minutes'", "- interval '1 second'"), request_id, number, 1)
    row = await settled(world, request_id)
    assert (row["code_hash"], sent(world, request_id)) == (None, [])


async def test_cooldown_of_mitra_requests_holds_for_a_customer_too(world: World) -> None:
    number = await a_mitra(world)
    answers = await all_at_once([ask(device(world), number, path=MITRA_ASK) for _ in range(20)])
    assert sum(isinstance(answer, dict) for answer in answers) == 1
    assert (await refusal(device(world), "POST", ASK, {"phone": number}))[:2] == (429, "OTP_COOLDOWN")


async def test_mitra_gets_a_code_after_the_customer_budget_is_used_up(world: World) -> None:
    number = await a_mitra(world)
    async with world.setting(otp_max_per_hour=1):
        await all_at_once([ask(device(world), new_number()) for _ in range(3)])
        await refused(ask(device(world), new_number()), 429, "OTP_BUDGET_EXCEEDED")
        asked = await ask(device(world), number, path=MITRA_ASK)
        code = await world.stack.inbox.code_of(asked["otp_request_id"])
    assert (await verify(device(world), asked, code, path=MITRA_VERIFY))["mitra"]["phone"] == number
