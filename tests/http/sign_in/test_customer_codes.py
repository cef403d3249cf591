"""Customers request and verify phone codes, within the limits (docs/product.md#phone-codes)."""

import datetime as dt
import re
import secrets
from typing import Any

import pytest

from core.base.errors import OtpDeliveryFailed
from core.providers.http_client import HttpClient
from core.providers.otp_sender import HttpOtpSender, NumberRefused, SignInCode
from core.telemetry import metrics
from tests.http.sign_in.people import (
    ASK,
    CUSTOMER,
    MITRA_ASK,
    MITRA_VERIFY,
    TOKENS,
    VERIFY,
    all_at_once,
    ask,
    by_phone,
    count,
    device,
    forget_codes,
    new_address,
    new_number,
    raw,
    refusal,
    verify,
    wrong,
)
from tests.sockets.push.odd_provider import odd_provider, said
from tests.stack import World, new_id, refused
from tools.driving.device import Device
from tools.driving.sesi_client import Refused

pytestmark = pytest.mark.anyio


async def a_code(world: World, number: str, client: Device | None = None) -> tuple[dict[str, Any], str]:
    """Request a code; return the answer and the code that was sent."""
    asked = await ask(client or device(world), number)
    return asked, await world.stack.inbox.code_of(asked["otp_request_id"])


def refusals(answers: list[Any]) -> list[tuple[int, str]]:
    """Return status and code of the refusals, sorted."""
    return sorted((answer.status, answer.code) for answer in answers if isinstance(answer, Refused))


def successes(answers: list[Any]) -> list[Any]:
    """Return the answers that were not refusals."""
    return [answer for answer in answers if not isinstance(answer, Refused)]


async def test_request_and_verification_answers_have_the_declared_shape(world: World) -> None:
    number, client = new_number(), device(world)
    status, asked, headers = await raw(client, "POST", ASK, {"phone": number})
    assert status == 201
    assert set(asked) == {"otp_request_id", "expires_at", "resend_after_seconds"}
    assert asked["resend_after_seconds"] == 60
    assert asked["expires_at"].endswith("Z")
    life = dt.datetime.fromisoformat(asked["expires_at"]) - dt.datetime.fromisoformat(headers["X-Server-Time"])
    assert dt.timedelta(minutes=4, seconds=55) < life <= dt.timedelta(minutes=5)
    code = await world.stack.inbox.code_of(asked["otp_request_id"])
    assert re.fullmatch(r"[0-9]{6}", code)
    status, answer, _ = await raw(client, "POST", VERIFY, {"otp_request_id": asked["otp_request_id"], "code": code})
    assert (status, set(answer), set(answer["customer"])) == (200, TOKENS, CUSTOMER)
    customer = answer["customer"]
    assert (customer["phone"], customer["display_name"], customer["is_anonymous"]) == (number, None, False)
    call = next(call for call in world.stack.inbox.requests if call["otp_request_id"] == asked["otp_request_id"])
    assert (call["phone"], call["code"], call["channel"], call["ttl_seconds"]) == (number, code, "sms", 300)
    (row,) = await world.stack.sql(
        "SELECT provider_reference, channel, user_type FROM otp_requests WHERE id = $1::text::uuid",
        asked["otp_request_id"],
    )
    assert tuple(row) == (f"inbox-{asked['otp_request_id']}", "sms", "customer")


async def test_all_spellings_of_a_number_are_one_customer(world: World) -> None:
    number = new_number()
    spellings = (
        number, "0" + number[3:], f" {number[:3]} {number[3:6]} {number[6:]} ", f"{number[:3]}-{number[3:6]}-{number[6:]}",
        number.translate({ord(str(n)): chr(0xFF10 + n) for n in range(10)}), f"({number[:3]}) {number[3:]}",
        f"0062{number[3:]}", f"tel:+62 (0){number[3:]}", f"\u202a+62 0{number[3:]}\u202c", f"\uff0b62\u2013{number[3:]}",
    )  # fmt: skip
    found = set()
    for spelling in spellings:
        found.add((await by_phone_as(world, number, spelling))["customer"]["id"])
    assert len(found) == 1


