"""A provider that makes and judges the codes itself: Twilio Verify (providers.md, P4; contract 3 and 7)."""

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import attrs
import pytest

from tests.accounts.outside import TwilioServer
from tests.accounts.people import (
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
from tools.client import Client, Refused

pytestmark = pytest.mark.anyio


@attrs.frozen
class Provided:
    """An api process whose codes come from Twilio Verify."""

    base: str
    twilio: TwilioServer


@pytest.fixture(scope="module")
def provided(account_stack: Stack) -> Iterator[Provided]:
    """The process and its provider."""
    twilio = TwilioServer()
    base = another_api(account_stack, "api-twilio", **twilio.environment)
    yield Provided(base, twilio)
    twilio.released.set()
    end_api(account_stack, "api-twilio")
    assert twilio.SECRET not in account_stack.log("api-twilio")
    twilio.close()


@attrs.frozen
class Phone:
    """A phone at that process."""

    world: World
    provided: Provided
    number: str = attrs.field(factory=new_number)
    ask_path: str = ASK
    verify_path: str = VERIFY

    def device(self) -> Client:
        """A device at an address of its own."""
        return device(self.world, base=self.provided.base)

    async def ask(self) -> dict[str, Any]:
        """Ask for a code, successfully."""
        status, answer, _ = await raw(self.device(), "POST", self.ask_path, {"phone": self.number})
        assert status == 201, answer
        return answer

    async def refused(self) -> tuple[int, str, dict[str, Any]]:
        """Ask for a code, in vain."""
        return await refusal(self.device(), "POST", self.ask_path, {"phone": self.number})

    async def type(self, asked: dict[str, Any], code: str, like: Client | None = None) -> Any:
        """Try a code. Raises Refused."""
        client = device(self.world, like=like, base=self.provided.base)
        status, answer, headers = await raw(
            client, "POST", self.verify_path, {"otp_request_id": asked["otp_request_id"], "code": code}
        )
        if status != 200:
            assert ("Retry-After" in headers) is ("retry_after_seconds" in answer["error"])
            raise Refused(status, answer)
        return answer

    async def no(self, asked: dict[str, Any], code: str) -> tuple[int, str, Any]:
        """Try a code, in vain."""
        with pytest.raises(Refused) as caught:
            await self.type(asked, code)
        return caught.value.status, caught.value.code, caught.value.body["error"].get("details")

    @property
    def code(self) -> str:
        """What the provider has sent."""
        return self.provided.twilio.of(self.number).code

    @property
    def checks(self) -> int:
        """How often the provider was asked about the newest verification."""
        sid = self.provided.twilio.of(self.number).sid
        return len(self.provided.twilio.asked("VerificationCheck", VerificationSid=sid))

    @property
    def sends(self) -> int:
        """How often the provider was asked to send."""
        return len(self.provided.twilio.asked("Verifications", To=self.number))

    async def reference(self, asked: dict[str, Any]) -> str | None:
        """The provider's reference, once the code was sent."""
        (row,) = await self.world.stack.sql(
            "SELECT provider_reference FROM otp_requests WHERE id = $1::text::uuid", asked["otp_request_id"]
        )
        return row["provider_reference"]

    async def attempts(self, asked: dict[str, Any]) -> int:
        """The tries that were counted."""
        (row,) = await self.world.stack.sql(
            "SELECT attempts FROM otp_requests WHERE id = $1::text::uuid", asked["otp_request_id"]
        )
        return row["attempts"]


@pytest.fixture
def phone(world: World, provided: Provided) -> Phone:
    """A new phone."""
    return Phone(world, provided)


async def test_a_customer_signs_in_with_the_providers_code(phone: Phone) -> None:
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
    # What went over the wire.
    twilio = phone.provided.twilio
    assert twilio.asked("Verifications", To=phone.number) == [{"To": phone.number, "Channel": "sms"}]
    assert twilio.asked("VerificationCheck", VerificationSid=verification.sid) == [
        {"VerificationSid": verification.sid, "Code": phone.code}
    ]
    for _, _, headers in twilio.calls:
        assert headers["Authorization"].startswith("Basic ")
        assert headers["Content-Type"].startswith("application/x-www-form-urlencoded")
    # Once.
    assert (await phone.no(asked, phone.code))[:2] == (400, "OTP_EXPIRED")
    assert phone.checks == 1


async def test_an_anonymous_customer_is_upgraded_by_the_providers_code(phone: Phone) -> None:
    client = await anonymous(phone.world)
    answer = await phone.type(await phone.ask(), phone.code, like=client)
    assert (answer["customer"]["id"], answer["customer"]["phone"]) == (client.user["id"], phone.number)


async def test_a_known_mitra_signs_in_and_nobody_else_is_ever_sent_anything(world: World, provided: Provided) -> None:
    operator = await world.operator()
    known, unknown, inactive = (Phone(world, provided, new_number(), MITRA_ASK, MITRA_VERIFY) for _ in range(3))
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


async def test_a_wrong_mitra_code_asks_the_provider_whether_the_number_is_known_or_not(
    world: World, provided: Provided
) -> None:
    operator, twilio = await world.operator(), provided.twilio
    known, unknown = (Phone(world, provided, new_number(), MITRA_ASK, MITRA_VERIFY) for _ in range(2))
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


async def test_wrong_codes_are_counted(phone: Phone) -> None:
    asked = await phone.ask()
    for left in (4, 3, 2, 1):
        assert await phone.no(asked, wrong(phone.code)) == (400, "OTP_INVALID", {"attempts_remaining": left})
    assert (await phone.type(asked, phone.code))["customer"]["phone"] == phone.number
    assert phone.checks == 5


async def test_what_is_no_number_is_wrong_without_the_providers_word(phone: Phone) -> None:
    asked = await phone.ask()
    assert await phone.no(asked, "abc-éf") == (400, "OTP_INVALID", {"attempts_remaining": 4})
    assert await phone.no(asked, "١٢٣٤٥٦") == (400, "OTP_INVALID", {"attempts_remaining": 3})
    assert (phone.checks, await phone.attempts(asked)) == (0, 2)


async def test_fifty_wrong_codes_at_once_ask_the_provider_five_times(phone: Phone) -> None:
    asked = await phone.ask()
    answers = await all_at_once([phone.type(asked, wrong(phone.code)) for _ in range(50)])
    codes = sorted((answer.status, answer.code) for answer in answers)
    assert codes == [(400, "OTP_INVALID")] * 5 + [(429, "OTP_ATTEMPTS_EXCEEDED")] * 45
    left = sorted(answer.body["error"]["details"]["attempts_remaining"] for answer in answers if answer.status == 400)
    assert left == [0, 1, 2, 3, 4]
    assert (await phone.no(asked, phone.code))[:2] == (429, "OTP_ATTEMPTS_EXCEEDED")
    assert phone.checks == 5


async def test_the_right_code_many_times_at_once_signs_in_once(phone: Phone) -> None:
    asked = await phone.ask()
    answers = await all_at_once([phone.type(asked, phone.code) for _ in range(20)])
    assert sum(not isinstance(answer, Refused) for answer in answers) == 1
    assert {answer.code for answer in answers if isinstance(answer, Refused)} <= {
        "OTP_EXPIRED",
        "OTP_ATTEMPTS_EXCEEDED",
    }
    assert phone.checks <= 5
    assert await count(phone.world, "phone = $1", phone.number) == 1


async def test_what_is_gone_there_is_expired_here(phone: Phone) -> None:
    asked = await phone.ask()
    for status in ("expired", "canceled", "deleted"):
        phone.provided.twilio.of(phone.number).status = status
        assert (await phone.no(asked, phone.code))[:2] == (400, "OTP_EXPIRED")


async def test_our_own_five_minutes_count_too(phone: Phone) -> None:
    asked = await phone.ask()
    await phone.world.stack.sql(
        "UPDATE otp_requests SET expires_at = expires_at - interval '5 minutes' WHERE id = $1::text::uuid",
        asked["otp_request_id"],
    )
    assert (await phone.no(asked, phone.code))[:2] == (400, "OTP_EXPIRED")
    assert phone.checks == 0


async def test_a_verification_without_tries_there_has_none_here(phone: Phone) -> None:
    asked = await phone.ask()
    phone.provided.twilio.of(phone.number).checks = 5
    assert (await phone.no(asked, phone.code))[:2] == (429, "OTP_ATTEMPTS_EXCEEDED")


async def test_asking_again_while_it_is_pending_repeats_the_verification(phone: Phone) -> None:
    first = await phone.ask()
    await forget_codes(phone.world, phone.number)
    second = await phone.ask()
    assert phone.sends == 2
    assert len({made.sid for made in phone.provided.twilio.by_sid.values() if made.to == phone.number}) == 1
    assert (await phone.no(first, wrong(phone.code)))[2] == {"attempts_remaining": 4}
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
    world: World, provided: Provided, fault: Any
) -> None:
    operator, twilio = await world.operator(), provided.twilio
    known, unknown = (Phone(world, provided, new_number(), MITRA_ASK, MITRA_VERIFY) for _ in range(2))
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
            if fault == "replaced":  # a service whose sender is another one now
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
class Dying:
    """A second api process with the same provider, which is killed while the provider has a code and has not answered."""

    phone: Phone

    async def ask(self) -> dict[str, Any]:
        """Ask for a code and kill the process; return the request's row as an answer to go on with."""
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


