"""What happens to each credential of a user's devices at each event that may end a sign-in
(docs/product.md#end-of-a-sign-in)."""

import contextlib
import secrets
from collections.abc import Awaitable, Callable
from typing import Any

import attrs
import pytest

from tests.http.operators.second_factor import from_an_address
from tests.http.operators.steps import PASSWORD, a_role, an_account
from tests.http.sign_in.outside import IdentityServer
from tests.http.sign_in.people import (
    MITRA_ASK,
    MITRA_VERIFY,
    anonymous,
    ask,
    by_identity,
    by_phone,
    claims_of,
    device,
    forget_codes,
    new_number,
    new_subject,
    proof,
    raw,
    store_tokens,
    verify,
)
from tests.sockets.plain_socket import PlainSocket, bare_and_known
from tests.stack import World, within
from tools.driving.device import Device

pytestmark = pytest.mark.anyio

REFRESH, PUSH, SESSIONS = "/api/shared/auth/refresh", "/api/shared/push-token", "/api/shared/auth/sessions"
TOKEN_OF = "SELECT push_token FROM auth_sessions WHERE id = $1::text::uuid"
OWNER_OF = "SELECT user_id::text FROM auth_sessions WHERE push_token = $1"
LATER = "UPDATE auth_sessions SET rotated_at = rotated_at - interval '1 minute' WHERE id = $1::text::uuid"


@attrs.define(kw_only=True)
class EndedDevice:
    """The credentials of a signed-in device, as they were before the event. Operators have neither sockets nor pushes."""

    access: str
    refresh: str
    base: str
    sockets: list[PlainSocket]
    push: str | None

    @property
    def sid(self) -> str:
        return claims_of(self.access)["sid"]


async def taken(client: Device) -> EndedDevice:
    """Return the credentials of a client's device, with an open socket of each kind and a push token."""
    assert client.access_token is not None
    assert client.refresh_token is not None
    is_operator = claims_of(client.access_token)["aud"] == "internal"
    push = None if is_operator else "push-" + secrets.token_hex(20)
    if push is not None:
        await client.call("PUT", PUSH, {"push_token": push})
    sockets = [] if is_operator else [(await bare_and_known(client, path))[0] for path in ("chat", "pairing")]
    return EndedDevice(
        access=client.access_token, refresh=client.refresh_token, base=client._base, sockets=sockets, push=push
    )


@attrs.define(kw_only=True)
class Scene:
    """The devices of one user before an event, and the event."""

    devices: dict[str, EndedDevice]
    event: Callable[[], Awaitable[Any]]


Make = Callable[[World, IdentityServer], Awaitable[Scene]]


async def upgrade(world: World, _: IdentityServer) -> Scene:
    client = await anonymous(world)
    return Scene(devices={"own": await taken(client)}, event=lambda: by_phone(world, client, new_number()))


async def join(world: World, provider: IdentityServer) -> Scene:
    subject = new_subject()
    old = store_tokens(device(world), await by_identity(device(world), provider, subject))
    client = await anonymous(world)
    return Scene(
        devices={"own": await taken(client), "account's": await taken(old)},
        event=lambda: by_identity(client, provider, subject),
    )


async def erasure(world: World, _: IdentityServer) -> Scene:
    number = new_number()
    first, second = device(world), device(world)
    for client in (first, second):
        await forget_codes(world, number)
        store_tokens(client, await by_phone(world, client, number))
    body = await proof(world, number)
    return Scene(
        devices={"own": await taken(first), "other": await taken(second)},
        event=lambda: first.post("/api/client/auth/me/erase", body),
    )


async def mitras(world: World, _: IdentityServer) -> tuple[Device, Device]:
    """Return two devices of one mitra, who is online."""
    first = await world.mitra()
    world.stop_heartbeats(first)
    await forget_codes(world, first.user["phone"])
    second = device(world)
    asked = await ask(second, first.user["phone"], path=MITRA_ASK)
    code = await world.stack.inbox.code_of(asked["otp_request_id"])
    return first, store_tokens(second, await verify(second, asked, code, path=MITRA_VERIFY))


def by_operator(**change: Any) -> Make:
    async def make(world: World, provider: IdentityServer) -> Scene:
        first, second = await mitras(world, provider)
        operator = await world.operator()
        wanted = {name: value() if callable(value) else value for name, value in change.items()}
        return Scene(
            devices={"own": await taken(first), "other": await taken(second)},
            event=lambda: operator.call("PATCH", f"/internal/mitras/{first.user['id']}", wanted),
        )

    return make


async def logout(world: World, provider: IdentityServer) -> Scene:
    first, second = await mitras(world, provider)
    devices = {"own": await taken(first), "other": await taken(second)}
    return Scene(devices=devices, event=lambda: first.post("/api/shared/auth/logout"))


async def removal(world: World, provider: IdentityServer) -> Scene:
    first, second = await mitras(world, provider)
    devices = {"own": await taken(first), "other": await taken(second)}
    return Scene(devices=devices, event=lambda: second.call("DELETE", f"{SESSIONS}/{devices['own'].sid}"))


async def reuse(world: World, provider: IdentityServer) -> Scene:
    first, second = await mitras(world, provider)
    used = first.refresh_token
    for _ in range(2):
        await first.refresh()
    devices = {"own": await taken(first), "other": await taken(second)}
    await world.stack.sql("UPDATE auth_sessions SET used_tokens = NULL WHERE id = $1::text::uuid", devices["own"].sid)
    await world.stack.sql(LATER, devices["own"].sid)
    return Scene(devices=devices, event=lambda: raw(device(world), "POST", REFRESH, {"refresh_token": used}))