async def by_phone_as(world: World, number: str, spelling: str) -> dict[str, Any]:
    """Sign in with another spelling of a number."""
    await forget_codes(world, number)
    client = device(world)
    asked, code = await a_code(world, spelling, client)
    return await verify(client, asked, code)


@pytest.mark.parametrize(
    "phone",
    ["12", "hello world", "+62", "+6281234567890123", "0812\u0000", "+1 555 0100 ext 5", "😀😀😀", "", " ", "+999123456789",
     "081204O36871", "0812OOO36871", "0812ABCDEFGH", "hp: 081234567890", "0812\u00b234567890", "0065 8123 4567",
     "0" * 41, None, 81234567890, ["+6281234567890"], {"phone": "x"}, "+14155552671", "+628091234567", "+622152903000"],
)  # fmt: skip
async def test_invalid_phone_number_is_422(world: World, phone: Any) -> None:
    status, code, error = await refusal(device(world), "POST", ASK, {"phone": phone})
    assert (status, code) == (422, "VALIDATION_ERROR")
    assert [item["field"] for item in error["details"]["fields"]] == ["phone"]


@pytest.mark.parametrize("more", [{"channel": "sms"}, {"anonymous_customer_id": new_id()}])
async def test_unknown_fields_are_422_at_both_code_routes(world: World, more: dict[str, Any]) -> None:
    for path, body in ((ASK, {"phone": new_number()}), (VERIFY, {"otp_request_id": new_id(), "code": "123456"})):
        status, code, error = await refusal(device(world), "POST", path, {**body, **more})
        assert (status, code) == (422, "VALIDATION_ERROR")
        assert [item["field"] for item in error["details"]["fields"]] == list(more)


@pytest.mark.parametrize(
    ("field", "body"),
    [
        ("code", {"code": "12345"}), ("code", {"code": "1234567"}), ("code", {"code": 123456}), ("code", {"code": None}),
        ("code", {}), ("code", {"code": "12345\0"}), ("otp_request_id", {"code": "123456", "otp_request_id": "x"}),
        ("otp_request_id", {"code": "123456", "otp_request_id": None}),
    ],
)  # fmt: skip
async def test_code_of_wrong_length_or_without_request_is_422(world: World, field: str, body: dict[str, Any]) -> None:
    status, code, error = await refusal(device(world), "POST", VERIFY, {"otp_request_id": new_id(), **body})
    assert (status, code) == (422, "VALIDATION_ERROR")
    assert [item["field"] for item in error["details"]["fields"]] == [field]


async def test_code_with_other_signs_than_digits_is_422_and_no_attempt(world: World) -> None:
    number, client = new_number(), device(world)
    asked, right = await a_code(world, number, client)
    for code in ("abcdef", "      ", "😀😀😀😀😀😀", "-12345", "''; --", "12345O", "²23456", "048 709"):
        error = await refused(verify(client, asked, code), 422, "VALIDATION_ERROR")
        assert [item["field"] for item in error["details"]["fields"]] == ["code"]
    wrong = in_digits(f"{(int(right) + 1) % 10**6:06d}", 0x660)
    assert (await refused(verify(client, asked, wrong), 400, "OTP_INVALID"))["details"] == {"attempts_remaining": 4}
    assert (await verify(client, asked, right))["customer"]["phone"] == number


@pytest.mark.parametrize("zero", [0x660, 0x966, 0xFF10, 0x1D7CE])
async def test_code_in_digits_of_any_script_signs_in(world: World, zero: int) -> None:
    number, client = new_number(), device(world)
    asked, right = await a_code(world, number, client)
    assert (await verify(client, asked, in_digits(right, zero)))["customer"]["phone"] == number


def in_digits(code: str, zero: int) -> str:
    """Write a code in the digits of another script, by the code point of its zero."""
    return "".join(chr(zero + int(digit)) for digit in code)


# -- limits


