"""A sign-in that ends the token of the request can be repeated with an Idempotency-Key
(docs/protocol.md#moving-from-anonymous-to-known)."""

import asyncio
import json
from typing import Any

import pytest

from tests.http.sign_in.outside import IdentityServer
from tests.http.sign_in.people import (
    IDENTITY,
    VERIFY,
    anonymous,
    by_identity,
    claims_of,
    device,
    me_status,
    new_number,
    new_subject,
    proof,
    raw,
    store_tokens,
    token_ends,
)
from tests.stack import World, new_id
from tools.driving.device import Device

pytestmark = pytest.mark.anyio

OLDER = "UPDATE auth_sessions SET created_at = created_at - $2::text::interval WHERE id = $1::text::uuid"
USED_EARLIER = (
    "UPDATE used_identity_tokens SET used_at = used_at - interval '2 minutes' WHERE auth_session_id = $1::text::uuid"
)
STORED = "SELECT row_to_json(k)::text AS row FROM idempotency_keys k WHERE user_id = $1::text::uuid"


async def sent(client: Device, path: str, body: dict[str, Any], key: str | None) -> tuple[int, Any]:
    """Send a sign-in with the client's token and a key; return status and answer."""
    headers = {} if key is None else {"Idempotency-Key": key}
    status, answer, _ = await raw(client, "POST", path, body, **headers)
    return status, answer


def but_left(sent: tuple[int, Any]) -> tuple[int, Any]:
    """Return a status and answer without the time that is left of the access token."""
    return sent[0], {name: value for name, value in sent[1].items() if name != "expires_in"}


async def requests(world: World, provider: IdentityServer) -> list[tuple[str, Device, str, dict[str, Any]]]:
    """Return a sign-in of each kind that ends the token of an anonymous customer: (kind, caller, path, body)."""
    subject, number = new_subject(), new_number()
    store_tokens(device(world), await by_identity(device(world), provider, subject))
    store_tokens(device(world), await raw_answer(device(world), await proof(world, number)))
    found = [("upgrade by code", VERIFY, await proof(world, new_number()))]
    found.append(("join by code", VERIFY, await proof(world, number)))
    found.append(("upgrade by identity", IDENTITY["a"], {"identity_token": provider.token(new_subject())}))
    found.append(("join by identity", IDENTITY["a"], {"identity_token": provider.token(subject)}))
    return [(kind, await anonymous(world), path, body) for kind, path, body in found]


async def opened_earlier(world: World, answer: dict[str, Any], body: dict[str, Any]) -> str:
    """Return the auth session of a sign-in. An identity token's own repeat is over, so that only the key is left."""
    sid = claims_of(answer["access_token"])["sid"]
    if "identity_token" in body:
        await world.stack.sql(USED_EARLIER, sid)
    return sid


async def raw_answer(client: Device, body: dict[str, Any]) -> dict[str, Any]:
    return (await raw(client, "POST", VERIFY, body))[1]


async def test_repeat_with_the_ended_token_and_the_same_key_gets_the_same_answer(
    world: World, provider_a: IdentityServer
) -> None:
    for kind, client, path, body in await requests(world, provider_a):
        key = new_id()
        first, second = await asyncio.gather(*(sent(client, path, body, key) for _ in range(2)))
        assert (first[0], but_left(second)) == (200, but_left(first)), kind
        await token_ends(world, client)
        sid = await opened_earlier(world, first[1], body)
        assert but_left(await sent(client, path, body, key)) == but_left(first), kind
        (row,) = await world.stack.sql(STORED, client.user["id"])
        assert json.loads(json.loads(row["row"])["answer"]) == {"auth_session_id": sid}  # no token is stored
        refused = 401 if "identity_token" in body else 400
        assert (await sent(client, path, body, None))[0] == refused, kind
        assert (await sent(client, path, body, new_id()))[0] == refused, kind
        assert (await sent(device(world), path, body, key))[0] == refused, kind  # without the token
        other = {**body, "code": "000000"} if "code" in body else {"identity_token": body["identity_token"][:-1]}
        assert (await sent(client, path, other, key))[0] == refused, kind  # never 409
        # The repeated tokens work, and are of no use to a repeat once the device has refreshed them.
        again = store_tokens(device(world), (await sent(client, path, body, key))[1])
        assert await me_status(again) == 200
        await again.refresh()
        assert (await sent(client, path, body, key))[0] == refused, kind


async def test_repeat_after_five_minutes_is_refused(world: World, provider_a: IdentityServer) -> None:
    for kind, client, path, body in await requests(world, provider_a):
        key = new_id()
        status, answer = await sent(client, path, body, key)
        assert status == 200
        sid = await opened_earlier(world, answer, body)
        await world.stack.sql(OLDER, sid, "4 minutes")
        status, again = await sent(client, path, body, key)
        assert (status, again["refresh_token"]) == (200, answer["refresh_token"]), kind
        assert answer["expires_in"] - 260 < again["expires_in"] <= answer["expires_in"] - 240, kind
        await world.stack.sql(OLDER, sid, "61 seconds")
        assert (await sent(client, path, body, key))[0] in (400, 401), kind
