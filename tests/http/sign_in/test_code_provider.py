"""A provider that creates and checks the codes itself: Twilio Verify (docs/product.md#phone-codes)."""

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import attrs
import pytest

from tests.http.sign_in.outside import TwilioServer
from tests.http.sign_in.people import (
    ASK,
    CUSTOMER,
    MITRA_ASK,
    MITRA_VERIFY,
    TOKENS,
    VERIFY,
    all_at_once,
    anonymous,
    another_api,
    count,
    device,
    end_api,
    forget_codes,
    new_number,
    raw,
    refusal,
    wrong,
)
from tests.stack import Stack, World
from tools.driving.device import Device
from tools.driving.sesi_client import Refused

pytestmark = pytest.mark.anyio

TEST_NUMBER, TEST_CODE = new_number(), "135790"


@attrs.frozen
class ApiWithTwilio:
    """An api process whose codes come from Twilio Verify."""

    base: str
    twilio: TwilioServer


@pytest.fixture(scope="module")
def provided(stack: Stack) -> Iterator[ApiWithTwilio]:
    """Start the process and its provider."""
    twilio = TwilioServer()
    base = another_api(stack, "api-twilio", OTP_TEST_NUMBERS=f"{TEST_NUMBER}:{TEST_CODE}", **twilio.environment)
    yield ApiWithTwilio(base, twilio)
    twilio.released.set()
    end_api(stack, "api-twilio")
    assert twilio.SECRET not in stack.log("api-twilio")
    twilio.close()


@attrs.frozen
class SigningInPhone:
    """A phone that signs in at that process."""

    world: World
    provided: ApiWithTwilio
    number: str = attrs.field(factory=new_number)
    ask_path: str = ASK
    verify_path: str = VERIFY

    def device(self) -> Device:
        """Return a device with a new address."""
        return device(self.world, base=self.provided.base)

    async def ask(self) -> dict[str, Any]:
        """Request a code, which must succeed."""
        status, answer, _ = await raw(self.device(), "POST", self.ask_path, {"phone": self.number})
        assert status == 201, answer
        return answer

    async def refused(self) -> tuple[int, str, dict[str, Any]]:
        """Request a code, which must be refused; return status, code and error."""
        return await refusal(self.device(), "POST", self.ask_path, {"phone": self.number})

    async def type(self, asked: dict[str, Any], code: str, like: Device | None = None) -> Any:
        """Verify a code. Raises Refused."""
        client = device(self.world, like=like, base=self.provided.base)
        status, answer, headers = await raw(
            client, "POST", self.verify_path, {"otp_request_id": asked["otp_request_id"], "code": code}
        )
        if status != 200:
            assert ("Retry-After" in headers) is ("retry_after_seconds" in answer["error"])
            raise Refused(status, answer)
        return answer

    async def no(self, asked: dict[str, Any], code: str) -> tuple[int, str, Any]:
        """Verify a code, which must be refused; return status, code and details."""
        with pytest.raises(Refused) as caught:
            await self.type(asked, code)
        return caught.value.status, caught.value.code, caught.value.body["error"].get("details")

    @property
    def code(self) -> str:
        """Return the code that the provider has sent."""
        return self.provided.twilio.of(self.number).code

    @property
    def checks(self) -> int:
        """Return how often the provider was asked to check the newest verification."""
        sid = self.provided.twilio.of(self.number).sid
        return len(self.provided.twilio.asked("VerificationCheck", VerificationSid=sid))

    @property
    def sends(self) -> int:
        """Return how often the provider was asked to send."""
        return len(self.provided.twilio.asked("Verifications", To=self.number))

    async def reference(self, asked: dict[str, Any]) -> str | None:
        """Return the provider's reference once the code was sent, None before."""
        (row,) = await self.world.stack.sql(
            "SELECT provider_reference FROM otp_requests WHERE id = $1::text::uuid", asked["otp_request_id"]
        )
        return row["provider_reference"]

    async def attempts(self, asked: dict[str, Any]) -> int:
        """Return how many attempts were counted."""
        (row,) = await self.world.stack.sql(
            "SELECT attempts FROM otp_requests WHERE id = $1::text::uuid", asked["otp_request_id"]
        )
        return row["attempts"]


@pytest.fixture
def phone(world: World, provided: ApiWithTwilio) -> SigningInPhone:
    """Return a new phone."""
    return SigningInPhone(world, provided)