async def test_cooldown_admits_one_of_twenty_concurrent_requests(world: World) -> None:
    number = new_number()
    answers = await all_at_once([ask(device(world), number) for _ in range(20)])
    assert len(successes(answers)) == 1
    assert refusals(answers) == [(429, "OTP_COOLDOWN")] * 19
    status, code, error = await refusal(device(world), "POST", ASK, {"phone": number})
    assert (status, code) == (429, "OTP_COOLDOWN")
    assert 50 < error["retry_after_seconds"] <= 60
    # Requests as a customer and as a mitra count together, whether or not a mitra has the number.
    assert (await refusal(device(world), "POST", MITRA_ASK, {"phone": number}))[1] == "OTP_COOLDOWN"


async def test_phone_gets_three_codes_an_hour_under_concurrency(world: World) -> None:
    number = new_number()
    # The cooldown of a minute: a shorter one could pass while a busy machine serves twenty requests.
    a_minute_ago = "UPDATE otp_requests SET created_at = created_at - interval '61 seconds' WHERE phone = $1"
    for sent in range(3):
        answers = await all_at_once([ask(device(world), number, path=path) for path in (ASK, MITRA_ASK) * 10])
        assert {code for _, code in refusals(answers)} <= {"OTP_COOLDOWN", "OTP_RATE_LIMIT_PHONE"}
        assert len(successes(answers)) == 1, sent
        if sent < 2:
            await world.stack.sql(a_minute_ago, number)
    answers = await all_at_once([ask(device(world), number, path=path) for path in (ASK, MITRA_ASK) * 10])
    assert refusals(answers) == [(429, "OTP_RATE_LIMIT_PHONE")] * 20
    _, code, error = await refusal(device(world), "POST", ASK, {"phone": number})
    assert code == "OTP_RATE_LIMIT_PHONE"
    assert 3300 < error["retry_after_seconds"] <= 3600 - 2 * 61
    # An hour after the first code, one more may be sent.
    await world.stack.sql(a_minute_ago, number)
    await world.stack.sql(
        """UPDATE otp_requests SET created_at = created_at - interval '1 hour' WHERE id =
           (SELECT id FROM otp_requests WHERE phone = $1 AND NOT delivery_failed ORDER BY created_at LIMIT 1)""",
        number,
    )
    answers = await all_at_once([ask(device(world), number) for _ in range(20)])
    assert len(successes(answers)) == 1


async def test_address_gets_ten_codes_an_hour_under_concurrency(world: World) -> None:
    address = new_address()

    def at_the_address() -> Device:
        made = device(world)
        made._http.headers["X-Forwarded-For"] = f"198.51.100.7, {address}"  # the proxy added the last one
        return made

    answers = await all_at_once([ask(at_the_address(), new_number()) for _ in range(30)])
    assert len(successes(answers)) == 10
    assert refusals(answers) == [(429, "OTP_RATE_LIMIT_IP")] * 20
    _, code, error = await refusal(at_the_address(), "POST", MITRA_ASK, {"phone": new_number()})
    assert code == "OTP_RATE_LIMIT_IP"
    assert 3500 < error["retry_after_seconds"] <= 3600
    assert (await ask(device(world), new_number()))["otp_request_id"]
    (row,) = await world.stack.sql("SELECT count(*)::int AS n FROM otp_requests WHERE ip_address = $1", address)
    assert row["n"] == 10


