"""A user's devices and their push tokens (docs/product.md#devices)."""

import asyncio
import secrets
from typing import Any

import pytest

from tests.http.sign_in.outside import IdentityServer
from tests.http.sign_in.people import (
    MITRA_ASK,
    MITRA_VERIFY,
    all_at_once,
    anonymous,
    ask,
    by_identity,
    claims_of,
    device,
    forget_codes,
    me_status,
    new_subject,
    raw,
    refusal,
    store_tokens,
    token_ends,
    verify,
)
from tests.sockets.plain_socket import bare_and_known
from tests.stack import World, new_id, within
from tools.driving.device import Device
from tools.driving.sesi_client import Refused

pytestmark = pytest.mark.anyio

SESSIONS, PUSH, REFRESH = "/api/shared/auth/sessions", "/api/shared/push-token", "/api/shared/auth/refresh"


def sid(client: Device) -> str:
    """Return a device's auth session id."""
    return claims_of(client.access_token)["sid"]


def a_token() -> str:
    """Return a new push token."""
    return "push-" + secrets.token_hex(20)


async def devices(world: World, provider: IdentityServer, count: int = 3) -> list[Device]:
    """Return several devices of one customer, the oldest first."""
    subject = new_subject()
    return [store_tokens(device(world), await by_identity(device(world), provider, subject)) for _ in range(count)]


async def mitra_devices(world: World, count: int = 2) -> list[Device]:
    """Return several devices of one mitra."""
    first = await world.mitra(online=False)
    found = [first]
    for _ in range(count - 1):
        await forget_codes(world, first.user["phone"])
        client = device(world)
        asked = await ask(client, first.user["phone"], path=MITRA_ASK)
        code = await world.stack.inbox.code_of(asked["otp_request_id"])
        found.append(store_tokens(client, await verify(client, asked, code, path=MITRA_VERIFY)))
    return found


async def register(client: Device, push_token: str | None) -> None:
    """Register a push token for a device; None removes it."""
    status, answer, _ = await raw(client, "PUT", PUSH, {"push_token": push_token})
    assert (status, answer) == (204, None)


async def push_tokens_of(world: World, *clients: Device) -> list[str | None]:
    """Return the push tokens of the devices' auth sessions."""
    rows = await world.stack.sql(
        "SELECT id::text, push_token FROM auth_sessions WHERE id = ANY($1::text[]::uuid[])", [sid(c) for c in clients]
    )
    found = {row["id"]: row["push_token"] for row in rows}
    return [found[sid(client)] for client in clients]


async def column(world: World, client: Device) -> str | None:
    """Return the push token in the user's row."""
    table = "customers" if "is_anonymous" in client.user else "mitras"
    (row,) = await world.stack.sql(f"SELECT push_token FROM {table} WHERE id = $1::text::uuid", client.user["id"])
    return row["push_token"]


# -- devices