async def test_customer_signs_in_with_provider_code(phone: SigningInPhone) -> None:
    asked = await phone.ask()
    assert (set(asked), asked["resend_after_seconds"]) == ({"otp_request_id", "expires_at", "resend_after_seconds"}, 60)
    answer = await phone.type(asked, phone.code)
    assert (set(answer), set(answer["customer"]), answer["customer"]["phone"]) == (TOKENS, CUSTOMER, phone.number)
    (row,) = await phone.world.stack.sql(
        "SELECT provider_reference, code_hash, channel FROM otp_requests WHERE id = $1::text::uuid",
        asked["otp_request_id"],
    )
    verification = phone.provided.twilio.of(phone.number)
    assert tuple(row) == (verification.sid, None, "sms")
    # The requests that the provider received.
    twilio = phone.provided.twilio
    assert twilio.asked("Verifications", To=phone.number) == [{"To": phone.number, "Channel": "sms"}]
    assert twilio.asked("VerificationCheck", VerificationSid=verification.sid) == [
        {"VerificationSid": verification.sid, "Code": phone.code}
    ]
    for _, _, headers in twilio.calls:
        assert headers["Authorization"].startswith("Basic ")
        assert headers["Content-Type"].startswith("application/x-www-form-urlencoded")
    # The code works only once.
    assert (await phone.no(asked, phone.code))[:2] == (400, "OTP_EXPIRED")
    assert phone.checks == 1


async def test_provider_code_upgrades_anonymous_customer(phone: SigningInPhone) -> None:
    client = await anonymous(phone.world)
    answer = await phone.type(await phone.ask(), phone.code, like=client)
    assert (answer["customer"]["id"], answer["customer"]["phone"]) == (client.user["id"], phone.number)


async def test_only_active_mitras_are_sent_a_provider_code(world: World, provided: ApiWithTwilio) -> None:
    operator = await world.operator()
    known, unknown, inactive = (
        SigningInPhone(world, provided, new_number(), MITRA_ASK, MITRA_VERIFY) for _ in range(3)
    )
    for phone, active in ((known, True), (inactive, False)):
        await operator.post("/internal/mitras", {"phone": phone.number, "display_name": "Ayu", "is_active": active})
    asked = await known.ask()
    await world.until(lambda: known.reference(asked), lambda found: found is not None)
    answer = await known.type(asked, known.code)
    assert answer["mitra"]["phone"] == known.number
    for phone in (unknown, inactive):
        asked = await phone.ask()
        tries = [await phone.no(asked, "123456") for _ in range(6)]
        assert [code for _, code, _ in tries] == ["OTP_INVALID"] * 5 + ["OTP_ATTEMPTS_EXCEEDED"]
        assert [details["attempts_remaining"] for _, _, details in tries[:5]] == [4, 3, 2, 1, 0]
        assert phone.sends == 0


async def test_wrong_mitra_code_is_checked_by_provider_for_any_number(world: World, provided: ApiWithTwilio) -> None:
    operator, twilio = await world.operator(), provided.twilio
    known, unknown = (SigningInPhone(world, provided, new_number(), MITRA_ASK, MITRA_VERIFY) for _ in range(2))
    await operator.post("/internal/mitras", {"phone": known.number, "display_name": "Ayu", "is_active": True})
    for phone in (known, unknown):
        asked = await phone.ask()
        if phone is known:
            await world.until(lambda asked=asked: known.reference(asked), lambda found: found is not None)
        before = len(twilio.asked("VerificationCheck"))
        assert (await phone.no(asked, "000000"))[:2] == (400, "OTP_INVALID")
        assert len(twilio.asked("VerificationCheck")) == before + 1
        twilio.check_faults[known.number if phone is known else ""] = [500]
        assert (await phone.no(asked, "000000"))[:2] == (503, "UNAVAILABLE")
        twilio.check_faults.clear()
        assert await phone.attempts(asked) == 1


async def test_wrong_provider_codes_are_counted(phone: SigningInPhone) -> None:
    asked = await phone.ask()
    for left in (4, 3, 2, 1):
        assert await phone.no(asked, wrong(phone.code)) == (400, "OTP_INVALID", {"attempts_remaining": left})
    assert (await phone.type(asked, phone.code))["customer"]["phone"] == phone.number
    assert phone.checks == 5


async def test_provider_checks_digits_of_any_script_as_ascii_and_no_other_signs(phone: SigningInPhone) -> None:
    asked = await phone.ask()
    status, code, _ = await phone.no(asked, "abc-éf")
    assert (status, code, phone.checks, await phone.attempts(asked)) == (422, "VALIDATION_ERROR", 0, 0)
    typed = "".join(chr(0x660 + int(digit)) for digit in phone.code)
    assert (await phone.type(asked, typed))["customer"]["phone"] == phone.number
    assert phone.checks == 1