async def test_unsent_code_does_not_count(world: World) -> None:
    number, client = new_number(), device(world)
    world.stack.inbox.fail = True
    try:
        for _ in range(4):
            await refused(ask(client, number), 502, "OTP_DELIVERY_FAILED")
    finally:
        world.stack.inbox.fail = False
    asked, code = await a_code(world, number, client)
    assert (await verify(client, asked, code))["customer"]["phone"] == number


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"<html>", b"[]", b"{}", b'{"status": false, "message": "no credit"}', b'{"reference": ""}'),
        *(b'{"reference": {"id": 7}}', b'{"reference": null}', b'{"reference": "\\u0000"}', b"[" * 100_000),
    ],
)
async def test_provider_answer_without_reference_is_a_delivery_failure(http_client: HttpClient, body: bytes) -> None:
    code = SignInCode(phone="+6281234567890", code="123456", channel="sms", otp_request_id=new_id(), ttl_seconds=300)
    async with odd_provider(said(200, body)) as (url, heard):
        with pytest.raises(OtpDeliveryFailed):
            await HttpOtpSender(http_client, url=url, token="t").send(code)
        assert len(heard) == 1  # no retry after an answer: the code may have been sent
    references = {b'"r-1"': "r-1", b"4711": "4711", b'"a\\u0000b"': "ab", b'"' + b"x" * 300 + b'"': "x" * 255}
    for written, kept in references.items():
        async with odd_provider(said(200, b'{"reference": ' + written + b"}")) as (url, _):
            assert await HttpOtpSender(http_client, url=url, token="t").send(code) == kept


async def test_unreadable_answer_about_a_code_is_counted(http_client: HttpClient) -> None:
    code = SignInCode(phone="+6281234567890", code="123456", channel="sms", otp_request_id=new_id(), ttl_seconds=300)
    labels = {"provider": "otp", "operation": "send", "reason": "unreadable"}
    count = "sesi_provider_errors_total"
    before = metrics.REGISTRY.get_sample_value(count, labels) or 0
    async with odd_provider(said(200, b"<html>")) as (url, _):
        with pytest.raises(OtpDeliveryFailed):
            await HttpOtpSender(http_client, url=url, token="t").send(code)
    assert metrics.REGISTRY.get_sample_value(count, labels) == before + 1
    async with odd_provider(said(422, b"{}")) as (url, _):
        with pytest.raises(NumberRefused):
            await HttpOtpSender(http_client, url=url, token="t").send(code)
    assert metrics.REGISTRY.get_sample_value(count, labels) == before + 1


# -- attempts


async def test_fifty_concurrent_wrong_codes_use_up_five_attempts(world: World) -> None:
    number = new_number()
    asked, code = await a_code(world, number)
    answers = await all_at_once([verify(device(world), asked, wrong(code)) for _ in range(50)])
    assert refusals(answers) == [(400, "OTP_INVALID")] * 5 + [(429, "OTP_ATTEMPTS_EXCEEDED")] * 45
    left = sorted(answer.body["error"]["details"]["attempts_remaining"] for answer in answers if answer.status == 400)
    assert left == [0, 1, 2, 3, 4]
    await refused(verify(device(world), asked, code), 429, "OTP_ATTEMPTS_EXCEEDED")
    assert await count(world, "phone = $1", number) == 0
    (row,) = await world.stack.sql(
        "SELECT attempts FROM otp_requests WHERE id = $1::text::uuid", asked["otp_request_id"]
    )
    assert row["attempts"] == 5


async def test_right_code_among_concurrent_wrong_codes_signs_in_at_most_once(world: World) -> None:
    number = new_number()
    asked, code = await a_code(world, number)
    typed = [code] * 25 + [wrong(code)] * 25
    secrets.SystemRandom().shuffle(typed)
    answers = await all_at_once([verify(device(world), asked, one) for one in typed])
    assert len(successes(answers)) <= 1
    judged = [answer for answer in refusals(answers) if answer == (400, "OTP_INVALID")]
    assert len(judged) <= 5
    assert {code for _, code in refusals(answers)} <= {"OTP_INVALID", "OTP_ATTEMPTS_EXCEEDED", "OTP_EXPIRED"}
    assert await count(world, "phone = $1", number) == len(successes(answers))


async def test_right_code_at_the_last_attempt_signs_in(world: World) -> None:
    number, client = new_number(), device(world)
    asked, code = await a_code(world, number, client)
    for left in (4, 3, 2, 1):
        error = await refused(verify(client, asked, wrong(code)), 400, "OTP_INVALID")
        assert error["details"] == {"attempts_remaining": left}
    assert (await verify(client, asked, code))["customer"]["phone"] == number
    await refused(verify(client, asked, code), 400, "OTP_EXPIRED")
    await refused(verify(client, asked, wrong(code)), 400, "OTP_EXPIRED")


