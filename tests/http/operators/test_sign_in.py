"""Operators sign in: the lockout is exact, answers do not reveal which accounts exist, passwords are hard to guess.

See docs/product.md#sign-in-of-operators.
"""

from typing import Any

import pytest

from tests.http.operators.steps import (
    PASSWORD,
    a_role,
    an_account,
    an_operator,
    answer,
    at_once,
    audits,
    signed_in,
    unique,
)
from tests.stack import World, refused, within
from tools.bench.machine import cpu_seconds
from tools.driving.device import Device
from tools.driving.sesi_client import Refused
from tools.driving.throwaway import free_port

pytestmark = pytest.mark.anyio

LOGIN = "/internal/auth/login"
WRONG = "not the password 41"
DEAR_ROUNDS = 9  # so expensive that the rest of an answer does not matter


def try_sign_in(client: Device, email: str, password: str) -> Any:
    """Sign in."""
    return client.post(client.addresses.internal + LOGIN, {"email": email, "password": password})


async def an_email(world: World) -> str:
    """Create an operator without permissions; return their e-mail."""
    root = await world.operator()
    return (await an_account(root, (await a_role(root, {}))["id"]))["email"]


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("limit", [5, 2])
async def test_concurrent_guesses_get_exactly_the_configured_attempts(world: World, known: bool, limit: int) -> None:
    email = await an_email(world) if known else f"{unique('nobody')}@example.test"
    stranger = world.client()
    await world.config("cc_login_max_attempts", limit)
    try:
        seen = [one[:2] for one in await at_once(12, lambda _: try_sign_in(stranger, email, WRONG))]
        assert sorted(seen) == [(401, "LOGIN_INVALID")] * limit + [(423, "ACCOUNT_LOCKED")] * (12 - limit)
        # From here on the right password is refused, too, in any case of letters.
        for spelling in (email, email.upper()):
            error = await refused(try_sign_in(stranger, spelling, PASSWORD), 423, "ACCOUNT_LOCKED")
            assert 0 < error["retry_after_seconds"] <= 15 * 60
        rows = await world.stack.sql("SELECT failed_login_count FROM control_center_users WHERE email = $1", email)
        assert [row[0] for row in rows] == ([limit] if known else [])
    finally:
        await world.config("cc_login_max_attempts", 5)


async def test_successful_sign_in_resets_the_failed_attempts(world: World) -> None:
    email, device = await an_email(world), world.client()
    for _ in range(2):
        assert [(await answer(try_sign_in(device, email, WRONG)))[0] for _ in range(4)] == [401] * 4
        assert (await try_sign_in(device, email.title(), PASSWORD))["operator"]["email"] == email


async def test_lockout_ends_after_its_time_and_resets_the_count(fast_world: World) -> None:
    world = fast_world
    email, device = await an_email(world), world.client()
    await world.config("cc_login_lockout_minutes", 2)  # two seconds here
    try:
        assert [(await answer(try_sign_in(device, email, WRONG)))[0] for _ in range(6)] == [401] * 5 + [423]
        (row,) = [
            o for o in (await (await world.operator()).get("/internal/operators"))["items"] if o["email"] == email
        ]
        assert row["locked_until"] is not None
        await world.until(lambda: answer(try_sign_in(device, email, WRONG)), lambda seen: seen[0] == 401)
        assert [(await answer(try_sign_in(device, email, WRONG)))[0] for _ in range(3)] == [401] * 3
        assert (await try_sign_in(device, email, PASSWORD))["token_type"] == "Bearer"
    finally:
        await world.config("cc_login_lockout_minutes", 15)


async def test_answers_do_not_reveal_which_accounts_exist(world: World) -> None:
    root, stranger = await world.operator(), world.client()
    role = (await a_role(root, {}))["id"]
    emails = {name: f"{unique(name)}@example.test" for name in ("known", "unknown", "disabled")}
    await an_account(root, role, email=emails["known"])
    await an_account(root, role, email=emails["disabled"], disabled=True)
    bodies: dict[str, list[Any]] = {name: [] for name in emails}
    for _ in range(7):
        for name, email in emails.items():
            with pytest.raises(Refused) as caught:
                # The right password of a disabled account is refused like a wrong one.
                await try_sign_in(stranger, email, PASSWORD if name == "disabled" else WRONG)
            error = caught.value.body["error"]
            bodies[name].append((caught.value.status, error["code"], error["message"], set(error)))
    assert bodies["known"] == bodies["unknown"] == bodies["disabled"]
    assert [status for status, *_ in bodies["known"]] == [401] * 5 + [423] * 2