async def test_fifty_concurrent_wrong_codes_ask_provider_five_times(phone: SigningInPhone) -> None:
    asked = await phone.ask()
    answers = await all_at_once([phone.type(asked, wrong(phone.code)) for _ in range(50)])
    codes = sorted((answer.status, answer.code) for answer in answers)
    assert codes == [(400, "OTP_INVALID")] * 5 + [(429, "OTP_ATTEMPTS_EXCEEDED")] * 45
    left = sorted(answer.body["error"]["details"]["attempts_remaining"] for answer in answers if answer.status == 400)
    assert left == [0, 1, 2, 3, 4]
    assert (await phone.no(asked, phone.code))[:2] == (429, "OTP_ATTEMPTS_EXCEEDED")
    assert phone.checks == 5


async def test_concurrent_right_codes_sign_in_once(phone: SigningInPhone) -> None:
    asked = await phone.ask()
    answers = await all_at_once([phone.type(asked, phone.code) for _ in range(20)])
    assert sum(not isinstance(answer, Refused) for answer in answers) == 1
    assert {answer.code for answer in answers if isinstance(answer, Refused)} <= {
        "OTP_EXPIRED",
        "OTP_ATTEMPTS_EXCEEDED",
    }
    assert phone.checks <= 5
    assert await count(phone.world, "phone = $1", phone.number) == 1


async def test_verification_gone_at_provider_returns_otp_expired(phone: SigningInPhone) -> None:
    asked = await phone.ask()
    for status in ("expired", "canceled", "deleted"):
        phone.provided.twilio.of(phone.number).status = status
        assert (await phone.no(asked, phone.code))[:2] == (400, "OTP_EXPIRED")


async def test_code_expires_after_five_minutes_even_if_provider_accepts_it(phone: SigningInPhone) -> None:
    asked = await phone.ask()
    await phone.world.stack.sql(
        "UPDATE otp_requests SET expires_at = expires_at - interval '5 minutes' WHERE id = $1::text::uuid",
        asked["otp_request_id"],
    )
    assert (await phone.no(asked, phone.code))[:2] == (400, "OTP_EXPIRED")
    assert phone.checks == 0


async def test_verification_without_attempts_at_provider_has_none_here(phone: SigningInPhone) -> None:
    asked = await phone.ask()
    phone.provided.twilio.of(phone.number).checks = 5
    assert (await phone.no(asked, phone.code))[:2] == (429, "OTP_ATTEMPTS_EXCEEDED")


async def test_second_request_repeats_the_pending_verification(phone: SigningInPhone) -> None:
    first = await phone.ask()
    await forget_codes(phone.world, phone.number)
    second = await phone.ask()
    assert phone.sends == 2
    assert len({made.sid for made in phone.provided.twilio.by_sid.values() if made.to == phone.number}) == 1
    assert (await phone.no(first, wrong(phone.code)))[2] == {"attempts_remaining": 4}
    assert [await phone.attempts(asked) for asked in (first, second)] == [1, 1]
    phone.provided.twilio.check_faults[phone.number] = [500]  # the try is given back to both
    assert (await phone.no(second, phone.code))[1] == "UNAVAILABLE"
    phone.provided.twilio.check_faults.clear()
    assert [await phone.attempts(asked) for asked in (first, second)] == [1, 1]
    assert (await phone.type(second, phone.code))["customer"]["phone"] == phone.number
    assert (await phone.no(first, phone.code))[:2] == (400, "OTP_EXPIRED")


