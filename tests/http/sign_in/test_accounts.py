"""Sign-in and sign-out of customers, mitras and operators; the validity of tokens (docs/product.md#accounts)."""

import asyncio
import base64
import datetime as dt
import json
import secrets
from typing import Any

import jwt
import pytest

from tests.stack import EMAIL, PASSWORD, World, new_id, refused, within
from tools.driving.sesi_client import Refused

pytestmark = pytest.mark.anyio

TOKENS = {"access_token", "refresh_token", "token_type", "expires_in"}
CUSTOMER = {
    "id", "phone", "display_name", "is_anonymous", "identities", "email", "push_enabled", "account_belongs_to", "usp_seen",
    "created_at",
}  # fmt: skip
ASK, VERIFY = "/api/mitra/auth/otp/request", "/api/mitra/auth/otp/verify"
REFRESH = "/api/shared/auth/refresh"


async def outcomes(calls: list[Any]) -> list[tuple[int, Any]]:
    """Run all calls concurrently; return each one's status and its answer or error."""

    async def one(call: Any) -> tuple[int, Any]:
        try:
            return 200, await call
        except Refused as no:
            return no.status, no.body["error"]

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(call)) for call in calls]
    return [task.result() for task in tasks]


def claims(token: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a JWT's header and claims, unverified."""
    parts = [json.loads(base64.urlsafe_b64decode(part + "==")) for part in token.split(".")[:2]]
    return parts[0], parts[1]


def signed(world: World, token: str | None, *, how: dict[str, Any] | None = None, **change: Any) -> str:
    """Return `token` with some claims changed, signed with the service's key.

    The value None removes a claim. `how` replaces arguments of the signature.
    """
    key = world.stack.env["JWT_SECRETS"].partition(":")[2]
    how = {"key": key, "algorithm": "HS256", "kid": "test", **(how or {})}
    body = {name: value for name, value in {**claims(token or "")[1], **change}.items() if value is not None}
    raw = json.dumps(body).encode()  # PyJWT would correct or refuse some of them
    headers = {} if how["kid"] is None else {"kid": how["kid"]}
    return jwt.api_jws.encode(raw, how["key"], algorithm=how["algorithm"], headers=headers)


# -- customers


async def test_anonymous_sign_in_returns_tokens_and_a_customer_without_name(world: World) -> None:
    answer = await world.client().post("/api/shared/auth/anonymous")
    assert set(answer) == TOKENS | {"customer"}
    assert (answer["token_type"], answer["expires_in"]) == ("Bearer", 900)
    customer = answer["customer"]
    assert set(customer) == CUSTOMER
    assert (customer["is_anonymous"], customer["display_name"], customer["phone"]) == (True, None, None)
    header, said = claims(answer["access_token"])
    assert (header["alg"], header["kid"]) == ("HS256", "test")
    assert set(said) == {"sub", "typ", "sid", "aud", "iat", "exp", "jti", "newcomer"}
    assert (said["sub"], said["typ"], said["aud"]) == (customer["id"], "customer", "public")
    assert said["exp"] - said["iat"] == 900


async def test_me_returns_the_caller(world: World) -> None:
    customer, mitra = await world.customer("Dewi"), await world.mitra("Ayu", online=False)
    me = await customer.get("/api/client/auth/me")
    assert (set(me), me["id"], me["display_name"]) == (CUSTOMER, customer.user["id"], "Dewi")
    assert (await mitra.get("/api/mitra/auth/me"))["id"] == mitra.user["id"]
    await refused(mitra.get("/api/client/auth/me"), 403, "FORBIDDEN")
    await refused(customer.get("/api/mitra/auth/me"), 403, "FORBIDDEN")


async def test_display_name_is_trimmed_and_must_have_1_to_100_characters(world: World) -> None:
    customer = await world.customer("Dewi")
    path = "/api/client/auth/profile"
    for given, kept in (("  Siti \n", "Siti"), ("x" * 100, "x" * 100), (f" {'é' * 100} ", "é" * 100), ("名", "名")):
        assert (await customer.call("PATCH", path, {"display_name": given}))["display_name"] == kept
    for bad in ("", "   ", "x" * 101, "a\0b", None, 5):
        error = await refused(customer.call("PATCH", path, {"display_name": bad}), 422, "VALIDATION_ERROR")
        assert [item["field"] for item in error["details"]["fields"]] == ["display_name"]
    assert (await customer.get("/api/client/auth/me"))["display_name"] == "名"


# -- refresh and logout


async def test_refresh_rotates_the_token_and_other_listener_refuses_it(world: World) -> None:
    customer, operator = await world.customer(), await world.operator()
    before = customer.refresh_token
    answer = await customer.post(REFRESH, {"refresh_token": before})
    assert (set(answer), answer["customer"]["id"]) == (TOKENS | {"customer"}, customer.user["id"])
    assert answer["refresh_token"] != before
    stranger = world.client()
    await refused(stranger.post(REFRESH, {"refresh_token": operator.refresh_token}), 401, "REFRESH_INVALID")
    internal = world.stack.addresses.internal + "/internal/auth/refresh"
    await refused(stranger.post(internal, {"refresh_token": answer["refresh_token"]}), 401, "REFRESH_INVALID")
    for client, token in ((customer, answer["refresh_token"]), (operator, operator.refresh_token)):
        client.refresh_token = token
        await client.refresh()  # the wrong listener's call revoked nothing


async def test_fifty_concurrent_refreshes_return_the_same_successor(world: World) -> None:
    customer = await world.customer()
    body = {"refresh_token": customer.refresh_token}
    answers = await outcomes([world.client().post(REFRESH, body) for _ in range(50)])
    assert [status for status, _ in answers] == [200] * 50
    (successor,) = {answer["refresh_token"] for _, answer in answers}
    after = await world.client().post(REFRESH, {"refresh_token": successor})
    assert after["refresh_token"] != successor


async def test_refresh_token_reused_after_the_window_revokes_its_auth_session(world: World) -> None:
    customer = await world.customer()
    used = customer.refresh_token
    await customer.refresh()
    earlier = "UPDATE auth_sessions SET rotated_at = rotated_at - interval '31 seconds' WHERE user_id = $1::uuid"
    await world.stack.sql(earlier, customer.user["id"])
    device = world.client()
    await refused(device.post(REFRESH, {"refresh_token": used}), 401, "REFRESH_INVALID")
    await refused(device.post(REFRESH, {"refresh_token": customer.refresh_token}), 401, "REFRESH_INVALID")
    customer.refresh_token = None
    await refused(customer.get("/api/client/auth/me"), 401, "UNAUTHENTICATED")


async def test_logout_ends_the_tokens_of_this_device_only(world: World) -> None:
    customer, other = await world.customer(), await world.customer("Eka")
    access, refresh_token = customer.access_token, customer.refresh_token
    assert await customer.post("/api/shared/auth/logout") is None
    device = world.client()
    device.access_token = access

    async def status() -> int:
        return (await device._once("GET", "/api/client/auth/me", None))[0]

    await world.until(status, lambda seen: seen == 401, timeout=within(1))
    await refused(device.post(REFRESH, {"refresh_token": refresh_token}), 401, "REFRESH_INVALID")
    assert (await other.get("/api/client/auth/me"))["display_name"] == "Eka"


async def test_expired_access_token_is_401(world: World) -> None:
    customer = await world.customer()
    ends = await world.service_time() + dt.timedelta(seconds=4)
    device = world.client()
    device.access_token = signed(world, customer.access_token, exp=int(ends.timestamp()))

    async def status() -> int:
        return (await device._once("GET", "/api/client/auth/me", None))[0]

    assert await status() == 200
    await world.until(status, lambda seen: seen == 401)
    assert await world.service_time() >= ends.replace(microsecond=0)


async def test_signed_token_with_any_wrong_claim_is_401(world: World) -> None:
    customer = await world.customer()
    device = world.client()
    device.access_token = signed(world, customer.access_token)
    assert (await device.get("/api/client/auth/me"))["id"] == customer.user["id"]
    wrong: list[dict[str, Any]] = [
        {"exp": 1}, {"exp": None}, {"exp": "soon"}, {"exp": 1e308}, {"aud": "internal"}, {"aud": ["public"]}, {"aud": None},
        {"typ": "operator", "aud": "x"}, {"typ": "nobody"}, {"typ": None}, {"typ": ["customer"]}, {"sub": None},
        {"sub": "x"}, {"sub": 5}, {"sid": None}, {"sid": "\0"}, {"jti": None}, {"iat": None},
    ]  # fmt: skip
    for claim in wrong:
        device.access_token = signed(world, customer.access_token, **claim)
        await refused(device.get("/api/client/auth/me"), 401, "UNAUTHENTICATED")
    for how in ({"algorithm": "HS512"}, {"kid": "other"}, {"kid": None}, {"key": "k" * 64}):
        device.access_token = signed(world, customer.access_token, how=how)
        await refused(device.get("/api/client/auth/me"), 401, "UNAUTHENTICATED")


async def test_malformed_token_is_401(world: World) -> None:
    customer = await world.customer()
    good = customer.access_token or ""
    head, body, seal = good.split(".")
    forged_head = base64.urlsafe_b64encode(b'{"alg":"none","kid":"test"}').decode().rstrip("=")
    deep = base64.urlsafe_b64encode(b"[" * 5_000).decode()
    device = world.client()
    for token in (
        "x", "..", "a.b.c", good[:-2], good + "x", f"{head}.{body}.", f"{forged_head}.{body}.",
        f"{forged_head}.{body}.{seal}", f"{deep}.{body}.{seal}", f"{head}.{deep}.{seal}", "é", good + " " + good,
        customer.refresh_token or "", "x" * 5_000,
    ):  # fmt: skip
        device.access_token = token
        await refused(device.get("/api/client/auth/me"), 401, "UNAUTHENTICATED")
    device.access_token = None
    sane = customer.refresh_token or ""
    other = "A" if sane[40] != "A" else "B"
    for token in ("x", "é", "=" * 90, sane[:-1], sane + "=", sane + "\n", sane[:40] + other + sane[41:], good[:400]):
        await refused(device.post(REFRESH, {"refresh_token": token}), 401, "REFRESH_INVALID")
    assert (await customer.get("/api/client/auth/me"))["id"] == customer.user["id"]  # nothing was revoked


async def test_tokens_of_the_other_listener_are_401(world: World) -> None:
    customer, mitra, operator = await world.customer(), await world.mitra(online=False), await world.operator()
    device = world.client()
    for token in (customer.access_token, mitra.access_token):
        device.access_token = token
        await refused(device.get(world.stack.addresses.internal + "/internal/auth/me"), 401, "UNAUTHENTICATED")
    device.access_token = operator.access_token
    for path in ("/api/client/auth/me", "/api/mitra/auth/me", "/api/client/chat/pricing"):
        await refused(device.get(path), 401, "UNAUTHENTICATED")


# -- mitras


class AddressedPhone:
    """A mitra's phone with a new address, so that it does not reach the limits of other tests' addresses."""

    def __init__(self, world: World, number: str, *, address: str | None = None) -> None:
        self.number = number
        self._client = world.client()
        self._world = world
        self._headers = {"X-Forwarded-For": address or f"2001:db8:{secrets.token_hex(2)}:{secrets.token_hex(2)}::1"}

    async def ask(self) -> dict[str, Any]:
        """Request a code and return the answer."""
        return await self._client.call("POST", ASK, {"phone": self.number}, headers=self._headers)

    async def verify(self, asked: dict[str, Any], code: str) -> dict[str, Any]:
        """Verify a code and return the answer."""
        body = {"otp_request_id": asked["otp_request_id"], "code": code}
        return await self._client.call("POST", VERIFY, body, headers=self._headers)

    async def code(self, asked: dict[str, Any]) -> str:
        """Return the code that was sent."""
        return await self._world.stack.inbox.code_of(asked["otp_request_id"])

    async def ask_raw(self) -> tuple[int, Any, str | None]:
        """Request a code; return status, answer and the header Retry-After."""
        url = self._world.stack.addresses.public + ASK
        async with self._client._http.post(url, json={"phone": self.number}, headers=self._headers) as answer:
            return answer.status, await answer.json(), answer.headers.get("Retry-After")


async def a_phone(
    world: World, *, known: bool = True, active: bool = True, address: str | None = None
) -> AddressedPhone:
    """Return the phone of a new mitra, or of no mitra unless `known`."""
    number = f"+62813{secrets.randbelow(10**8):08d}"
    if known:
        body = {"phone": number, "display_name": "Ayu", "is_active": active}
        await (await world.operator()).post("/internal/mitras", body)
    return AddressedPhone(world, number, address=address)


def not_(code: str) -> str:
    """Return a code that differs from `code`."""
    return f"{(int(code) + 1) % 10**6:06d}"


async def test_mitra_code_signs_in_once(world: World) -> None:
    phone = await a_phone(world)
    asked = await phone.ask()
    assert (set(asked), asked["resend_after_seconds"]) == ({"otp_request_id", "expires_at", "resend_after_seconds"}, 60)
    code = await phone.code(asked)
    assert len(code) == 6
    answer = await phone.verify(asked, code)
    assert (set(answer), answer["mitra"]["phone"]) == (TOKENS | {"mitra"}, phone.number)
    assert claims(answer["access_token"])[1]["typ"] == "mitra"
    await refused(phone.verify(asked, code), 400, "OTP_EXPIRED")
    stored = await world.stack.sql(
        "SELECT o::text FROM otp_requests o WHERE id = $1::text::uuid", asked["otp_request_id"]
    )
    assert f'"{code}"' not in stored[0][0]
    assert f",{code}," not in stored[0][0]


async def test_usual_spellings_of_a_number_are_the_same_mitra(world: World) -> None:
    phone = await a_phone(world)
    for spelling in ("0" + phone.number[3:], f"{phone.number[:3]} {phone.number[3:6]}-{phone.number[6:]}"):
        error = None
        try:
            asked = await AddressedPhone(world, spelling).ask()
            assert (await phone.verify(asked, await phone.code(asked)))["mitra"]["phone"] == phone.number
        except Refused as no:
            error = no.code
        assert error in (None, "OTP_COOLDOWN")  # the second spelling is in the cooldown of the first
    assert error == "OTP_COOLDOWN"


async def test_invalid_mitra_phone_number_is_422(world: World) -> None:
    bad = ("12", "hello world", "+62", "+6281234567890123", "0812\u0000", "+1 555 0100 ext 5", "😀😀😀", "0812OOO36871")
    for number in bad:
        error = await refused(AddressedPhone(world, number).ask(), 422, "VALIDATION_ERROR")
        assert [item["field"] for item in error["details"]["fields"]] == ["phone"]


async def test_unknown_or_inactive_phone_gets_the_same_answers_as_a_known_one(world: World) -> None:
    known, nobody, inactive = (
        await a_phone(world),
        await a_phone(world, known=False),
        await a_phone(world, active=False),
    )
    shapes = []
    for phone in (known, nobody, inactive):
        status, asked, _ = await phone.ask_raw()
        tries = []
        code = not_(await phone.code(asked)) if phone is known else "123456"
        for _ in range(6):
            try:
                await phone.verify(asked, code)
            except Refused as no:
                tries.append((no.status, no.code, no.body["error"].get("details")))
        again = (await phone.ask_raw())[1]["error"]["code"]
        shapes.append((status, sorted(asked), asked["resend_after_seconds"], tries, again))
    assert shapes[0] == shapes[1] == shapes[2]
    assert [item[1] for item in shapes[0][3]] == ["OTP_INVALID"] * 5 + ["OTP_ATTEMPTS_EXCEEDED"]
    assert [item[2]["attempts_remaining"] for item in shapes[0][3][:5]] == [4, 3, 2, 1, 0]
    sent_to = {call["phone"] for call in world.stack.inbox.requests}
    assert known.number in sent_to
    assert sent_to.isdisjoint({nobody.number, inactive.number})
    assert "no code is sent: the mitra is inactive" in world.stack.log("api")  # with the id, for operators


async def test_code_for_unknown_request_is_otp_invalid(world: World) -> None:
    phone = await a_phone(world, known=False)
    await refused(phone.verify({"otp_request_id": new_id()}, "123456"), 400, "OTP_INVALID")


async def test_fifty_concurrent_wrong_codes_use_five_attempts(world: World) -> None:
    phone = await a_phone(world)
    asked = await phone.ask()
    code = await phone.code(asked)
    answers = await outcomes([phone.verify(asked, not_(code)) for _ in range(50)])
    codes = sorted((status, answer["code"]) for status, answer in answers)
    assert codes == [(400, "OTP_INVALID")] * 5 + [(429, "OTP_ATTEMPTS_EXCEEDED")] * 45
    left = sorted(answer["details"]["attempts_remaining"] for status, answer in answers if status == 400)
    assert left == [0, 1, 2, 3, 4]
    await refused(phone.verify(asked, code), 429, "OTP_ATTEMPTS_EXCEEDED")


async def test_right_code_sent_twenty_times_concurrently_signs_in_once(world: World) -> None:
    phone = await a_phone(world)
    asked = await phone.ask()
    code = await phone.code(asked)
    answers = await outcomes([phone.verify(asked, code) for _ in range(20)])
    assert sorted(status for status, _ in answers) == [200] + [400] * 19
    assert {answer["code"] for status, answer in answers if status == 400} == {"OTP_EXPIRED"}


async def test_code_expires_after_five_minutes(world: World) -> None:
    phone = await a_phone(world)
    asked = await phone.ask()
    left = dt.datetime.fromisoformat(asked["expires_at"]) - await world.service_time()
    assert dt.timedelta(minutes=1) < left <= dt.timedelta(minutes=5)
    code = await phone.code(asked)
    await world.stack.sql(
        """UPDATE otp_requests SET created_at = created_at - $2::interval, expires_at = expires_at - $2::interval
           WHERE id = $1::text::uuid""",
        asked["otp_request_id"],
        left,
    )
    await refused(phone.verify(asked, code), 400, "OTP_EXPIRED")


async def test_address_gets_ten_codes_an_hour_under_concurrency(world: World) -> None:
    address = f"203.0.113.{secrets.randbelow(250) + 1}"
    phones = [await a_phone(world, known=n % 2 == 0, address=address) for n in range(30)]
    async with world.setting(otp_max_per_ip_per_hour=10):
        answers = await outcomes([phone.ask() for phone in phones])
        status, answer, header = await (await a_phone(world, address=address)).ask_raw()
        elsewhere = await (await a_phone(world)).ask()
    assert sorted(status for status, _ in answers) == [200] * 10 + [429] * 20
    assert {answer["code"] for status, answer in answers if status == 429} == {"OTP_RATE_LIMIT_IP"}
    assert (status, answer["error"]["code"]) == (429, "OTP_RATE_LIMIT_IP")
    assert 3000 < answer["error"]["retry_after_seconds"] <= 3600
    assert header == str(answer["error"]["retry_after_seconds"])
    assert elsewhere["otp_request_id"]


async def test_mitra_deactivated_after_requesting_a_code_cannot_sign_in(world: World) -> None:
    phone = await a_phone(world)
    asked = await phone.ask()
    code = await phone.code(asked)
    operator = await world.operator()
    (row,) = (await operator.get("/internal/mitras", q=phone.number))["items"]
    await operator.call("PATCH", f"/internal/mitras/{row['id']}", {"is_active": False})
    await refused(phone.verify(asked, code), 400, "OTP_INVALID")


async def test_otp_config_route_returns_the_limits_of_codes(world: World) -> None:
    assert await world.client().get("/api/shared/config/otp") == {
        "resend_cooldown_seconds": 60,
        "max_per_phone_per_hour": 3,
        "verify_max_attempts": 5,
        "code_length": 6,
    }


# -- operators


LOGIN = "/internal/auth/login"


async def log_in(world: World, email: str, password: str) -> Any:
    """Sign in and return the answer."""
    url = world.stack.addresses.internal + LOGIN
    return await world.client().post(url, {"email": email, "password": password})


async def test_case_and_space_of_an_operators_email_do_not_count_at_sign_in(world: World) -> None:
    for email in (EMAIL, EMAIL.upper(), f" {EMAIL} ", f"{EMAIL}\n"):
        answer = await log_in(world, email, PASSWORD)
        assert set(answer) == TOKENS | {"operator"}
        assert answer["operator"]["email"] == EMAIL
        assert claims(answer["access_token"])[1]["aud"] == "internal"


async def test_logout_ends_an_operators_tokens(world: World) -> None:
    operator = world.client()
    await operator.sign_in_as_operator(EMAIL, PASSWORD)
    assert (await operator.get("/internal/auth/me"))["email"] == EMAIL
    await operator.post("/internal/auth/logout")
    await refused(operator.get("/internal/auth/me"), 401, "REFRESH_INVALID")


async def test_odd_passwords_are_login_invalid(world: World) -> None:
    for password in ("x" * 1024, "💸" * 200, "é", " "):
        await refused(log_in(world, f"nobody-{new_id()}@example.test", password), 401, "LOGIN_INVALID")
