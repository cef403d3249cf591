"""The second factor of operators: enrolment, sign-in, and actions that need a fresh code.

See docs/product.md#second-factor.
"""

import asyncio
import random
import secrets
import time
from typing import Any

import asyncpg
import pytest

from core.accounts.operators import login_token, totp
from tests.http.operators.second_factor import (
    AUTH,
    an_enrolled_operator,
    enrol,
    from_an_address,
    login,
    store_tokens,
    verify,
)
from tests.http.operators.steps import PASSWORD, a_role, an_account, an_operator, answer, at_once, audits, unique
from tests.stack import PASSWORD as ROOT_PASSWORD
from tests.stack import World, refused, within
from tools.driving.device import Device

pytestmark = pytest.mark.anyio

WRONG = "not the password 41"


async def actions(world: World, operator_id: str) -> list[str]:
    """Return the actions in the audit log about an operator."""
    return [row["action"] for row in await audits(world, operator_id)]


# -- enrolment


async def test_enrolment_returns_secret_and_recovery_codes_and_signs_out_others(world: World) -> None:
    me = await an_operator(world, {})
    other = from_an_address(world)
    store_tokens(other, await login(other, me.email))
    begun = await me.client.post(f"{AUTH}/totp/begin", {"password": PASSWORD})
    assert set(begun) == {"secret", "otpauth_uri"}
    assert f"secret={begun['secret']}" in begun["otpauth_uri"]
    assert (await me.client.get(f"{AUTH}/me"))["totp_enabled"] is False
    secret, codes = await enrol(me.client)
    assert len(set(codes)) == 10
    seen = await me.client.get(f"{AUTH}/me")
    assert (seen["totp_enabled"], seen["totp_required"], seen["recovery_codes_left"]) == (True, False, 10)
    other.refresh_token = None

    async def status() -> int:
        return (await other._once("GET", f"{AUTH}/me", None))[0]

    await world.until(status, lambda seen: seen == 401, timeout=within(1))
    row = (await world.stack.sql("SELECT * FROM control_center_users WHERE email = $1", me.email))[0]
    kept = str(dict(row)) + str(await audits(world, me.id))
    assert begun["secret"] not in kept
    assert secret.hex() not in kept
    assert not any(code in kept or code.replace("-", "") in kept for code in codes)
    expected = ["operator.created", "operator.totp_begun", "operator.totp_begun", "operator.totp_enrolled"]
    assert await actions(world, me.id) == expected


async def test_confirm_requires_an_enrolment_begun_within_ten_minutes(world: World) -> None:
    me = await an_operator(world, {})
    confirm = {"code": "123456"}
    await refused(me.client.post(f"{AUTH}/totp/confirm", confirm), 409, "TOTP_NOT_BEGUN")
    await me.client.post(f"{AUTH}/totp/begin", {"password": PASSWORD})
    await refused(me.client.post(f"{AUTH}/totp/confirm", {"code": "000000"}), 400, "TOTP_INVALID")
    sql = "UPDATE control_center_users SET totp_pending_until = now() - interval '1 second' WHERE email = $1"
    await world.stack.sql(sql, me.email)
    await refused(me.client.post(f"{AUTH}/totp/confirm", confirm), 409, "TOTP_NOT_BEGUN")


async def test_codes_in_digits_of_any_script_work_and_other_signs_are_no_attempt(world: World) -> None:
    me = await an_enrolled_operator(world, {})
    device = from_an_address(world)
    token = await me.password_right(device)
    for _ in range(10):  # more than the attempts of a lockout
        await refused(verify(device, token, code="12345O"), 422, "VALIDATION_ERROR")
        await refused(verify(device, token, recovery_code="é" * 16), 422, "VALIDATION_ERROR")
        await refused(me.client.post(f"{AUTH}/step-up", {"code": "123 45O"}), 422, "VALIDATION_ERROR")
    full_width = {48 + n: 0xFF10 + n for n in range(10)}
    store_tokens(device, await verify(device, token, code=me.code(1).translate(full_width)))
    recovery = me.recovery_codes[0].translate(full_width).upper()
    assert (await device.post(f"{AUTH}/step-up", {"code": f" {recovery} "}))["expires_in"] > 0