@pytest.mark.parametrize(
    "fault",
    [
        "pending",
        "expired",
        "canceled",
        "deleted",
        "approved",
        "checks",
        "replaced",
        (404, 20404),
        (429, 60202),
        500,
        0,
        b'{"status": "max_attempts_reached"}',
        b'{"status": "expired"}',
    ],
)
async def test_wrong_mitra_code_has_one_answer_for_known_and_unknown_numbers(
    world: World, provided: ApiWithTwilio, fault: Any
) -> None:
    operator, twilio = await world.operator(), provided.twilio
    known, unknown = (SigningInPhone(world, provided, new_number(), MITRA_ASK, MITRA_VERIFY) for _ in range(2))
    await operator.post("/internal/mitras", {"phone": known.number, "display_name": "Ayu", "is_active": True})
    seen: list[list[Any]] = []
    for phone in (known, unknown):
        asked = await phone.ask()
        code = "123456"
        if phone is known:
            await world.until(lambda asked=asked: known.reference(asked), lambda found: found is not None)
            verification = twilio.of(known.number)
            code = wrong(known.code)
            if fault == "checks":
                verification.checks = twilio.MAX_CHECKS
            elif fault != "replaced" and isinstance(fault, str):
                verification.status = fault
        if not isinstance(fault, str):
            twilio.check_faults[known.number if phone is known else ""] = [fault]
        before, answers = len(twilio.asked("VerificationCheck")), []
        for _ in range(6):
            if fault == "replaced":  # a service whose provider was replaced
                body = {"otp_request_id": asked["otp_request_id"], "code": code}
                status, answer, _ = await raw(device(world), "POST", MITRA_VERIFY, body)
                answers.append((status, answer["error"]["code"], answer["error"].get("details")))
            else:
                answers.append(await phone.no(asked, code))
        twilio.check_faults.clear()
        seen.append([*answers, len(twilio.asked("VerificationCheck")) - before, await phone.attempts(asked)])
    assert seen[0] == seen[1]


# -- failures


@attrs.define
class KilledApi:
    """A second api process with the same provider, killed after the provider took a code and before it answered."""

    phone: SigningInPhone

    async def ask(self) -> dict[str, Any]:
        """Request a code and kill the process; return the request's row in the shape of an answer."""
        world, twilio, number = self.phone.world, self.phone.provided.twilio, self.phone.number
        base = another_api(world.stack, "api-dying", **twilio.environment)
        twilio.send_faults[number] = ["sent"]
        try:
            client = device(world, base=base)
            call = asyncio.create_task(raw(client, "POST", self.phone.ask_path, {"phone": number}))

            async def verifications() -> int:
                return sum(made.to == number for made in twilio.by_sid.values())

            await world.until(verifications, lambda found: found == 1)
        finally:
            world.stack.kill("api-dying")
            del world.stack.processes["api-dying"]
            twilio.send_faults.clear()
        await asyncio.gather(call, return_exceptions=True)
        (row,) = await world.stack.sql(
            "SELECT id::text AS otp_request_id, provider_reference FROM otp_requests WHERE phone = $1", number
        )
        assert row["provider_reference"] is None
        return dict(row)


@pytest.mark.slow
async def test_code_sent_by_a_killed_process_signs_the_mitra_in_and_uses_up_no_try(
    world: World, provided: ApiWithTwilio
) -> None:
    phone = SigningInPhone(world, provided, new_number(), MITRA_ASK, MITRA_VERIFY)
    operator = await world.operator()
    await operator.post("/internal/mitras", {"phone": phone.number, "display_name": "Ayu", "is_active": True})
    asked = await KilledApi(phone).ask()
    # The answer stays "wrong code": a different one would reveal that the number belongs to a mitra.
    assert await phone.no(asked, wrong(phone.code)) == (400, "OTP_INVALID", {"attempts_remaining": 4})
    assert (await phone.type(asked, phone.code))["mitra"]["phone"] == phone.number
    (row,) = await world.stack.sql(
        "SELECT attempts, send_due_real_at FROM otp_requests WHERE id = $1::text::uuid", asked["otp_request_id"]
    )
    assert row["send_due_real_at"] is None  # no second code for a mitra who is signed in
    assert (await phone.no(asked, phone.code))[:2] == (400, "OTP_EXPIRED")


@pytest.mark.slow
async def test_code_sent_by_a_killed_process_signs_the_customer_in(phone: SigningInPhone) -> None:
    asked = await KilledApi(phone).ask()
    assert await phone.no(asked, wrong(phone.code)) == (400, "OTP_INVALID", {"attempts_remaining": 4})
    assert (await phone.type(asked, phone.code))["customer"]["phone"] == phone.number


@pytest.mark.slow
async def test_customer_asks_again_after_a_process_was_killed_before_sending(phone: SigningInPhone) -> None:
    await KilledApi(phone).ask()
    phone.provided.twilio.by_sid.pop(phone.provided.twilio.of(phone.number).sid)  # as if the request had never arrived
    await phone.world.stack.sql(
        "UPDATE otp_requests SET created_at = created_at - interval '61 s' WHERE phone = $1", phone.number
    )
    assert (await phone.type(await phone.ask(), phone.code))["customer"]["phone"] == phone.number


