"""A customer's erasure: who may ask for it, what it refuses, and what a person finds who comes back."""

import json

import pytest

from core.accounts.customers.tables import Customer
from core.privacy.erase import PER_ADDRESS
from core.storage.personal import personal_columns
from tests.http.pairing.steps import accepting
from tests.http.privacy.steps import (
    COMPLETED,
    ERASE,
    completed,
    erase,
    finish,
    money_of,
    pass_cooldown,
    phone_customer,
    say,
    second_proof,
)  # fmt: skip
from tests.http.sign_in.outside import IdentityServer
from tests.http.sign_in.people import (
    ASK,
    anonymous,
    by_identity,
    by_phone,
    device,
    new_number,
    new_subject,
    proof,
    wrong,
)
from tests.stack import World, at_once, new_id, outcome, refused
from tests.verdicts import check_books
from tools.driving.device import Device

pytestmark = pytest.mark.anyio
ROWS = "SELECT * FROM customers WHERE id = $1 OR account_belongs_to = $1"
PERSONAL = [name for name, _ in personal_columns(Customer)]


async def identity_customer(world: World, provider: IdentityServer, subject: str) -> Device:
    made = device(world)
    made._keep(await by_identity(made, provider, subject, email=f"{subject}@example.test", email_verified=True))
    return made


async def is_erased(world: World, customer_id: str) -> bool:
    rows = await world.stack.sql(ROWS, customer_id)
    return all(row["erased_at"] is not None and not any(row[name] for name in PERSONAL) for row in rows)


async def test_customer_is_erased_by_a_code_and_signed_out_everywhere(world: World) -> None:
    number = new_number()
    customer = await phone_customer(world, number)
    other = device(world)
    other._keep(await by_phone(world, other, number))
    sockets = [await one.open("pairing") for one in (customer, other)]
    customer_id = customer.user["id"]
    made = await erase(world, customer, number)
    assert made.keys() == {"erasure_id", "began_at"}
    assert [await socket.wait_closed() for socket in sockets] == [4403, 4403]
    assert await is_erased(world, customer_id)
    for one in (customer, other):
        await refused(one.get("/api/client/auth/me"), 401, "REFRESH_INVALID")
    await completed(world, customer_id)
    again = device(world)
    again._keep(await by_phone(world, again, number))
    assert again.user["id"] != customer_id
    assert again.user["display_name"] is None


async def test_code_of_another_phone_or_a_wrong_one_is_refused(world: World) -> None:
    number = new_number()
    customer = await phone_customer(world, number)
    await refused(customer.post(ERASE, await proof(world, new_number())), 400, "OTP_INVALID")
    right = await proof(world, number)
    await refused(customer.post(ERASE, {**right, "code": wrong(right["code"])}), 400, "OTP_INVALID")
    await refused(customer.post(ERASE, {"otp_request_id": new_id(), "code": "123456"}), 400, "OTP_INVALID")
    for half in ({}, {"code": "123456"}, {"otp_request_id": new_id()}, {"provider": "a"}, {"identity_token": "x"}):
        await refused(customer.post(ERASE, half), 422, "VALIDATION_ERROR")
    await refused(customer.post(ERASE, {"provider": "b", "identity_token": "x"}), 404, "PROVIDER_DISABLED")
    assert not await is_erased(world, customer.user["id"])
    await customer.post(ERASE, right)
    assert await is_erased(world, customer.user["id"])


async def test_customer_is_erased_by_a_new_token_of_their_own_identity(
    world: World, provider_a: IdentityServer
) -> None:
    subject = new_subject()
    customer = await identity_customer(world, provider_a, subject)
    used = provider_a.token(subject)
    await by_identity(device(world), provider_a, new_subject())
    other = {"provider": "a", "identity_token": provider_a.token(new_subject())}
    await refused(customer.post(ERASE, other), 401, "IDENTITY_TOKEN_INVALID")
    await refused(customer.post(ERASE, await proof(world, new_number())), 400, "OTP_INVALID")
    assert (await device(world).call("POST", "/api/client/auth/identity-a", {"identity_token": used}))["customer"]
    await refused(customer.post(ERASE, {"provider": "a", "identity_token": used}), 401, "IDENTITY_TOKEN_INVALID")
    await customer.post(ERASE, {"provider": "a", "identity_token": provider_a.token(subject)})
    assert await is_erased(world, customer.user["id"])


async def test_anonymous_customer_needs_no_proof(world: World) -> None:
    customer = await anonymous(world)
    await customer.post(ERASE, {})
    assert await is_erased(world, customer.user["id"])


async def test_joined_customers_are_erased_with_their_account(world: World) -> None:
    number = new_number()
    customer = await phone_customer(world, number)
    for _ in range(2):
        joining = await anonymous(world, "Kenanga")
        joining._keep(await by_phone(world, joining, number))
    assert len(await world.stack.sql(ROWS, customer.user["id"])) == 3
    await erase(world, joining, number)
    assert await is_erased(world, customer.user["id"])