async def test_code_sent_by_a_killed_process_signs_the_mitra_in_and_uses_up_no_try(
    world: World, provided: Provided
) -> None:
    phone = Phone(world, provided, new_number(), MITRA_ASK, MITRA_VERIFY)
    operator = await world.operator()
    await operator.post("/internal/mitras", {"phone": phone.number, "display_name": "Ayu", "is_active": True})
    asked = await Dying(phone).ask()
    # A wrong code is wrong as ever: an answer of its own would tell that the number is a mitra's.
    assert await phone.no(asked, wrong(phone.code)) == (400, "OTP_INVALID", {"attempts_remaining": 4})
    assert (await phone.type(asked, phone.code))["mitra"]["phone"] == phone.number
    (row,) = await world.stack.sql(
        "SELECT attempts, send_due_real_at FROM otp_requests WHERE id = $1::text::uuid", asked["otp_request_id"]
    )
    assert row["send_due_real_at"] is None  # no second code for a mitra who is signed in
    assert (await phone.no(asked, phone.code))[:2] == (400, "OTP_EXPIRED")


async def test_code_sent_by_a_killed_process_signs_the_customer_in(phone: Phone) -> None:
    asked = await Dying(phone).ask()
    assert await phone.no(asked, wrong(phone.code)) == (400, "OTP_INVALID", {"attempts_remaining": 4})
    assert (await phone.type(asked, phone.code))["customer"]["phone"] == phone.number