async def test_device_list_is_newest_first_and_only_the_users(world: World, provider_a: IdentityServer) -> None:
    subject, made = new_subject(), []
    for n in range(3):
        client = device(world)
        body = {"identity_token": provider_a.token(subject)}
        headers = (
            {"User-Agent": f"Sesi/{n}", "X-Platform": "android", "X-App-Version": f"1.{n}"} if n else {"User-Agent": ""}
        )
        made.append(
            store_tokens(client, (await raw(client, "POST", "/api/client/auth/identity-a", body, **headers))[1])
        )
    await devices(world, provider_a, 1)  # another customer's device
    page = await made[1].get(SESSIONS)
    assert (set(page), page["next_cursor"]) == ({"items", "next_cursor"}, None)
    assert [item["id"] for item in page["items"]] == [sid(client) for client in reversed(made)]
    assert [item["current"] for item in page["items"]] == [False, True, False]
    for item in page["items"]:
        assert set(item) == {"id", "device_info", "created_at", "last_used_at", "expires_at", "current"}
        assert all(item[name].endswith("Z") for name in ("created_at", "last_used_at", "expires_at"))
    assert [item["device_info"] for item in page["items"]] == [
        {"user_agent": "Sesi/2", "platform": "android", "app_version": "1.2"},
        {"user_agent": "Sesi/1", "platform": "android", "app_version": "1.1"},
        {"user_agent": None, "platform": None, "app_version": None},
    ]
    # All pages.
    seen, cursor = [], None
    while True:
        page = await made[0].get(SESSIONS, limit=1, **({"cursor": cursor} if cursor else {}))
        seen += [item["id"] for item in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == [sid(client) for client in reversed(made)]


async def test_long_device_headers_are_truncated(world: World) -> None:
    client = device(world)
    headers = {"User-Agent": "u" * 5000, "X-Platform": "ü" * 500, "X-App-Version": "v" * 500}
    store_tokens(client, (await raw(client, "POST", "/api/shared/auth/anonymous", None, **headers))[1])
    (item,) = (await client.get(SESSIONS))["items"]
    info = item["device_info"]
    assert (info["user_agent"], info["app_version"]) == ("u" * 300, "v" * 40)
    assert len(info["platform"]) == 40


async def test_refresh_updates_last_used_at(world: World) -> None:
    client = await anonymous(world)
    (before,) = (await client.get(SESSIONS))["items"]
    await client.refresh()
    (after,) = (await client.get(SESSIONS))["items"]
    assert after["id"] == before["id"]
    assert after["last_used_at"] > before["last_used_at"]
    assert after["expires_at"] > before["expires_at"]


async def test_device_routes_serve_mitras_and_refuse_operators(world: World) -> None:
    first, second = await mitra_devices(world)
    assert [item["id"] for item in (await first.get(SESSIONS))["items"]] == [sid(second), sid(first)]
    operator = await world.operator()
    outsider = device(world)
    outsider.access_token = operator.access_token
    for method, path in (("GET", SESSIONS), ("DELETE", f"{SESSIONS}/{sid(first)}"), ("PUT", PUSH)):
        assert (await refusal(outsider, method, path, {"push_token": "x"} if method == "PUT" else None))[0] == 401
        assert (await refusal(device(world), method, path, {"push_token": "x"} if method == "PUT" else None))[0] == 401


async def test_ending_another_device_ends_its_tokens_and_sockets(world: World, provider_a: IdentityServer) -> None:
    first, second, third = await devices(world, provider_a)
    sockets = [(await bare_and_known(second, path))[0] for path in ("chat", "pairing")]
    stays, _ = await bare_and_known(first)
    status, answer, _ = await raw(first, "DELETE", f"{SESSIONS}/{sid(second)}")
    assert (status, answer["id"], answer["current"]) == (200, sid(second), False)
    await token_ends(world, second)
    assert [await socket.code(within(1)) for socket in sockets] == [4403, 4403]
    assert (await refusal(device(world), "POST", REFRESH, {"refresh_token": second.refresh_token}))[
        1
    ] == "REFRESH_INVALID"
    assert [item["id"] for item in (await first.get(SESSIONS))["items"]] == [sid(third), sid(first)]
    await stays.say({"type": "ping"})
    await stays.next_frame_of("pong")
    assert await me_status(third) == 200


async def test_ending_the_current_device_succeeds(world: World, provider_a: IdentityServer) -> None:
    first, second = await devices(world, provider_a, 2)
    status, answer, _ = await raw(first, "DELETE", f"{SESSIONS}/{sid(first)}")
    assert (status, answer["current"]) == (200, True)
    await token_ends(world, first)
    assert await me_status(second) == 200


async def test_ending_foreign_ended_or_unknown_device_is_404(world: World, provider_a: IdentityServer) -> None:
    first, second = await devices(world, provider_a, 2)
    stranger, mitra = await anonymous(world), await world.mitra(online=False)
    operator = await world.operator()
    gone = sid(second)
    assert (await raw(first, "DELETE", f"{SESSIONS}/{gone}"))[0] == 200
    for path in (
        gone,
        sid(stranger),
        sid(mitra),
        sid(operator),
        new_id(),
        "x",
        "0",
        "00000000-0000-0000-0000-000000000000",
    ):
        assert (await refusal(first, "DELETE", f"{SESSIONS}/{path}"))[:2] == (404, "NOT_FOUND"), path
    assert await me_status(stranger) == 200
    assert (await mitra.get("/api/mitra/auth/me"))["id"] == mitra.user["id"]
    assert (await operator.get("/internal/auth/me"))["id"] == operator.user["id"]


async def test_concurrent_ends_of_one_device_succeed_once(world: World, provider_a: IdentityServer) -> None:
    made = await devices(world, provider_a, 4)
    target = made.pop()
    calls = [client.call("DELETE", f"{SESSIONS}/{sid(target)}") for client in made for _ in range(5)]
    answers = await all_at_once(calls)
    assert sum(not isinstance(answer, Refused) for answer in answers) == 1
    assert {answer.status for answer in answers if isinstance(answer, Refused)} == {404}


async def test_expired_devices_are_not_listed(world: World, provider_a: IdentityServer) -> None:
    first, second = await devices(world, provider_a, 2)
    await world.stack.sql(
        "UPDATE auth_sessions SET expires_at = now() - interval '1 second' WHERE id = $1::text::uuid", sid(second)
    )
    assert [item["id"] for item in (await first.get(SESSIONS))["items"]] == [sid(first)]
    assert (await refusal(first, "DELETE", f"{SESSIONS}/{sid(second)}"))[0] == 404


# -- push tokens


@pytest.mark.parametrize("many", [devices, mitra_devices])
async def test_push_token_is_kept_per_device_and_the_newest_for_the_user(
    world: World, provider_a: IdentityServer, many: Any
) -> None:
    first, second = await (devices(world, provider_a, 2) if many is devices else mitra_devices(world))
    one, two, three = a_token(), a_token(), a_token()
    await register(first, one)
    assert (await push_tokens_of(world, first, second), await column(world, first)) == ([one, None], one)
    await register(second, two)
    assert (await push_tokens_of(world, first, second), await column(world, first)) == ([one, two], two)
    await register(first, three)
    assert (await push_tokens_of(world, first, second), await column(world, first)) == ([three, two], three)
    await register(first, three)  # as the app does at every start
    await register(first, None)
    assert (await push_tokens_of(world, first, second), await column(world, first)) == ([None, two], two)
    await register(second, None)
    await register(second, None)
    assert (await push_tokens_of(world, first, second), await column(world, first)) == ([None, None], None)


async def test_push_enabled_is_true_only_with_a_push_token(world: World) -> None:
    client = await anonymous(world)
    for push_token, enabled in ((a_token(), True), (None, False)):
        await register(client, push_token)
        assert (await client.get("/api/client/auth/me"))["push_enabled"] is enabled


async def test_push_token_belongs_to_the_device_that_registered_last(world: World, provider_a: IdentityServer) -> None:
    (first, second), stranger = await devices(world, provider_a, 2), await anonymous(world)
    mitra = await world.mitra(online=False)
    token, other = a_token(), a_token()
    await register(first, other)
    for owner in (second, stranger, mitra, first, mitra, second):
        await register(owner, token)
        assert [one == token for one in await push_tokens_of(world, first, second, stranger, mitra)] == [
            one is owner for one in (first, second, stranger, mitra)
        ]
        for user in (first, stranger, mitra):
            mine = user.user["id"] == owner.user["id"]
            assert (await column(world, user) == token) is mine
    rows = await world.stack.sql("SELECT 1 FROM auth_sessions WHERE push_token = $1", token)
    assert len(rows) == 1


@pytest.mark.parametrize("end", ["logout", "removal", "own removal"])
async def test_ended_device_loses_its_push_token_and_user_falls_back_to_another(
    world: World, provider_a: IdentityServer, end: str
) -> None:
    first, second, third = await devices(world, provider_a)
    tokens = [a_token() for _ in range(3)]
    for client, token in zip((second, first, third), tokens, strict=True):
        await register(client, token)
    for ends, falls_back in ((third, tokens[1]), (first, tokens[0])):
        if end == "logout":
            await raw(ends, "POST", "/api/shared/auth/logout")
        else:
            by = ends if end == "own removal" else second
            assert (await raw(by, "DELETE", f"{SESSIONS}/{sid(ends)}"))[0] == 200
        assert await push_tokens_of(world, ends) == [None]
        assert await column(world, second) == falls_back
    await token_ends(world, third)
    assert (await refusal(third, "PUT", PUSH, {"push_token": a_token()}))[0] == 401


async def test_merge_moves_the_anonymous_devices_push_token(world: World, provider_a: IdentityServer) -> None:
    subject, token = new_subject(), a_token()
    account = store_tokens(device(world), await by_identity(device(world), provider_a, subject))
    client = await anonymous(world)
    await register(client, token)
    joined = store_tokens(device(world), await by_identity(client, provider_a, subject))
    assert await push_tokens_of(world, client, joined) == [None, token]
    assert [await column(world, one) for one in (client, account)] == [None, token]
    await register(joined, token)
    assert await column(world, account) == token


async def test_push_token_registered_elsewhere_while_its_device_signs_in_has_one_owner(
    world: World, provider_a: IdentityServer
) -> None:
    subject = new_subject()
    others = [
        store_tokens(device(world), await by_identity(device(world), provider_a, subject)),
        *await mitra_devices(world),
    ]
    for round_ in range(8):
        client, token = await anonymous(world), a_token()
        await register(client, token)
        joins = by_identity(client, provider_a, subject if round_ % 2 else new_subject())
        puts = [register(one, token) for one in others]
        answers = await all_at_once([joins, *puts] if round_ % 4 < 2 else [*puts, joins])
        assert not [one for one in answers if isinstance(one, Refused)]
        rows = await world.stack.sql("SELECT id::text FROM auth_sessions WHERE push_token = $1", token)
        assert len(rows) == 1


async def test_upgrade_keeps_the_push_token(world: World, provider_a: IdentityServer) -> None:
    client, token = await anonymous(world), a_token()
    await register(client, token)
    answer = await by_identity(client, provider_a, new_subject())
    assert answer["customer"]["push_enabled"] is True
    after = store_tokens(device(world), answer)
    assert await push_tokens_of(world, client, after) == [None, token]
    assert await column(world, after) == token


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"push_token": ""},
        {"push_token": "x" * 256},
        {"push_token": 5},
        {"push_token": "a\0b"},
        {"push_token": ["x"]},
    ],
)
async def test_push_token_that_is_not_1_to_255_characters_or_null_is_422(world: World, body: Any) -> None:
    client = await anonymous(world)
    status, code, error = await refusal(client, "PUT", PUSH, body)
    assert (status, code, [item["field"] for item in error["details"]["fields"]]) == (
        422,
        "VALIDATION_ERROR",
        ["push_token"],
    )
    await register(client, "x" * 200 + secrets.token_hex(27) + "y")