async def test_paid_request_and_live_session_refuse_an_erasure(world: World) -> None:
    number = new_number()
    customer, mitra = await phone_customer(world, number), await world.mitra()
    payment = await world.paid(customer)
    error = await refused(erase(world, customer, number), 409, "SESSION_IN_PROGRESS")
    assert error["details"]["payment_request_id"] == payment["payment_request_id"]
    session_id = (await accepting(mitra, payment["session_id"]))["id"]
    error = await refused(erase(world, customer, number), 409, "SESSION_IN_PROGRESS")
    assert error["details"]["session_id"] == session_id
    assert not await is_erased(world, customer.user["id"])
    await customer.get("/api/client/auth/me")  # still signed in
    await finish(customer, mitra, session_id)
    await erase(world, customer, number)


@pytest.mark.slow
async def test_session_that_is_closing_is_blanked_when_it_is_over(world: World) -> None:
    number = new_number()
    customer, mitra = await phone_customer(world, number), await world.mitra()
    session_id = await world.session(customer, mitra)
    await say(mitra, session_id, "apa kabar")
    await customer.post(f"/api/shared/chat/sessions/{session_id}/end")
    await erase(world, customer, number)
    seen = await mitra.get(f"/api/shared/chat/sessions/{session_id}")
    assert (seen["status"], seen["customer"]["display_name"]) == ("closing", None)
    await mitra.post(f"/api/shared/chat/sessions/{session_id}/closure", {"message": "sampai jumpa"})
    await completed(world, customer.user["id"])
    rows = await world.stack.sql(
        "SELECT content AS text FROM chat_messages WHERE session_id = $1 "
        "UNION ALL SELECT message FROM session_closures WHERE session_id = $1", session_id,
    )  # fmt: skip
    assert {row["text"] for row in rows} == {""}


async def test_pending_request_is_abandoned_and_money_for_it_is_late(world: World) -> None:
    number = new_number()
    customer = await phone_customer(world, number)
    payment = await world.request(customer, topics=["cinta"])
    await erase(world, customer, number)
    status = "SELECT status, topics FROM payment_requests WHERE id = $1"
    (row,) = await world.stack.sql(status, payment["payment_request_id"])
    assert row["status"] == "abandoned"
    code, answer = await world.webhook(payment, payer_email="melati@example.test")
    assert (code, answer["processing_result"]) == (200, "late_payment_recorded")
    await completed(world, customer.user["id"])
    (row,) = await world.stack.sql(status, payment["payment_request_id"])
    assert (row["status"], row["topics"]) == ("failed_pairing", None)
    bodies = "SELECT convert_from(raw_body, 'UTF8') AS body FROM webhook_logs WHERE external_id = $1"
    bodies_seen = [row["body"] for row in await world.stack.sql(bodies, payment["payment_request_id"])]
    assert len(bodies_seen) == 1
    assert "melati" not in bodies_seen[0]
    # A further call, after the erasure is complete, and one before it that ended in an exception.
    body = b'{"payer_email": "melati@example.test", "status": "PAID"}'
    await world.stack.sql(
        "UPDATE webhook_logs SET raw_body = $2 WHERE external_id = $1", payment["payment_request_id"], body
    )
    assert (await world.webhook(payment, payer_email="melati@example.test"))[0] == 200
    for row in await world.stack.sql(bodies, payment["payment_request_id"]):
        assert "melati" not in row["body"]
        assert '"PAID"' in row["body"]


async def test_expired_request_that_is_paid_after_the_erasure_starts_no_search(world: World) -> None:
    number = new_number()
    customer = await phone_customer(world, number)
    payment = await world.request(customer)
    request_id = payment["payment_request_id"]
    await world.stack.sql("UPDATE payment_requests SET status = 'expired' WHERE id = $1", request_id)
    await erase(world, customer, number)
    _, answer = await world.webhook(payment, paid_at=payment["created_at"])
    assert answer["processing_result"] == "paid_not_pairable"
    assert await world.stack.sql("SELECT 1 FROM chat_sessions WHERE payment_request_id = $1", request_id) == []


@pytest.mark.parametrize("had_session", [True, False])
async def test_discount_for_a_first_session_is_not_given_twice(world: World, had_session: bool) -> None:
    number = new_number()
    customer = await phone_customer(world, number)
    await world.promotion(enabled=True)
    wish = {"first_session_discount": True, "duration_minutes": None}
    try:
        if had_session:
            mitra = await world.mitra()
            session_id = await world.session(customer, mitra, **wish)
            await finish(customer, mitra, session_id)
        await erase(world, customer, number)
        again = await phone_customer(world, number)
        assert again.user["id"] != customer.user["id"]
        if had_session:
            await refused(world.request(again, **wish), 409, "DISCOUNT_NOT_ELIGIBLE")
            # The person is erased again, and stays recognised.
            await erase(world, again, number)
            third = await phone_customer(world, number)
            await refused(world.request(third, **wish), 409, "DISCOUNT_NOT_ELIGIBLE")
        else:
            await world.request(again, **wish)
    finally:
        await world.promotion(enabled=False)
    kept = await world.stack.sql("SELECT hash FROM erased_identities")
    assert number[1:] not in str(kept)