async def test_begin_requires_the_password_and_a_code_of_the_current_factor(world: World) -> None:
    me = await an_enrolled_operator(world, {})
    begin = f"{AUTH}/totp/begin"
    me.client.refresh_token, kept = None, me.client.refresh_token  # the client would refresh after a 401 and call again
    await refused(me.client.post(begin, {"password": WRONG, "code": me.code()}), 401, "LOGIN_INVALID")
    await refused(me.client.post(begin, {"password": PASSWORD}), 422, "VALIDATION_ERROR")
    await refused(me.client.post(begin, {"password": PASSWORD, "code": "000000"}), 400, "TOTP_INVALID")
    me.client.refresh_token = kept
    # The code that confirmed the factor is used. A recovery code helps an operator who has lost the authenticator.
    secret, codes = await enrol(me.client, code=me.recovery_codes[0])
    assert secret != me.secret
    assert not set(codes) & set(me.recovery_codes)
    token = await me.password_right(from_an_address(world))
    await refused(verify(from_an_address(world), token, recovery_code=me.recovery_codes[1]), 400, "TOTP_INVALID")


async def test_removal_requires_password_and_code(world: World) -> None:
    me = await an_enrolled_operator(world, {})

    def remove(**body: str) -> Any:
        return me.client.call("DELETE", f"{AUTH}/totp", body)

    me.client.refresh_token = None
    await refused(remove(password=WRONG, code=me.code(1)), 401, "LOGIN_INVALID")
    await refused(remove(password=PASSWORD, code="000000"), 400, "TOTP_INVALID")
    assert (await remove(password=PASSWORD, code=me.code(1)))["totp_enabled"] is False
    await refused(remove(password=PASSWORD, code=me.code(1)), 409, "TOTP_NOT_ENROLLED")
    assert "operator" in await login(from_an_address(world), me.email)
    assert (await actions(world, me.id))[-1] == "operator.totp_removed"


# -- signing in


async def test_sign_in_with_a_second_factor_requires_password_and_code(world: World) -> None:
    me = await an_enrolled_operator(world, {"mitras": "read"})
    device = from_an_address(world)
    token = await me.password_right(device)
    device._base, device.access_token = device.addresses.internal, token
    await refused(device.get(f"{AUTH}/me"), 401, "UNAUTHENTICATED")  # a login token is not an access token
    device.access_token = None
    await refused(verify(device, token, code="000000"), 400, "TOTP_INVALID")
    await refused(verify(device, token), 422, "VALIDATION_ERROR")
    await refused(verify(device, token, code=me.code(1), recovery_code="x"), 422, "VALIDATION_ERROR")
    store_tokens(device, await verify(device, token, code=me.code(1)))
    assert device.user["id"] == me.id
    assert (await device.get("/internal/mitras", limit=1))["items"] is not None


async def test_login_token_works_once_under_concurrency(world: World) -> None:
    me = await an_enrolled_operator(world, {})
    token = await me.password_right(from_an_address(world))
    devices = [from_an_address(world) for _ in range(8)]
    seen = await at_once(8, lambda n: verify(devices[n], token, recovery_code=me.recovery_codes[n]))
    assert sorted(one[0] for one in seen) == [200] + [401] * 7
    assert {one[1] for one in seen if one[0] == 401} == {"LOGIN_TOKEN_INVALID"}
    # The codes of the refused calls were not used up.
    assert (await me.client.get(f"{AUTH}/me"))["recovery_codes_left"] == 9
    await refused(verify(devices[0], token, code=me.code(1)), 401, "LOGIN_TOKEN_INVALID")


@pytest.mark.parametrize("kind", ["code", "recovery_code"])
async def test_code_works_once_under_concurrency(world: World, kind: str) -> None:
    me = await an_enrolled_operator(world, {})
    code = me.code(1) if kind == "code" else me.recovery_codes[0]
    devices = [from_an_address(world) for _ in range(4)]
    tokens = [await me.password_right(device) for device in devices]
    seen = await at_once(4, lambda n: verify(devices[n], tokens[n], **{kind: code}))
    assert sorted(one[0] for one in seen) == [200] + [400] * 3
    assert {one[1] for one in seen if one[0] == 400} == {"TOTP_INVALID"}
    if kind == "code":  # the step before the used one is refused, too
        loser = next(n for n, one in enumerate(seen) if one[0] == 400)
        await refused(verify(devices[loser], tokens[loser], code=me.code(0)), 400, "TOTP_INVALID")
    else:
        rows = await audits(world, me.id)
        assert (rows[-1]["action"], rows[-1]["after"]) == ("operator.recovery_code_used", {"recovery_codes_left": 9})


async def test_login_token_ends_after_five_minutes_or_a_password_change(world: World) -> None:
    me, root = await an_enrolled_operator(world, {}), await world.operator()
    device = from_an_address(world)
    token = await me.password_right(device)
    await root.call("PATCH", f"/internal/operators/{me.id}", {"password": "another good one 9"})
    await refused(verify(device, token, code=me.code(1)), 401, "LOGIN_TOKEN_INVALID")
    await root.call("PATCH", f"/internal/operators/{me.id}", {"password": PASSWORD})
    assert login_token.LIVES.total_seconds() == 300
    token = await me.password_right(device)
    await root.call("PATCH", f"/internal/operators/{me.id}", {"disabled": True})
    await refused(verify(device, token, code=me.code(1)), 401, "LOGIN_TOKEN_INVALID")