async def test_code_expires_after_five_minutes(world: World) -> None:
    number, client = new_number(), device(world)
    asked, code = await a_code(world, number, client)
    await world.stack.sql(
        "UPDATE otp_requests SET created_at = created_at - interval '5 minutes', expires_at = expires_at - interval '5 minutes' WHERE id = $1::text::uuid",
        asked["otp_request_id"],
    )
    await refused(verify(client, asked, code), 400, "OTP_EXPIRED")
    assert await count(world, "phone = $1", number) == 0


async def test_newer_request_accepts_the_code_of_an_older_one_and_uses_up_both(world: World) -> None:
    operator, number = await world.operator(), new_number()
    await operator.post("/internal/mitras", {"phone": number, "display_name": "Ayu", "is_active": True})
    for asking, verifying, kind in ((ASK, VERIFY, "customer"), (MITRA_ASK, MITRA_VERIFY, "mitra")):
        await forget_codes(world, number)
        first = await ask(device(world), number, path=asking)
        code = await world.stack.inbox.code_of(first["otp_request_id"])
        await forget_codes(world, number)
        second = await ask(device(world), number, path=asking)
        newer = await world.stack.inbox.code_of(second["otp_request_id"])
        error = await refused(verify(device(world), first, newer, path=verifying), 400, "OTP_INVALID")
        assert error["details"] == {"attempts_remaining": 4}
        error = await refused(verify(device(world), second, wrong(code), path=verifying), 400, "OTP_INVALID")
        assert error["details"] == {"attempts_remaining": 3}  # the wrong code at the older request counts as well
        assert (await verify(device(world), second, code, path=verifying))[kind]["phone"] == number
        for asked, sent in ((first, code), (second, newer)):
            await refused(verify(device(world), asked, sent, path=verifying), 400, "OTP_EXPIRED")


async def test_code_is_valid_only_for_the_kind_of_user_that_requested_it(world: World) -> None:
    operator = await world.operator()
    number = new_number()
    await operator.post("/internal/mitras", {"phone": number, "display_name": "Ayu", "is_active": True})
    for ask_path, right_path, other_path, kind in (
        (ASK, VERIFY, MITRA_VERIFY, "customer"),
        (MITRA_ASK, MITRA_VERIFY, VERIFY, "mitra"),
    ):
        await forget_codes(world, number)
        client = device(world)
        asked = await ask(client, number, path=ask_path)
        code = await world.stack.inbox.code_of(asked["otp_request_id"])
        await refused(verify(client, asked, code, path=other_path), 400, "OTP_INVALID")
        assert (await verify(client, asked, code, path=right_path))[kind]["phone"] == number
    await refused(verify(device(world), {"otp_request_id": new_id()}, "123456"), 400, "OTP_INVALID")


async def test_code_appears_in_no_log_row_or_answer(world: World) -> None:
    number, client = new_number(), device(world)
    asked, code = await a_code(world, number, client)
    status, refused_body, _ = await raw(
        client, "POST", VERIFY, {"otp_request_id": asked["otp_request_id"], "code": wrong(code)}
    )
    assert status == 400
    answer = await verify(client, asked, code)
    seen = re.compile(rf"(?<![0-9a-f.+-])({code}|{wrong(code)})(?![0-9a-f])")
    (row,) = await world.stack.sql(
        "SELECT o::text AS row FROM otp_requests o WHERE id = $1::text::uuid", asked["otp_request_id"]
    )
    customer = {name: value for name, value in answer["customer"].items() if name != "created_at"}
    for text in (row["row"], str(asked), str(refused_body), str(customer), world.stack.log("api")):
        assert not seen.search(text)
    assert number not in world.stack.log("api")


async def test_known_phone_signs_the_same_customer_in(world: World) -> None:
    number = new_number()
    first = await by_phone(world, device(world), number)
    again = await by_phone(world, device(world), number)
    assert again["customer"] == first["customer"]
    assert again["refresh_token"] != first["refresh_token"]