async def test_limit_of_codes_holds_after_an_erasure(world: World) -> None:
    number = new_number()
    customer = await phone_customer(world, number)
    await erase(world, customer, number)  # with the newest code, which counts
    assert await world.stack.sql("SELECT 1 FROM otp_requests WHERE phone = $1", number) == []
    async with world.setting(otp_max_per_phone_per_hour=1):
        await refused(device(world).post(ASK, {"phone": number}), 429, "OTP_RATE_LIMIT_PHONE")
    await world.config("otp_max_per_phone_per_hour", 1_000_000)
    await by_phone(world, device(world), number)


async def test_codes_requested_as_a_mitra_are_erased_with_the_customer_of_the_phone(world: World) -> None:
    number = new_number()
    customer = await phone_customer(world, number)
    await pass_cooldown(world, number)
    as_mitra = await device(world).post("/api/mitra/auth/otp/request", {"phone": number})
    await erase(world, customer, number)
    assert await world.stack.sql("SELECT 1 FROM otp_requests WHERE phone = $1", number) == []
    left = "SELECT 1 FROM otp_requests WHERE id = $1 AND (ip_address <> '' OR used_at IS NULL)"
    assert await world.stack.sql(left, as_mitra["otp_request_id"]) == []


async def test_codes_for_a_mitras_earlier_phone_do_not_go_to_the_next_mitra_who_gets_it(world: World) -> None:
    mitra, operator = await world.mitra(), await world.operator()
    number = mitra.user["phone"]
    await pass_cooldown(world, number)
    await device(world).post(ASK, {"phone": number})  # a customer with the same number
    await operator.call("PATCH", f"/internal/mitras/{mitra.user['id']}", {"phone": new_number()})
    left = await world.stack.sql("SELECT user_type FROM otp_requests WHERE phone = $1", number)
    assert [row["user_type"] for row in left] == ["customer"]
    made = await operator.post("/internal/mitras", {"phone": number, "display_name": "Bima", "is_active": True})
    copy = json.loads(world.stack.command("mitra", "export", made["id"]).stdout)
    assert copy["codes"] == []
    async with world.setting(otp_max_per_phone_per_hour=2):  # and the limit holds
        await refused(device(world).post(ASK, {"phone": number}), 429, "OTP_RATE_LIMIT_PHONE")


async def test_codes_of_the_last_hour_keep_no_address_and_no_reference(world: World) -> None:
    number, address = new_number(), "198.51.100.77"
    customer = await phone_customer(world, number)
    body = await proof(world, number)
    of_phone = "UPDATE otp_requests SET ip_address = $2 WHERE phone = $1 RETURNING id, provider_reference"
    codes = await world.stack.sql(of_phone, number, address)
    assert [row["provider_reference"] is None for row in codes] == [False, False]
    await customer.post(ERASE, body)
    left = await world.stack.sql("SELECT * FROM otp_requests WHERE id = ANY($1)", [row["id"] for row in codes])
    assert left
    for row in left:
        assert (row["ip_address"], row["provider_reference"], row["code_hash"]) == ("", None, None)
        assert row["phone"].startswith("#")


async def test_money_stays_and_the_audit_finds_nothing(world: World) -> None:
    number = new_number()
    customer, mitra = await phone_customer(world, number), await world.mitra()
    session_id = await world.session(customer, mitra)
    await finish(customer, mitra, session_id)
    before = await money_of(world, customer.user["id"])
    assert len(before) == 2
    await erase(world, customer, number)
    await completed(world, customer.user["id"])
    assert await money_of(world, customer.user["id"]) == before
    check_books(await world.audit())


async def test_two_erasures_at_once_make_one(world: World) -> None:
    first, number = await anonymous(world), new_number()
    others = [device(world, like=first) for _ in range(4)]
    outcomes = await at_once(*(one.post(ERASE, {}) for one in others))
    assert set(outcomes) <= {"ok", "UNAUTHENTICATED", "REFRESH_INVALID"}
    assert "ok" in outcomes
    assert len(await world.stack.sql(COMPLETED, first.user["id"])) == 1
    customer = await phone_customer(world, number)
    proofs = [await proof(world, number), await second_proof(world, number)]
    outcomes = await at_once(*(device(world, like=customer).post(ERASE, one) for one in proofs * 3))
    assert "ok" in outcomes
    assert set(outcomes) <= {"ok", "OTP_EXPIRED", "OTP_INVALID", "UNAUTHENTICATED", "REFRESH_INVALID"}
    assert len(await world.stack.sql(COMPLETED, customer.user["id"])) == 1


async def test_erasures_of_an_address_are_limited(world: World) -> None:
    customer = await phone_customer(world)
    seen = "VALIDATION_ERROR"  # no proof
    for _ in range(PER_ADDRESS):
        seen = await outcome(customer.post(ERASE, {}))
        if seen != "VALIDATION_ERROR":
            break
    assert seen == "RATE_LIMITED"