@pytest.mark.parametrize("fault", [500, 503, (429, 20429), 0, b"<html>", b"[]", b"{}", b'{"status": 5}', b"\xff"])
async def test_failed_check_is_503_and_returns_the_attempt(phone: SigningInPhone, fault: Any) -> None:
    asked = await phone.ask()
    phone.provided.twilio.check_faults[phone.number] = [fault] * 6 + [None]
    for _ in range(6):
        status, code, _ = await phone.no(asked, phone.code)
        assert (status, code) == (503, "UNAVAILABLE")
    assert await phone.attempts(asked) == 0
    assert phone.checks == 6  # no retry: a second check could count as a second attempt
    assert (await phone.type(asked, phone.code))["customer"]["phone"] == phone.number


@pytest.mark.parametrize(
    ("fault", "calls"),
    [(500, 2), (503, 2), ((429, 60203), 1), ((400, 60200), 1), ((401, 20003), 1), ((400, []), 1), (0, 2),
     (b"<html>", 1), (b"[]", 1), (b'{"sid": 5}', 1), (b'{"sid": ""}', 1), (302, 1)],
)  # fmt: skip
async def test_code_not_sent_by_provider_is_502_and_does_not_count(
    phone: SigningInPhone, fault: Any, calls: int
) -> None:
    phone.provided.twilio.send_faults[phone.number] = [fault]
    for n in range(4):
        assert (await phone.refused())[:2] == (502, "OTP_DELIVERY_FAILED")
        assert phone.sends == calls * (n + 1)
    phone.provided.twilio.send_faults.clear()
    assert (await phone.type(await phone.ask(), phone.code))["customer"]["phone"] == phone.number


async def test_single_failure_while_sending_is_retried(phone: SigningInPhone) -> None:
    phone.provided.twilio.send_faults[phone.number] = [500, None]
    asked = await phone.ask()
    assert phone.sends == 2
    assert (await phone.type(asked, phone.code))["customer"]["phone"] == phone.number


@pytest.mark.slow
async def test_silent_provider_times_out_after_five_seconds(world: World, provided: ApiWithTwilio) -> None:
    sending, checking, other = (SigningInPhone(world, provided) for _ in range(3))
    asked = await checking.ask()
    provided.twilio.send_faults[sending.number] = ["late"]
    provided.twilio.check_faults[checking.number] = ["late", None]

    async def took(call: Any) -> tuple[tuple[int, str], float]:
        started = time.monotonic()
        found = await call
        return found[:2], time.monotonic() - started

    async with asyncio.TaskGroup() as group:
        send = group.create_task(took(sending.refused()))
        check = group.create_task(took(checking.no(asked, checking.code)))
        # Other requests do not wait for these: no transaction and no lock is held during the call.
        assert (await other.type(await other.ask(), other.code))["customer"]["phone"] == other.number
        assert (await sending.refused())[:2] == (429, "OTP_COOLDOWN")
    assert send.result()[0] == (502, "OTP_DELIVERY_FAILED")
    assert check.result()[0] == (503, "UNAVAILABLE")
    assert 10 <= send.result()[1] < 15
    assert 5 <= check.result()[1] < 10
    provided.twilio.send_faults.clear()
    assert await checking.attempts(asked) == 0
    assert (await checking.type(asked, checking.code))["customer"]["phone"] == checking.number
    assert (await sending.type(await sending.ask(), sending.code))["customer"]["phone"] == sending.number


async def test_code_of_previous_provider_still_verifies(world: World, provided: ApiWithTwilio) -> None:
    """Check that codes stay valid if the provider setting changes: each is checked by the provider that sent it."""
    phone = SigningInPhone(world, provided)
    ours = await raw(device(world), "POST", ASK, {"phone": phone.number})
    code = await world.stack.inbox.code_of(ours[1]["otp_request_id"])
    assert (await phone.type(ours[1], code))["customer"]["phone"] == phone.number
    theirs = SigningInPhone(world, provided)
    asked = await theirs.ask()
    body = {"otp_request_id": asked["otp_request_id"], "code": theirs.code}
    assert (await refusal(device(world), "POST", VERIFY, body))[:2] == (400, "OTP_EXPIRED")


async def test_code_of_a_test_number_is_neither_sent_nor_checked_by_the_provider(
    world: World, provided: ApiWithTwilio
) -> None:
    phone = SigningInPhone(world, provided, TEST_NUMBER)
    asked = await phone.ask()
    assert (await phone.no(asked, wrong(TEST_CODE)))[1] == "OTP_INVALID"
    assert (await phone.type(asked, TEST_CODE))["customer"]["phone"] == TEST_NUMBER
    assert phone.sends == 0
    assert provided.twilio.asked("VerificationCheck", To=TEST_NUMBER) == []