async def test_wrong_codes_count_towards_the_lockout_and_password_does_not_reset(world: World) -> None:
    me = await an_enrolled_operator(world, {})
    device, token = from_an_address(world), ""
    for _ in range(3):
        token = await me.password_right(device)
        await refused(verify(device, token, code="000000"), 400, "TOTP_INVALID")
    count = "SELECT failed_login_count FROM control_center_users WHERE email = $1"
    assert (await world.stack.sql(count, me.email))[0][0] == 3
    seen = [one[:2] for one in await at_once(8, lambda _: verify(device, token, code="000000"))]
    assert sorted(seen) == [(400, "TOTP_INVALID")] * 2 + [(423, "ACCOUNT_LOCKED")] * 6
    await refused(verify(device, token, code=me.code(1)), 423, "ACCOUNT_LOCKED")
    await refused(login(device, me.email), 423, "ACCOUNT_LOCKED")
    await refused(login(from_an_address(world), me.email), 423, "ACCOUNT_LOCKED")
    assert (await me.client.get(f"{AUTH}/me"))["id"] == me.id  # a running sign-in goes on
    assert "can sign in again" in world.stack.command("operator", "unlock", "--email", me.email.upper()).stdout
    assert (await actions(world, me.id))[-1] == "operator.unlocked"
    device = await me.sign_in()
    assert (await world.stack.sql(count, me.email))[0][0] == 0
    # Wrong passwords of a signed-in operator count with the wrong codes.
    device.refresh_token = None
    for _ in range(2):
        await refused(device.post(f"{AUTH}/step-up", {"code": "000000"}), 400, "TOTP_INVALID")
        change = {"current_password": WRONG, "new_password": "another good one 9"}
        await refused(device.post(f"{AUTH}/password", change), 401, "LOGIN_INVALID")
    assert (await world.stack.sql(count, me.email))[0][0] == 4


# -- a role that requires it