@pytest.mark.slow
async def test_password_is_hashed_for_unknown_accounts_too(world: World) -> None:
    # Measured by the CPU time of a separate process that does nothing else: elapsed time depends on the machine's load.
    stack, root, stranger = world.stack, await world.operator(), world.client()
    public, internal = free_port(), free_port()
    stack.start(
        "api", key="dear", PUBLIC_PORT=str(public), INTERNAL_PORT=str(internal), PASSWORD_ROUNDS=str(DEAR_ROUNDS)
    )
    try:
        stack.wait_ready("api", port=internal, key="dear")
        here, pid = f"http://127.0.0.1:{internal}/internal", stack.processes["dear"].pid
        role = (await a_role(root, {}))["id"]
        emails = {name: f"{unique(name)}@example.test" for name in ("first", "known", "unknown", "disabled")}
        for name in ("known", "disabled"):
            body = {"email": emails[name], "display_name": "Sari", "role_id": role, "password": PASSWORD}
            await root.post(f"{here}/operators", {**body, "disabled": name == "disabled"})
        used = dict.fromkeys(emails, 0.0)
        for _ in range(5):  # in turns, so that a slow moment of the machine meets all of them
            for name, email in emails.items():
                before = cpu_seconds(pid)
                call = stranger.post(f"{here}/auth/login", {"email": email, "password": WRONG})
                await refused(call, 401, "LOGIN_INVALID")
                used[name] += cpu_seconds(pid) - before
        del used["first"]  # it also computed the hash that is used for unknown accounts
        assert max(used.values()) < 2 * min(used.values()), used
    finally:
        stack.stop("dear")


async def test_invalid_new_password_is_422_and_does_not_count(world: World) -> None:
    me = await an_operator(world, {})
    for new in (
        "short",
        "x" * 11,
        "é" * 37,
        "y" * 73,
        "password1234",
        "PassWord1234",
        "aaaaaaaaaaaa",
        "good enough\0 here",
    ):
        call = me.client.post("/internal/auth/password", {"current_password": PASSWORD, "new_password": new})
        error = await refused(call, 422, "VALIDATION_ERROR")
        assert [item["field"] for item in error["details"]["fields"]] == ["new_password"], new
    assert await audits(world, me.id) == [
        row for row in await audits(world, me.id) if row["action"] == "operator.created"
    ]
    assert (await signed_in(world, me.email)).user["id"] == me.id


async def test_password_change_signs_out_other_devices_and_ends_the_old_password(world: World) -> None:
    me = await an_operator(world, {})
    other, new = await signed_in(world, me.email), "é" * 36  # 72 bytes, the maximum
    new = "A1b2" + new[:34]
    old_refresh, other.refresh_token = other.refresh_token, None
    body = {"current_password": PASSWORD, "new_password": new}
    assert (await me.client.post("/internal/auth/password", body))["id"] == me.id
    assert (await me.client.get("/internal/auth/me"))["id"] == me.id

    async def status() -> int:
        return (await other._once("GET", "/internal/auth/me", None))[0]

    await world.until(status, lambda seen: seen == 401, timeout=within(1))
    await refused(other.post("/internal/auth/refresh", {"refresh_token": old_refresh}), 401, "REFRESH_INVALID")
    await refused(try_sign_in(world.client(), me.email, PASSWORD), 401, "LOGIN_INVALID")
    assert (await signed_in(world, me.email, new)).user["id"] == me.id
    await me.client.refresh()
    assert [row["action"] for row in await audits(world, me.id)] == ["operator.created", "operator.password_changed"]


async def test_wrong_current_password_counts_and_locks(world: World) -> None:
    me = await an_operator(world, {})
    wrong = {"current_password": WRONG, "new_password": "another good one 9"}
    seen = [one[:2] for one in await at_once(9, lambda _: me.client.post("/internal/auth/password", wrong))]
    # After a 401 the client refreshes and calls again: both calls count.
    assert {(401, "LOGIN_INVALID"), (423, "ACCOUNT_LOCKED")} >= set(seen)
    right = {**wrong, "current_password": PASSWORD}
    error = await refused(me.client.post("/internal/auth/password", right), 423, "ACCOUNT_LOCKED")
    assert error["retry_after_seconds"] > 0
    await refused(try_sign_in(world.client(), me.email, PASSWORD), 423, "ACCOUNT_LOCKED")
    rows = await world.stack.sql("SELECT failed_login_count FROM control_center_users WHERE email = $1", me.email)
    assert rows[0][0] == 5


async def test_operator_refresh_and_logout_refuse_other_tokens(world: World) -> None:
    me, customer = await an_operator(world, {}), await world.customer()
    internal, public = world.stack.addresses.internal, world.stack.addresses.public
    stranger = world.client()
    for where, path, token in (
        (internal, "/internal/auth/refresh", customer.refresh_token),
        (public, "/api/shared/auth/refresh", me.client.refresh_token),
    ):
        await refused(stranger.post(where + path, {"refresh_token": token}), 401, "REFRESH_INVALID")
    await me.client.refresh()  # nothing was revoked
    await customer.refresh()
    for client, where, path in ((customer, internal, "/internal/auth/me"), (me.client, public, "/api/client/auth/me")):
        refresh_token, client.refresh_token = client.refresh_token, None
        await refused(client.get(where + path), 401, "UNAUTHENTICATED")
        client.refresh_token = refresh_token
    refresh_token, me.client.refresh_token = me.client.refresh_token, None
    assert await me.client.post("/internal/auth/logout") == me.client.user

    async def status() -> int:
        return (await me.client._once("GET", "/internal/auth/me", None))[0]

    await world.until(status, lambda seen: seen == 401, timeout=within(1))
    body = {"refresh_token": refresh_token}
    await refused(stranger.post(internal + "/internal/auth/refresh", body), 401, "REFRESH_INVALID")