async def operators(world: World) -> tuple[str, str, Device, Device]:
    """Return an operator: their id, their role's id and two devices."""
    root = await world.operator()
    role = await a_role(root, {"sessions": "read"})
    made = await an_account(root, role["id"])
    first, second = from_an_address(world), from_an_address(world)
    for client in (first, second):
        await client.sign_in_as_operator(made["email"], PASSWORD)
    return made["id"], role["id"], first, second


async def password_change(world: World, _: IdentityServer) -> Scene:
    *_ids, first, second = await operators(world)
    body = {"current_password": PASSWORD, "new_password": "another quite long password 8"}
    devices = {"own": await taken(first), "other": await taken(second)}
    return Scene(devices=devices, event=lambda: first.post("/internal/auth/password", body))


def of_operator(path: str, **change: Any) -> Make:
    async def make(world: World, _: IdentityServer) -> Scene:
        operator_id, role_id, first, second = await operators(world)
        root = await world.operator()
        route = path.format(operator=operator_id, role=role_id)
        devices = {"own": await taken(first), "other": await taken(second)}
        return Scene(devices=devices, event=lambda: root.call("PATCH", route, change))

    return make


DIES = {"access": "dies", "refresh": "dies", "sockets": "4403", "push": "dies"}
REPLACED = {"access": "dies", "refresh": "dies", "sockets": "4401", "push": "moves"}
LIVES = {"access": "lives", "refresh": "lives", "sockets": "live", "push": "lives"}
NONE = {"sockets": "none", "push": "none"}  # operators have neither
# Event -> device -> what happens to each credential, or why it goes on.
TABLE: dict[str, tuple[Make, dict[str, dict[str, str]]]] = {
    # The new auth session of the same device takes over; other devices of an anonymous customer are copies.
    "upgrade": (upgrade, {"own": REPLACED}),
    # The account's devices belong to the person who has just proven it; their sockets return with the joined sessions.
    "join": (join, {"own": REPLACED, "account's": LIVES | {"sockets": "1012"}}),
    "number change": (by_operator(phone=new_number), {"own": DIES, "other": DIES}),
    "deactivation": (by_operator(is_active=False), {"own": DIES, "other": DIES}),
    "mitra renamed": (by_operator(display_name="Sari"), {"own": LIVES, "other": LIVES}),  # no way to sign in changes
    "erasure": (erasure, {"own": DIES, "other": DIES}),
    "logout": (logout, {"own": DIES, "other": LIVES}),  # a device is signed in alone
    "removal": (removal, {"own": DIES, "other": LIVES}),
    "reuse": (reuse, {"own": DIES, "other": LIVES}),  # the copied token is of one device
    # The device from which it was changed has proven the old password.
    "password change": (password_change, {"own": LIVES | NONE, "other": DIES | NONE}),
    "password set by another": (
        of_operator("/internal/operators/{operator}", password="a chosen long password 9"),
        {"own": DIES | NONE, "other": DIES | NONE},
    ),
    # Rights are read with every request, so no token carries the old ones.
    "role change": (
        of_operator("/internal/roles/{role}", permissions={"payments": "read"}),
        {"own": LIVES | NONE, "other": LIVES | NONE},
    ),
    "operator disabled": (
        of_operator("/internal/operators/{operator}", disabled=True),
        {"own": DIES | NONE, "other": DIES | NONE},
    ),
}


async def fate_of_access(world: World, one: EndedDevice) -> str:
    path = "/internal/auth/me" if not one.sockets else SESSIONS
    headers = {"Authorization": f"Bearer {one.access}"}
    async with world.client()._http.get(one.base + path, headers=headers) as answer:
        return {200: "lives", 401: "dies"}[answer.status]


async def fate_of_refresh(world: World, one: EndedDevice) -> str:
    path = "/internal/auth/refresh" if not one.sockets else REFRESH
    async with world.client()._http.post(one.base + path, json={"refresh_token": one.refresh}) as answer:
        return {200: "lives", 401: "dies"}[answer.status]


async def fate_of_sockets(one: EndedDevice) -> str:
    fates = set()
    for socket in one.sockets:
        with contextlib.suppress(ConnectionError):
            await socket.say({"type": "ping"})
        with contextlib.suppress(TypeError):  # a close frame instead of a text
            await socket.next_frame_of("pong")
            fates.add("live")
            continue
        fates.add(str(socket.ws.close_code))
    return " ".join(sorted(fates)) or "none"


async def fate_of_push(world: World, one: EndedDevice) -> str:
    if one.push is None:
        return "none"
    (row,) = await world.stack.sql(TOKEN_OF, one.sid)
    if row["push_token"] == one.push:
        return "lives"
    return "moves" if await world.stack.sql(OWNER_OF, one.push) else "dies"


@pytest.mark.parametrize("event", TABLE)
async def test_each_credential_ends_or_goes_on_as_the_table_says(
    world: World, provider_a: IdentityServer, event: str
) -> None:
    make, expected = TABLE[event]
    scene = await make(world, provider_a)
    assert set(scene.devices) == set(expected)
    await scene.event()
    for name, one in scene.devices.items():
        ends = expected[name]["access"]
        await world.until(
            lambda one=one: fate_of_access(world, one), lambda fate, ends=ends: fate == ends, timeout=within(1)
        )
        if expected[name]["sockets"] not in ("live", "none"):
            for socket in one.sockets:
                await socket.code()
    found = {
        name: {
            "access": await fate_of_access(world, one),
            "sockets": await fate_of_sockets(one),
            "push": await fate_of_push(world, one),
            "refresh": await fate_of_refresh(world, one),
        }
        for name, one in scene.devices.items()
    }
    assert found == expected