async def test_push_token_registered_concurrently_has_one_owner(world: World, provider_a: IdentityServer) -> None:
    made = [*await devices(world, provider_a, 3), await anonymous(world), *await mitra_devices(world)]
    for _ in range(4):
        token = a_token()
        await all_registered(made, [token])
        owners = [client for client, one in zip(made, await push_tokens_of(world, *made), strict=True) if one == token]
        assert len(owners) == 1
        columns = {client.user["id"]: await column(world, client) for client in made}
        assert [user for user, one in columns.items() if one == token] == [owners[0].user["id"]]


async def test_concurrent_registrations_of_many_push_tokens_stay_one_to_one(
    world: World, provider_a: IdentityServer
) -> None:
    made = [*await devices(world, provider_a, 3), *await devices(world, provider_a, 2), await anonymous(world)]
    tokens = [a_token() for _ in range(4)]
    for _ in range(4):
        await all_registered(made, tokens)
        held = [one for one in await push_tokens_of(world, *made) if one is not None]
        assert len(held) == len(set(held))
        for client in made:
            theirs = [one for one in made if one.user["id"] == client.user["id"]]
            newest = await world.stack.sql(
                """SELECT push_token FROM auth_sessions WHERE id = ANY($1::text[]::uuid[]) AND push_token IS NOT NULL
                   ORDER BY push_token_at DESC""",
                [sid(one) for one in theirs],
            )
            assert await column(world, client) in [row["push_token"] for row in newest] or newest == []
            assert await column(world, client) is not None or newest == []


