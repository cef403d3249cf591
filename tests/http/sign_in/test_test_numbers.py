"""Test numbers: sign-in with a fixed code, without the provider and with the same limits (docs/product.md#test-numbers)."""

import json
from collections.abc import Iterator
from typing import Any

import attrs
import pytest

from tests.http.sign_in.people import (
    MITRA_ASK,
    MITRA_VERIFY,
    another_api,
    ask,
    device,
    end_api,
    forget_codes,
    new_number,
    refusal,
    verify,
    wrong,
)
from tests.stack import Stack, World, refused

pytestmark = pytest.mark.anyio

CODE = "135790"
API = "test-numbers"


@attrs.frozen
class Numbers:
    """An api process's address, and its numbers: with a day to come, without a day, and with a day in the past."""

    base: str
    dated: str
    undated: str
    expired: str


@pytest.fixture(scope="module")
def numbers(stack: Stack) -> Iterator[Numbers]:
    """Run an api process with test numbers."""
    dated, undated, expired = new_number(), new_number(), new_number()
    entries = f"{dated}:{CODE}:2999-12-31,{undated}:{CODE},{expired}:{CODE}:2020-01-31"
    yield Numbers(another_api(stack, API, OTP_TEST_NUMBERS=entries), dated, undated, expired)
    end_api(stack, API)


def codes_sent(world: World, asked: dict[str, Any]) -> list[str]:
    """Return the codes that the provider got for a request."""
    return [call["code"] for call in world.stack.inbox.requests if call["otp_request_id"] == asked["otp_request_id"]]


def lines(world: World, event: str) -> list[dict[str, Any]]:
    """Return the lines of the process's log about an event."""
    found = [json.loads(line) for line in world.stack.log(API).splitlines() if line.startswith("{")]
    return [line for line in found if line["event"] == event]


async def test_customer_signs_in_with_a_fixed_code(world: World, numbers: Numbers) -> None:
    client = device(world, base=numbers.base)
    for number in (numbers.dated, numbers.undated):
        await forget_codes(world, number)
        asked = await ask(client, number)
        answer = await verify(client, asked, CODE)
        assert answer["customer"]["phone"] == number
        assert codes_sent(world, asked) == []
        requested, used = (
            lines(world, "code requested for a test number")[-1],
            lines(world, "sign-in with the fixed code of a test number")[-1],
        )
        assert requested["otp_request_id"] == used["otp_request_id"] == asked["otp_request_id"]
        assert number not in world.stack.log(API)
        assert CODE not in world.stack.log(API)


async def test_mitra_signs_in_with_a_fixed_code_at_once(world: World, numbers: Numbers) -> None:
    operator = await world.operator()
    made = await operator.post("/internal/mitras", {"phone": numbers.dated, "display_name": "Ayu", "is_active": True})
    client = device(world, base=numbers.base)
    await forget_codes(world, numbers.dated)
    asked = await ask(client, numbers.dated, path=MITRA_ASK)
    answer = await verify(client, asked, CODE, path=MITRA_VERIFY)
    assert answer["mitra"]["id"] == made["id"]
    assert codes_sent(world, asked) == []


async def test_fixed_code_signs_in_no_mitra_who_does_not_exist(world: World, numbers: Numbers) -> None:
    client = device(world, base=numbers.base)
    await forget_codes(world, numbers.undated)
    asked = await ask(client, numbers.undated, path=MITRA_ASK)
    await refused(verify(client, asked, CODE, path=MITRA_VERIFY), 400, "OTP_INVALID")


async def test_test_number_has_the_same_limits(world: World, numbers: Numbers) -> None:
    client = device(world, base=numbers.base)
    await forget_codes(world, numbers.dated)
    asked = await ask(client, numbers.dated)
    error = await refused(ask(client, numbers.dated), 429, "OTP_COOLDOWN")
    assert 0 < error["retry_after_seconds"] <= 60
    for left in (4, 3, 2, 1, 0):
        error = await refused(verify(client, asked, wrong(CODE)), 400, "OTP_INVALID")
        assert error["details"]["attempts_remaining"] == left
    await refused(verify(client, asked, CODE), 429, "OTP_ATTEMPTS_EXCEEDED")
    move = "UPDATE otp_requests SET created_at = created_at - interval '2 minutes' WHERE phone = $1"
    for _ in range(2):
        await world.stack.sql(move, numbers.dated)
        await ask(client, numbers.dated)
    await world.stack.sql(move, numbers.dated)
    await refused(ask(client, numbers.dated), 429, "OTP_RATE_LIMIT_PHONE")
    await forget_codes(world, numbers.dated)


async def test_fixed_code_works_once(world: World, numbers: Numbers) -> None:
    client = device(world, base=numbers.base)
    await forget_codes(world, numbers.undated)
    asked = await ask(client, numbers.undated)
    await verify(client, asked, CODE)
    assert (await refusal(device(world, base=numbers.base), "POST", "/api/client/auth/otp/verify",
        {"otp_request_id": asked["otp_request_id"], "code": CODE}))[1] == "OTP_EXPIRED"  # fmt: skip


async def test_expired_test_number_gets_a_code_from_the_provider(world: World, numbers: Numbers) -> None:
    client = device(world, base=numbers.base)
    asked = await ask(client, numbers.expired)
    (code,) = codes_sent(world, asked)
    assert code != CODE
    await refused(verify(client, asked, CODE), 400, "OTP_INVALID")
    assert (await verify(client, asked, code))["customer"]["phone"] == numbers.expired


async def test_start_logs_how_many_numbers_work_and_which_have_expired(world: World, numbers: Numbers) -> None:
    (working,) = lines(world, "test numbers have fixed codes")
    assert working["numbers"] == 2
    (expired,) = lines(world, "the code of a test number no longer works: remove it from OTP_TEST_NUMBERS")
    assert expired["last_day"] == "2020-01-31"
    assert numbers.expired not in world.stack.log(API)