async def test_customer_asks_again_after_a_process_was_killed_before_sending(phone: Phone) -> None:
    await Dying(phone).ask()
    phone.provided.twilio.by_sid.pop(phone.provided.twilio.of(phone.number).sid)  # as if it had never got there
    await phone.world.stack.sql(
        "UPDATE otp_requests SET created_at = created_at - interval '61 s' WHERE phone = $1", phone.number
    )
    assert (await phone.type(await phone.ask(), phone.code))["customer"]["phone"] == phone.number


@pytest.mark.parametrize("fault", [500, 503, (429, 20429), 0, b"<html>", b"[]", b"{}", b'{"status": 5}', b"\xff"])
async def test_a_check_that_nobody_judged_is_503_and_gives_the_try_back(phone: Phone, fault: Any) -> None:
    asked = await phone.ask()
    phone.provided.twilio.check_faults[phone.number] = [fault] * 6 + [None]
    for _ in range(6):
        status, code, _ = await phone.no(asked, phone.code)
        assert (status, code) == (503, "UNAVAILABLE")
    assert await phone.attempts(asked) == 0
    assert phone.checks == 6  # a second question could be a second try, so there is none
    assert (await phone.type(asked, phone.code))["customer"]["phone"] == phone.number


@pytest.mark.parametrize(
    ("fault", "calls"),
    [(500, 2), (503, 2), ((429, 60203), 1), ((400, 60200), 1), ((401, 20003), 1), (0, 2), (b"<html>", 1), (b"[]", 1),
     (b'{"sid": 5}', 1), (b'{"sid": ""}', 1), (302, 1)],
)  # fmt: skip
async def test_a_code_that_the_provider_did_not_send_is_502_and_does_not_count(
    phone: Phone, fault: Any, calls: int
) -> None:
    phone.provided.twilio.send_faults[phone.number] = [fault]
    for n in range(4):
        assert (await phone.refused())[:2] == (502, "OTP_DELIVERY_FAILED")
        assert phone.sends == calls * (n + 1)
    phone.provided.twilio.send_faults.clear()
    assert (await phone.type(await phone.ask(), phone.code))["customer"]["phone"] == phone.number


async def test_one_passing_failure_at_sending_is_not_seen(phone: Phone) -> None:
    phone.provided.twilio.send_faults[phone.number] = [500, None]
    asked = await phone.ask()
    assert phone.sends == 2
    assert (await phone.type(asked, phone.code))["customer"]["phone"] == phone.number


async def test_a_provider_that_says_nothing_is_waited_for_five_seconds(world: World, provided: Provided) -> None:
    sending, checking, other = (Phone(world, provided) for _ in range(3))
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
        # Nobody else waits with them: no transaction and no lock is held meanwhile.
        assert (await other.type(await other.ask(), other.code))["customer"]["phone"] == other.number
        assert (await sending.refused())[:2] == (429, "OTP_COOLDOWN")
    assert send.result()[0] == (502, "OTP_DELIVERY_FAILED")
    assert check.result()[0] == (503, "UNAVAILABLE")
    assert 10 <= send.result()[1] < 12
    assert 5 <= check.result()[1] < 7
    provided.twilio.send_faults.clear()
    assert await checking.attempts(asked) == 0
    assert (await checking.type(asked, checking.code))["customer"]["phone"] == checking.number
    assert (await sending.type(await sending.ask(), sending.code))["customer"]["phone"] == sending.number


async def test_a_request_of_another_sender_is_still_judged(world: World, provided: Provided) -> None:
    """The setting changed while codes were under way: ours are judged by us, the provider's can't be any more."""
    phone = Phone(world, provided)
    ours = await raw(device(world), "POST", ASK, {"phone": phone.number})
    code = await world.stack.inbox.code_of(ours[1]["otp_request_id"])
    assert (await phone.type(ours[1], code))["customer"]["phone"] == phone.number
    theirs = Phone(world, provided)
    asked = await theirs.ask()
    body = {"otp_request_id": asked["otp_request_id"], "code": theirs.code}
    assert (await refusal(device(world), "POST", VERIFY, body))[:2] == (400, "OTP_EXPIRED")