async def test_role_requiring_a_second_factor_allows_only_enrolment_by_one_time_code(world: World) -> None:
    root = await world.operator()
    role = await root.post(
        "/internal/roles", {"name": unique("strict"), "permissions": {"mitras": "read"}, "require_totp": True}
    )
    assert role["require_totp"] is True
    email = f"{unique('op')}@example.test"
    made = world.stack.command(
        "operator", "create", "--email", email, "--display-name", "Sari", "--role", role["name"],
        "--password-stdin", stdin=PASSWORD,
    )  # fmt: skip
    code = made.stdout.strip().splitlines()[-1].rpartition(": ")[2]
    device = from_an_address(world)
    store_tokens(device, await login(device, email))
    assert device.user["totp_required"] is True
    for method, path in (("GET", "/internal/mitras"), ("GET", "/internal/overview"), ("POST", f"{AUTH}/password")):
        await refused(device.call(method, path), 403, "TOTP_ENROLMENT_REQUIRED")
    assert (await device.get(f"{AUTH}/me"))["email"] == email
    assert len((await device.get(f"{AUTH}/sessions"))["items"]) == 1
    await device.refresh()
    begin = f"{AUTH}/totp/begin"
    await refused(device.post(begin, {"password": PASSWORD}), 422, "VALIDATION_ERROR")
    await refused(device.post(begin, {"password": PASSWORD, "code": "aaaa-bbbb-cccc-dddd"}), 400, "TOTP_INVALID")
    secret, _ = await enrol(device, code=code.upper())
    assert (await device.get("/internal/mitras", limit=1))["items"] is not None
    body = {"password": PASSWORD, "code": totp.code_at(secret, int(time.time()) // 30 + 1)}
    await refused(device.call("DELETE", f"{AUTH}/totp", body), 409, "TOTP_REQUIRED_BY_ROLE")
    # The one-time code is used up.
    world.stack.command("operator", "reset-totp", "--email", email)
    again = from_an_address(world)
    store_tokens(again, await login(again, email))
    await refused(again.post(begin, {"password": PASSWORD, "code": code}), 400, "TOTP_INVALID")


async def a_strict_role(root: Device) -> str:
    """Create a role that requires a second factor; return its id."""
    wanted = {"name": unique("strict"), "permissions": {"mitras": "read"}, "require_totp": True}
    return (await root.post("/internal/roles", wanted))["id"]


async def test_new_operator_whose_role_requires_a_second_factor_begins_with_the_code_of_the_answer(
    world: World,
) -> None:
    root = await world.operator()
    made = await an_account(root, await a_strict_role(root))
    code = made["enrolment_code"]
    device = from_an_address(world)
    store_tokens(device, await login(device, made["email"]))
    await refused(device.post(f"{AUTH}/totp/begin", {"password": PASSWORD, "code": code[::-1]}), 400, "TOTP_INVALID")
    await enrol(device, code=code)
    assert (await device.get("/internal/mitras", limit=1))["items"] is not None
    assert code not in str(await audits(world, made["id"]))
    until = "SELECT count(*) FROM control_center_users WHERE enrolment_code_hash LIKE '%' || $1 || '%'"
    assert (await world.stack.sql(until, code))[0][0] == 0


async def test_enrolment_code_is_null_for_a_role_without_a_second_factor(world: World) -> None:
    root = await world.operator()
    made = await an_account(root, (await a_role(root, {}))["id"])
    assert made["enrolment_code"] is None
    changed = await root.call("PATCH", f"/internal/operators/{made['id']}", {"display_name": "Rina"})
    assert changed["enrolment_code"] is None


async def test_change_to_a_strict_role_answers_a_code_once(world: World) -> None:
    root = await world.operator()
    made, strict = await an_account(root, (await a_role(root, {}))["id"]), await a_strict_role(root)
    path = f"/internal/operators/{made['id']}"
    code = (await root.call("PATCH", path, {"role_id": strict}))["enrolment_code"]
    assert (await root.call("PATCH", path, {"display_name": "Rina"}))["enrolment_code"] is None
    device = from_an_address(world)
    store_tokens(device, await login(device, made["email"]))
    await enrol(device, code=code)


async def test_role_that_begins_to_require_a_second_factor_answers_codes_of_those_who_have_none(world: World) -> None:
    enrolled, root = await an_enrolled_operator(world, {"mitras": "read"}), await world.operator()
    without = [await an_account(root, enrolled.role_id) for _ in range(2)]
    path = f"/internal/roles/{enrolled.role_id}"
    changed = await root.call("PATCH", path, {"require_totp": True})
    codes = {row["operator_id"]: row["enrolment_code"] for row in changed["enrolment_codes"]}
    assert codes.keys() == {one["id"] for one in without}
    for one in without:
        device = from_an_address(world)
        store_tokens(device, await login(device, one["email"]))
        await enrol(device, code=codes[one["id"]])
    assert (await root.call("PATCH", path, {"require_totp": True}))["enrolment_codes"] == []


async def test_reset_by_command_signs_out_everywhere_and_prints_a_new_code(world: World) -> None:
    me = await an_enrolled_operator(world, {})
    root = await world.operator()
    said = world.stack.command("operator", "reset-totp", "--email", me.email.upper()).stdout
    assert "One-time code" not in said  # the role does not require a second factor
    await refused(me.client.post(f"{AUTH}/refresh", {"refresh_token": me.client.refresh_token}), 401, "REFRESH_INVALID")
    await root.call("PATCH", f"/internal/roles/{me.role_id}", {"require_totp": True})
    code = world.stack.command("operator", "reset-totp", "--email", me.email).stdout.strip().rpartition(": ")[2]
    device = from_an_address(world)
    store_tokens(device, await login(device, me.email))
    expire = "UPDATE control_center_users SET enrolment_code_until = now() + $2::interval WHERE email = $1"
    await world.stack.sql(expire.replace("$2", "'-1 s'"), me.email)
    await refused(device.post(f"{AUTH}/totp/begin", {"password": PASSWORD, "code": code}), 400, "TOTP_INVALID")
    await world.stack.sql(expire.replace("$2", "'1 h'"), me.email)
    await enrol(device, code=code)
    assert (await actions(world, me.id)).count("operator.totp_reset") == 2


async def test_operator_cannot_lock_out_their_own_role(world: World) -> None:
    lead = await an_operator(world, {"operators": "write"})
    path = f"/internal/roles/{lead.role_id}"
    await refused(lead.client.call("PATCH", path, {"require_totp": True}), 409, "TOTP_NOT_ENROLLED")
    await enrol(lead.client)
    await refused(lead.client.call("PATCH", path, {"require_totp": True}), 403, "TOTP_REQUIRED")


# -- a fresh code


async def test_protected_actions_require_a_fresh_code(world: World) -> None:
    me = await an_enrolled_operator(world, {"*": "write"})
    customer = await world.customer()
    payment = await world.request(customer)
    failure, other_failure = await a_failure(world), await a_failure(world)
    role = await a_role(await world.operator(), {})
    account = await an_account(await world.operator(), role["id"])
    calls: list[tuple[str, str, Any]] = [
        ("POST", f"/internal/payment-requests/{payment['payment_request_id']}/confirm", None),
        ("PATCH", f"/internal/failed-pairings/{failure}", {"operator_action": "refunded"}),
        ("POST", "/internal/operators", {"email": f"{unique('x')}@example.test", "display_name": "x", "role_id": role["id"]}),
        ("PATCH", f"/internal/operators/{account['id']}", {"display_name": "Rina"}),
        ("POST", "/internal/roles", {"name": unique("role"), "permissions": {}}),
        ("PATCH", f"/internal/roles/{role['id']}", {"permissions": {"mitras": "read"}}),
        ("POST", f"/internal/operators/{account['id']}/reset-totp", None),
        ("POST", f"/internal/failed-pairings/{other_failure}/refund", {}),
    ]  # fmt: skip
    for method, path, body in calls:
        await refused(me.client.call(method, path, body), 403, "TOTP_REQUIRED")
    await me.step_up()
    other = await me.sign_in()
    for method, path, body in calls:  # the five minutes are for this device only
        await refused(other.call(method, path, body), 403, "TOTP_REQUIRED")
    for method, path, body in calls:
        assert (await answer(me.client.call(method, path, body)))[0] == 200, path
    sql = "UPDATE auth_sessions SET stepped_up_until = now() - interval '1 second' WHERE user_id = $1::uuid"
    await world.stack.sql(sql, me.id)
    await refused(me.client.call(*calls[3]), 403, "TOTP_REQUIRED")


async def a_failure(world: World) -> str:
    """Create a failed pairing; return its id."""
    customer, root = await world.customer(), await world.operator()
    payment = await world.paid(customer)
    await customer.post("/api/client/chat/cancel", {"payment_request_id": payment["payment_request_id"]})
    rows = (await root.get("/internal/failed-pairings", limit=200))["items"]
    return next(row["id"] for row in rows if row["payment_request_id"] == payment["payment_request_id"])


async def test_other_actions_on_a_failed_pairing_need_no_fresh_code(world: World) -> None:
    me = await an_enrolled_operator(world, {"failed_pairings": "write"})
    path = f"/internal/failed-pairings/{await a_failure(world)}"
    assert (await me.client.call("PATCH", path, {"operator_action": "no_action"}))["operator_action"] == "no_action"


async def test_only_a_new_number_of_a_mitra_needs_a_fresh_code(world: World) -> None:
    me, root = await an_enrolled_operator(world, {"mitras": "write"}), await world.operator()
    mitra = await world.mitra(online=False)
    path, before = f"/internal/mitras/{mitra.user['id']}", mitra.user["phone"]
    for body in ({"display_name": "Sari"}, {"phone": before.replace("+62", "0"), "display_name": "Ayu"}):
        assert (await answer(me.client.call("PATCH", path, body)))[0] == 200
    new = f"+62813{secrets.randbelow(10**8):08d}"
    await refused(me.client.call("PATCH", path, {"phone": new, "is_active": False}), 403, "TOTP_REQUIRED")
    kept = await root.get(path)
    assert (kept["phone"], kept["is_active"]) == (before, True)
    await me.step_up()
    assert (await me.client.call("PATCH", path, {"phone": new}))["phone"] == new


async def test_fresh_code_works_once_and_wrong_codes_lock(world: World) -> None:
    me = await an_enrolled_operator(world, {})
    code = {"code": me.code(1)}
    seen = await at_once(4, lambda _: me.client.post(f"{AUTH}/step-up", code))
    assert sorted(one[0] for one in seen) == [200] + [400] * 3
    await refused(me.client.post(f"{AUTH}/step-up", {"code": "000000"}), 400, "TOTP_INVALID")
    await refused(me.client.post(f"{AUTH}/step-up", {"code": "000000"}), 400, "TOTP_INVALID")
    await refused(me.client.post(f"{AUTH}/step-up", {"code": me.recovery_codes[0]}), 423, "ACCOUNT_LOCKED")
    plain = await an_operator(world, {})
    await refused(plain.client.post(f"{AUTH}/step-up", code), 409, "TOTP_NOT_ENROLLED")


async def test_reset_of_another_operator_requires_second_factor_and_their_rights(world: World) -> None:
    me, target = await an_enrolled_operator(world, {"operators": "write"}), await an_operator(world, {})
    strong = await an_operator(world, {"config": "read"})
    reset = "/internal/operators/{}/reset-totp"
    plain = await an_operator(world, {"operators": "write"})
    await refused(plain.client.post(reset.format(target.id)), 403, "TOTP_REQUIRED")
    await me.step_up()
    await refused(me.client.post(reset.format(me.id)), 403, "FORBIDDEN")
    await refused(me.client.post(reset.format(strong.id)), 403, "FORBIDDEN")
    await enrol(target.client)
    done = await me.client.post(reset.format(target.id))
    assert (done["operator"]["has_totp"], done["enrolment_code"]) == (False, None)
    assert "operator" in await login(from_an_address(world), target.email)
    await (await world.operator()).call("PATCH", f"/internal/roles/{target.role_id}", {"require_totp": True})
    code = (await me.client.post(reset.format(target.id)))["enrolment_code"]
    device = from_an_address(world)
    store_tokens(device, await login(device, target.email))
    await enrol(device, code=code)
    rows = [row for row in await audits(world, target.id) if row["action"] == "operator.totp_reset"]
    assert [row["operator_id"] for row in rows] == [me.id, me.id]
    assert code not in str(rows)


async def test_each_second_factor_write_adds_one_audit_row_and_a_refused_one_none(world: World) -> None:
    me, target = await an_enrolled_operator(world, {"operators": "write"}), await an_operator(world, {})
    await me.client.refresh()

    async def rows() -> list[str]:
        return [*await actions(world, me.id), *await actions(world, target.id)]

    async def call(method: str, path: str, body: dict[str, str] | None, action: str | None) -> None:
        await me.forget_steps()
        before = await rows()
        status, _ = await me.client._once(method, path, body)
        assert (status < 300) is (action is not None), (path, status)
        after = await rows()
        assert sorted(after) == sorted([*before, *([action] if action else [])]), path

    reset = f"/internal/operators/{target.id}/reset-totp"
    await call("POST", reset, None, None)
    await call("POST", f"{AUTH}/step-up", {"code": "000000"}, None)
    await call("POST", f"{AUTH}/step-up", {"code": me.code()}, "operator.stepped_up")
    await call("POST", reset, None, "operator.totp_reset")
    await call("POST", f"{AUTH}/totp/begin", {"password": WRONG, "code": me.code()}, None)
    await call("POST", f"{AUTH}/totp/begin", {"password": PASSWORD, "code": me.code()}, "operator.totp_begun")
    await call("POST", f"{AUTH}/totp/confirm", {"code": "000000"}, None)
    await call("DELETE", f"{AUTH}/totp", {"password": PASSWORD, "code": "x"}, None)
    await call("DELETE", f"{AUTH}/totp", {"password": PASSWORD, "code": me.code()}, "operator.totp_removed")


# -- the end of a sign-in, and the list of them


async def test_auth_session_ends_at_its_expiry_despite_refreshes(world: World) -> None:
    me = await an_operator(world, {})
    ends = "SELECT expires_at FROM auth_sessions WHERE user_id = $1::uuid"
    before = (await world.stack.sql(ends, me.id))[0][0]
    await me.client.refresh()
    await me.client.refresh()
    assert (await world.stack.sql(ends, me.id))[0][0] == before
    sql = "UPDATE auth_sessions SET expires_at = now() + interval '60 seconds' WHERE user_id = $1::uuid"
    await world.stack.sql(sql, me.id)
    answer = await me.client.post(f"{AUTH}/refresh", {"refresh_token": me.client.refresh_token})
    assert 1 <= answer["expires_in"] <= 60  # its access token ends with it
    sql = "UPDATE auth_sessions SET expires_at = now() - interval '1 second' WHERE user_id = $1::uuid"
    await world.stack.sql(sql, me.id)  # by more than the service's clock may be behind the database's
    body = {"refresh_token": answer["refresh_token"]}
    me.client.refresh_token = None
    await refused(me.client.post(f"{AUTH}/refresh", body), 401, "REFRESH_INVALID")


async def test_operator_lists_and_ends_only_their_own_auth_sessions(world: World) -> None:
    me, stranger = await an_operator(world, {}), await an_operator(world, {"*": "write"})
    other = from_an_address(world)
    other._http.headers["X-Platform"] = "the other desk"
    store_tokens(other, await login(other, me.email))
    listed = (await me.client.get(f"{AUTH}/sessions"))["items"]
    assert [(one["current"], one["device_info"]["platform"]) for one in listed] == [
        (False, "the other desk"),
        (True, None),
    ]
    path = f"{AUTH}/sessions/{listed[0]['id']}"
    await refused(stranger.client.call("DELETE", path), 404, "NOT_FOUND")
    assert (await me.client.call("DELETE", path))["id"] == listed[0]["id"]
    await refused(me.client.call("DELETE", path), 404, "NOT_FOUND")
    other.refresh_token = None

    async def status() -> int:
        return (await other._once("GET", f"{AUTH}/me", None))[0]

    await world.until(status, lambda seen: seen == 401, timeout=within(1))
    assert len((await me.client.get(f"{AUTH}/sessions"))["items"]) == 1


# -- the lockout


@pytest.mark.parametrize("known", [True, False])
async def test_failures_from_any_addresses_lock_the_account_for_all(world: World, known: bool) -> None:
    """The fifth failure locks, wherever the five came from: also at an address from which the operator signed in."""
    me, mine = await an_operator(world, {}), from_an_address(world)
    email = me.email if known else f"{unique('none')}@example.test"
    store_tokens(mine, await login(mine, me.email))
    strangers = [from_an_address(world) for _ in range(12)]
    seen = [one[:2] for one in await at_once(12, lambda n: login(strangers[n], email, WRONG))]
    assert sorted(seen) == [(401, "LOGIN_INVALID")] * 5 + [(423, "ACCOUNT_LOCKED")] * 7
    for device in (mine, strangers[0], from_an_address(world)):
        error = await refused(login(device, email), 423, "ACCOUNT_LOCKED")
        assert 14 * 60 < error["retry_after_seconds"] <= 15 * 60
    overview = await (await world.operator()).get("/internal/overview")
    assert (overview["operators_locked"] > 0) >= known
    assert (await mine.get(f"{AUTH}/me"))["id"] == me.id  # a running sign-in goes on
    await mine.refresh()
    unlock = ("operator", "unlock", "--email", f" {email.upper()}")
    said = world.stack.command(*unlock).stdout
    if known:
        assert "can sign in again" in said
        assert "operator" in await login(from_an_address(world), email)
        after = await (await world.operator()).get("/internal/overview")
        assert after["operators_locked"] < overview["operators_locked"]
    else:
        assert "is no longer locked" in said
        assert "No operator has" in said
        await refused(login(from_an_address(world), email), 401, "LOGIN_INVALID")
        assert "it is not locked" in world.stack.command(*unlock, check=False).stderr


@pytest.mark.parametrize("scope", ["account", "address"])
async def test_signed_in_operator_works_on_during_a_lockout_and_guesses_on_a_device_are_bounded(
    world: World, scope: str
) -> None:
    me, until = (
        await an_enrolled_operator(world, {}),
        "SELECT lockout_until FROM control_center_users WHERE id = $1::uuid",
    )
    other, here = await me.sign_in(), me.client._http.headers["X-Forwarded-For"]
    async with world.setting(cc_login_lockout_scope=scope):
        seen = [(await answer(login(from_an_address(world, here), me.email, WRONG)))[0] for _ in range(6)]
        assert seen == [401] * 5 + [423]
        locked = await world.stack.sql(until, me.id)
        await me.step_up()
        guesses = await at_once(12, lambda _: me.client.post(f"{AUTH}/step-up", {"code": "000000"}))
        assert sorted(one[:2] for one in guesses) == [(400, "TOTP_INVALID")] * 5 + [(423, "ACCOUNT_LOCKED")] * 7
        assert await world.stack.sql(until, me.id) == locked  # a lockout gets no longer by them
        own = {"current_password": PASSWORD, "new_password": "another good one 9"}
        for path, body in (
            ("step-up", {"code": me.code(1)}),
            ("password", own),
            ("totp/begin", {"password": PASSWORD}),
        ):
            error = await refused(me.client.post(f"{AUTH}/{path}", body), 423, "ACCOUNT_LOCKED")
            assert 14 * 60 < error["retry_after_seconds"] <= 15 * 60
        await refused(login(from_an_address(world, here), me.email), 423, "ACCOUNT_LOCKED")
        assert (await other.post(f"{AUTH}/password", own))["id"] == me.id  # which ends all lockouts
        assert "login_token" in await login(from_an_address(world, here), me.email, own["new_password"])


async def test_by_address_a_stranger_cannot_lock_an_operator_out_of_a_known_address(world: World) -> None:
    me, mine, theirs = await an_operator(world, {}), from_an_address(world), from_an_address(world)
    async with world.setting(cc_login_lockout_scope="address"):
        store_tokens(mine, await login(mine, me.email))
        seen = [(await answer(login(theirs, me.email, WRONG)))[0] for _ in range(7)]
        assert seen == [401] * 5 + [423] * 2
        await refused(login(theirs, me.email), 423, "ACCOUNT_LOCKED")
        for device in (mine, from_an_address(world)):
            assert "operator" in await login(device, me.email)


@pytest.mark.parametrize("known", [True, False])
async def test_by_address_failures_from_many_addresses_lock_all_but_known_addresses(world: World, known: bool) -> None:
    me, mine = await an_operator(world, {}), from_an_address(world)
    email = me.email if known else f"{unique('none')}@example.test"
    store_tokens(mine, await login(mine, me.email))
    async with world.setting(cc_login_lockout_scope="address", cc_login_max_attempts_everywhere=8):
        strangers = [from_an_address(world) for _ in range(12)]
        seen = [one[:2] for one in await at_once(12, lambda n: login(strangers[n], email, WRONG))]
        assert sorted(seen) == [(401, "LOGIN_INVALID")] * 8 + [(423, "ACCOUNT_LOCKED")] * 4
        error = await refused(login(from_an_address(world), email), 423, "ACCOUNT_LOCKED")
        assert 15 * 60 < error["retry_after_seconds"] <= 60 * 60
        if known:
            assert "operator" in await login(mine, email)
            assert "operator" in await login(from_an_address(world), email)  # which resets the count


async def test_new_password_ends_every_lockout(world: World) -> None:
    me, root, device = await an_operator(world, {}), await world.operator(), from_an_address(world)
    assert [(await answer(login(device, me.email, WRONG)))[0] for _ in range(6)] == [401] * 5 + [423]
    (row,) = [one for one in (await root.get("/internal/operators", limit=200))["items"] if one["id"] == me.id]
    assert row["locked_until"] is not None
    await root.call("PATCH", f"/internal/operators/{me.id}", {"password": "another good one 9"})
    assert "operator" in await login(device, me.email, "another good one 9")


async def test_locked_sign_in_computes_no_hash(world: World) -> None:
    me, device = await an_operator(world, {}), from_an_address(world)
    assert [(await answer(login(device, me.email, WRONG)))[0] for _ in range(6)] == [401] * 5 + [423]
    # More than may wait for a hash: if these calls needed one, they would be 503.
    seen = await at_once(60, lambda _: login(device, me.email, WRONG))
    assert {one[:2] for one in seen} == {(423, "ACCOUNT_LOCKED")}


async def test_failed_sign_in_is_logged_with_address_and_without_email(world: World) -> None:
    me = await an_enrolled_operator(world, {})
    device = from_an_address(world)
    await refused(login(device, me.email, WRONG), 401, "LOGIN_INVALID")
    token = await me.password_right(device)
    await refused(verify(device, token, code="000000"), 400, "TOTP_INVALID")
    address = device._http.headers["X-Forwarded-For"]

    log = world.stack.log("api").splitlines()
    found = [line for line in log if address in line and "sign-in failed" in line]
    assert len(found) == 2
    assert "LOGIN_INVALID" in found[0]
    assert "TOTP_INVALID" in found[1]
    assert not any(secret in line for line in found for secret in (me.email, WRONG, "000000", ROOT_PASSWORD))


async def test_used_login_token_is_refused_without_waiting_for_its_auth_session(world: World) -> None:
    me = await an_enrolled_operator(world, {})
    device = from_an_address(world)
    token = await me.password_right(device)
    store_tokens(device, await verify(device, token, code=me.code(1)))
    connection = await asyncpg.connect(world.stack.database_url)
    try:
        async with connection.transaction():  # as a password change does: auth sessions first, then the operator
            locked = "SELECT 1 FROM auth_sessions WHERE user_id = $1::text::uuid ORDER BY id FOR UPDATE"
            await connection.execute(locked, me.id)
            async with asyncio.timeout(within(2)):
                await refused(verify(from_an_address(world), token, code=me.code(0)), 401, "LOGIN_TOKEN_INVALID")
            await connection.execute("SELECT 1 FROM control_center_users WHERE id = $1::text::uuid FOR UPDATE", me.id)
    finally:
        await connection.close()


async def test_concurrent_used_login_tokens_and_wrong_codes_never_deadlock(world: World) -> None:
    me = await an_enrolled_operator(world, {})
    device = from_an_address(world)
    token = await me.password_right(device)
    store_tokens(device, await verify(device, token, code=me.code(1)))
    async with world.setting(cc_login_max_attempts=1_000):
        calls = [verify(from_an_address(world), token, code="000000") for _ in range(40)]
        calls += [device.post(f"{AUTH}/step-up", {"code": "000000"}) for _ in range(40)]
        random.shuffle(calls)
        seen = await at_once(len(calls), lambda n: calls[n])
    assert sorted(seen) == [(400, "TOTP_INVALID")] * 40 + [(401, "LOGIN_TOKEN_INVALID")] * 40