async def all_registered(clients: list[Device], tokens: list[str]) -> None:
    """Register every token for every device, concurrently; no call may fail."""
    dice = secrets.SystemRandom()
    calls = [client.call("PUT", PUSH, {"push_token": token}) for client in clients for token in tokens]
    dice.shuffle(calls)
    answers = await all_at_once(calls)
    assert [answer for answer in answers if answer is not None] == []


async def test_devices_ended_concurrently_leave_no_push_token(world: World, provider_a: IdentityServer) -> None:
    for _ in range(5):
        *leaving, stays = await devices(world, provider_a, 4)
        token = a_token()
        await register(stays, token)
        for client in leaving:
            await register(client, a_token())
        await all_at_once([client.call("POST", "/api/shared/auth/logout") for client in leaving])
        assert await column(world, stays) == token
        await register(stays, None)
        assert await column(world, stays) is None


async def test_mitra_deactivated_during_sign_in_keeps_no_device(world: World) -> None:
    mitra = await world.mitra(online=False)
    await forget_codes(world, mitra.user["phone"])
    client = device(world)
    asked = await ask(client, mitra.user["phone"], path=MITRA_ASK)
    code = await world.stack.inbox.code_of(asked["otp_request_id"])
    operator = await world.operator()
    async with world.stack.transaction() as holder:
        # Stops the sign-in after its device was created.
        await holder.execute("LOCK TABLE otp_requests IN SHARE MODE")
        signing_in = asyncio.create_task(verify(client, asked, code, path=MITRA_VERIFY))
        await waiting(world, "otp_requests")
        change = operator.call("PATCH", f"/internal/mitras/{mitra.user['id']}", {"is_active": False})
        deactivating = asyncio.create_task(change)
        await asyncio.sleep(0.3)
    answer = await signing_in
    await deactivating
    assert (await raw(store_tokens(client, answer), "GET", "/api/mitra/auth/me"))[0] == 401
    sql = "SELECT 1 FROM auth_sessions WHERE user_id = $1 AND revoked_at IS NULL"
    assert await world.stack.sql(sql, mitra.user["id"]) == []


async def waiting(world: World, table: str) -> None:
    """Wait until a transaction waits for a lock on this table."""
    sql = "SELECT 1 FROM pg_locks WHERE relation = $1::regclass AND NOT granted"
    await world.until(lambda: world.stack.sql(sql, table), bool)
