"""Customers link a phone or identities to their account, and unlink identities (docs/product.md#ways-to-sign-in)."""

from typing import Any

import pytest

from tests.http.sign_in.outside import IdentityServer
from tests.http.sign_in.people import (
    ME,
    VERIFY,
    all_at_once,
    anonymous,
    by_identity,
    by_phone,
    device,
    me_status,
    new_number,
    new_subject,
    proof,
    store_tokens,
    wrong,
)
from tests.sockets.plain_socket import bare_and_known
from tests.stack import World, at_once, refused, within
from tools.driving.device import Device
from tools.driving.sesi_client import Refused

pytestmark = pytest.mark.anyio
LINK = "/api/client/auth/link"
LONG_AGO = "UPDATE auth_sessions SET created_at = created_at - interval '10 minutes' WHERE user_id = $1::uuid"


async def verified(world: World, number: str | None = None) -> Device:
    """Return the device of a customer who has signed in by phone."""
    made = device(world)
    return store_tokens(made, await by_phone(world, made, number or new_number()))


async def again(world: World, number: str) -> Device:
    """Return another device of the customer with this phone."""
    return await verified(world, number)


def linking(client: Device, server: IdentityServer, subject: str, letter: str = "a", **claims: Any) -> Any:
    """Link an identity."""
    return client.post(f"{LINK}/identity-{letter}", {"identity_token": server.token(subject, **claims)})


async def linking_phone(world: World, client: Device, number: str) -> Any:
    """Link a phone."""
    return await client.post(f"{LINK}/phone", await proof(world, number))


def unlinking(client: Device, letter: str = "a") -> Any:
    """Unlink an identity."""
    return client.call("DELETE", f"{LINK}/identity-{letter}")


# -- identities


async def test_linked_identity_signs_in_to_the_same_account(
    world: World, provider_a: IdentityServer, provider_b: IdentityServer
) -> None:
    client, subject, other = await verified(world), new_subject(), new_subject()
    assert client.user["identities"] == []
    linked = await linking(client, provider_a, subject, email="dewi@example.test", email_verified=True)
    assert (linked["id"], linked["identities"], linked["email"]) == (client.user["id"], ["a"], "dewi@example.test")
    linked = await linking(client, provider_b, other, "b")
    assert (linked["identities"], linked["phone"]) == (["a", "b"], client.user["phone"])
    assert await client.get(ME) == linked
    for server, name, letter in ((provider_a, subject, "a"), (provider_b, other, "b")):
        signed_in = await by_identity(device(world), server, name, letter)
        assert signed_in["customer"]["id"] == client.user["id"]
    operator = await world.operator()
    seen = await operator.get(f"/internal/customers/{client.user['id']}")
    assert seen["identities"] == ["a", "b"]
    (listed,) = (await operator.get("/internal/customers", q=client.user["id"]))["items"]
    assert listed["identities"] == ["a", "b"]


async def test_identity_of_another_account_is_in_use_and_its_token_is_used_up(
    world: World, provider_a: IdentityServer
) -> None:
    client, subject = await verified(world), new_subject()
    owner = store_tokens(other := device(world), await by_identity(other, provider_a, subject))
    body = {"identity_token": provider_a.token(subject, jti="once")}
    await refused(client.post(f"{LINK}/identity-a", body), 409, "IDENTITY_IN_USE")
    await refused(client.post(f"{LINK}/identity-a", body), 401, "IDENTITY_TOKEN_INVALID")
    await refused(device(world).post("/api/client/auth/identity-a", body), 401, "IDENTITY_TOKEN_INVALID")
    assert (await client.get(ME))["identities"] == []
    assert (await owner.get(ME))["identities"] == ["a"]
    # The way of an anonymous customer is another one: they join that account.
    joined = await by_identity(await anonymous(world), provider_a, subject)
    assert joined["customer"]["id"] == owner.user["id"]


async def test_another_identity_of_the_provider_replaces_the_linked_one(
    world: World, provider_a: IdentityServer
) -> None:
    client, before, after = await verified(world), new_subject(), new_subject()
    await linking(client, provider_a, before)
    assert (await linking(client, provider_a, after))["identities"] == ["a"]
    assert (await by_identity(device(world), provider_a, before))["customer"]["id"] != client.user["id"]
    assert (await by_identity(device(world), provider_a, after))["customer"]["id"] == client.user["id"]


async def test_identity_token_links_once_and_its_repeat_changes_nothing(
    world: World, provider_a: IdentityServer
) -> None:
    client, token = await verified(world), provider_a.token(new_subject())
    body = {"identity_token": token}
    first = await client.post(f"{LINK}/identity-a", body)
    assert await client.post(f"{LINK}/identity-a", body) == first
    await refused((await verified(world)).post(f"{LINK}/identity-a", body), 401, "IDENTITY_TOKEN_INVALID")
    await refused(device(world).post("/api/client/auth/identity-a", body), 401, "IDENTITY_TOKEN_INVALID")
    await unlinking(client)
    await refused(client.post(f"{LINK}/identity-a", body), 401, "IDENTITY_TOKEN_INVALID")
    await refused(client.post(f"{LINK}/identity-a", {"identity_token": "a.b.c"}), 401, "IDENTITY_TOKEN_INVALID")


async def test_last_way_to_sign_in_can_not_be_unlinked(
    world: World, provider_a: IdentityServer, provider_b: IdentityServer
) -> None:
    client = device(world)
    store_tokens(client, await by_identity(client, provider_a, new_subject(), email="d@x.test", email_verified=True))
    await refused(unlinking(client), 409, "LAST_SIGN_IN_METHOD")
    assert await unlinking(client, "b") is None  # not linked: nothing to do
    await linking(client, provider_b, new_subject(), "b")
    assert await unlinking(client) is None
    view = await client.get(ME)
    assert (view["identities"], view["email"]) == (["b"], None)
    await refused(unlinking(client, "b"), 409, "LAST_SIGN_IN_METHOD")
    await linking_phone(world, client, new_number())
    assert await unlinking(client, "b") is None
    assert (await client.get(ME))["identities"] == []


async def test_email_goes_with_its_identity_and_comes_back_with_another(
    world: World, provider_a: IdentityServer, provider_b: IdentityServer
) -> None:
    client, other = await verified(world), new_subject()
    await linking(client, provider_a, new_subject(), email="a@x.test", email_verified=True)
    assert (await linking(client, provider_a, new_subject()))["email"] is None
    await linking(client, provider_a, new_subject(), email="c@x.test", email_verified=True)
    assert (await linking_phone(world, client, new_number()))["email"] == "c@x.test"
    assert (await linking(client, provider_b, other, "b"))["email"] == "c@x.test"
    await unlinking(client)
    assert (await client.get(ME))["email"] is None
    signed_in = await by_identity(device(world), provider_b, other, "b", email="b@x.test", email_verified=True)
    assert signed_in["customer"]["email"] == "b@x.test"


async def test_unlinking_both_identities_at_once_leaves_one(
    world: World, provider_a: IdentityServer, provider_b: IdentityServer
) -> None:
    for _ in range(4):
        client = device(world)
        store_tokens(client, await by_identity(client, provider_a, new_subject()))
        await linking(client, provider_b, new_subject(), "b")
        assert sorted(await at_once(unlinking(client), unlinking(client, "b"))) == ["LAST_SIGN_IN_METHOD", "ok"]
        assert len((await client.get(ME))["identities"]) == 1


async def test_two_accounts_that_link_one_identity_at_once_leave_it_with_one(
    world: World, provider_a: IdentityServer
) -> None:
    for _ in range(4):
        first, second, subject = await verified(world), await verified(world), new_subject()
        outcomes = await at_once(
            *(linking(client, provider_a, subject, jti=f"{n}") for n, client in enumerate((first, second, first)))
        )
        assert sorted(outcomes) in (["IDENTITY_IN_USE", "ok", "ok"], ["IDENTITY_IN_USE", "IDENTITY_IN_USE", "ok"])
        linked = [len((await client.get(ME))["identities"]) for client in (first, second)]
        assert sorted(linked) == [0, 1]


async def test_link_racing_a_sign_in_with_the_identity_leaves_it_with_one(
    world: World, provider_a: IdentityServer
) -> None:
    for n in range(6):
        client, newcomer, subject = await verified(world), device(world), new_subject()
        calls = [linking(client, provider_a, subject, jti="1"), by_identity(newcomer, provider_a, subject, jti="2")]
        answers = await all_at_once(calls if n % 2 else calls[::-1])
        linked, signed_in = answers if n % 2 else answers[::-1]
        if isinstance(linked, Refused):
            assert linked.code == "IDENTITY_IN_USE"
            assert signed_in["customer"]["id"] != client.user["id"]
        else:
            assert signed_in["customer"]["id"] == client.user["id"]


# -- phones


async def test_phone_is_linked_to_an_account_with_an_identity(world: World, provider_a: IdentityServer) -> None:
    client, number = device(world), new_number()
    store_tokens(client, await by_identity(client, provider_a, new_subject()))
    body = await proof(world, number)
    await refused(client.post(f"{LINK}/phone", {**body, "code": wrong(body["code"])}), 400, "OTP_INVALID")
    linked = await client.post(f"{LINK}/phone", body)
    assert (linked["phone"], linked["identities"]) == (number, ["a"])
    await refused(client.post(f"{LINK}/phone", body), 400, "OTP_EXPIRED")
    assert (await again(world, number)).user["id"] == client.user["id"]


async def test_phone_of_another_account_is_in_use_and_its_code_is_used_up(world: World) -> None:
    client, number = await verified(world), new_number()
    owner = await verified(world, number)
    body = await proof(world, number)
    await refused(client.post(f"{LINK}/phone", body), 409, "PHONE_IN_USE")
    assert (await client.get(ME))["phone"] == client.user["phone"]
    await refused(client.post(f"{LINK}/phone", body), 400, "OTP_EXPIRED")
    await refused(device(world).post(VERIFY, body), 400, "OTP_EXPIRED")
    assert (await again(world, number)).user["id"] == owner.user["id"]


async def test_phone_that_replaces_another_ends_all_other_auth_sessions(world: World) -> None:
    before, after = new_number(), new_number()
    client, other = await verified(world, before), await again(world, before)
    own, (others, _) = await client.open("pairing"), await bare_and_known(other)
    view = await linking_phone(world, client, after)
    assert view["phone"] == after
    assert await others.code(within(1)) == 4403
    assert await me_status(other) == 401
    assert (await own.wait("account_updated"))["method"] == "phone"
    assert (await client.get(ME))["phone"] == after
    assert (await verified(world, before)).user["id"] != client.user["id"]
    assert (await again(world, after)).user["id"] == client.user["id"]


async def test_two_accounts_that_swap_phones_at_once_do_not_block_each_other(world: World) -> None:
    for _ in range(3):
        numbers = [new_number(), new_number()]
        pair = [await verified(world, number) for number in numbers]
        proofs = [await proof(world, number) for number in numbers[::-1]]
        calls = [client.post(f"{LINK}/phone", body) for client, body in zip(pair, proofs, strict=True)]
        assert await at_once(*calls) == ["PHONE_IN_USE"] * 2


# -- blocked accounts


async def blocking(world: World, client: Device) -> None:
    path = f"/internal/customers/{client.user['id']}/block"
    await (await world.operator()).post(path, {"reason": "Insulted three mitras"})


async def test_blocked_account_gives_up_no_phone_or_identity_and_links_more(
    world: World, provider_a: IdentityServer, provider_b: IdentityServer
) -> None:
    number, subject = new_number(), new_subject()
    client = await verified(world, number)
    await linking(client, provider_a, subject)
    await blocking(world, client)
    body = await proof(world, new_number())
    await refused(client.post(f"{LINK}/phone", body), 403, "ACCOUNT_BLOCKED")
    await refused(client.post(f"{LINK}/phone", body), 400, "OTP_EXPIRED")  # it is used up
    await refused(linking(client, provider_a, new_subject()), 403, "ACCOUNT_BLOCKED")
    await refused(unlinking(client), 403, "ACCOUNT_BLOCKED")
    assert (await linking(client, provider_b, new_subject(), "b"))["identities"] == ["a", "b"]
    fresh = device(world)
    store_tokens(fresh, await by_identity(fresh, provider_b, new_subject(), "b"))
    await refused(linking_phone(world, fresh, number), 409, "PHONE_IN_USE")
    await refused(linking(fresh, provider_a, subject), 409, "IDENTITY_IN_USE")
    await refused(world.request(await again(world, number)), 403, "ACCOUNT_BLOCKED")


async def test_block_at_the_moment_of_a_new_phone_keeps_the_phone_or_comes_after(world: World) -> None:
    for _ in range(4):
        before, after = new_number(), new_number()
        client = await verified(world, before)
        body = await proof(world, after)
        linked, blocked = await at_once(client.post(f"{LINK}/phone", body), blocking(world, client))
        assert (linked in ("ok", "ACCOUNT_BLOCKED"), blocked) == (True, "ok")
        assert (await client.get(ME))["phone"] == (after if linked == "ok" else before)


async def test_anonymous_customer_on_the_device_of_a_blocked_one_is_new(world: World) -> None:
    client = await anonymous(world)
    await blocking(world, client)
    fresh = await anonymous(world)
    assert (await world.request(fresh))["status"] == "pending"
    # A block is brought along into the account that a blocked anonymous customer joins.
    number = new_number()
    await verified(world, number)
    joined = store_tokens(client, await by_phone(world, client, number))
    await refused(world.request(joined), 403, "ACCOUNT_BLOCKED")


# -- who may link


async def test_only_a_verified_customer_who_signed_in_lately_may_link(world: World, provider_a: IdentityServer) -> None:
    client = await verified(world)
    body = await proof(world, new_number())

    def all_of(one: Device) -> list[Any]:
        return [linking(one, provider_a, new_subject()), one.post(f"{LINK}/phone", body), unlinking(one)]

    for call in all_of(await anonymous(world)):
        await refused(call, 403, "VERIFIED_ACCOUNT_REQUIRED")
    await world.stack.sql(LONG_AGO, client.user["id"])
    for call in all_of(client):
        await refused(call, 403, "RECENT_SIGN_IN_REQUIRED")
    await client.renew(client.access_token)  # it does not count
    for call in all_of(client):
        await refused(call, 403, "RECENT_SIGN_IN_REQUIRED")
    fresh = await again(world, client.user["phone"])
    assert (await fresh.post(f"{LINK}/phone", body))["id"] == client.user["id"]


# -- what follows


async def test_links_are_told_to_the_accounts_other_devices(world: World, provider_a: IdentityServer) -> None:
    number = new_number()
    client, other = await verified(world, number), await again(world, number)
    socket = await other.open("pairing")
    await linking(client, provider_a, new_subject())
    told = await socket.wait("account_updated")
    assert (told["method"], told["linked"]) == ("a", True)
    await unlinking(client)
    told = await socket.wait("account_updated", where=lambda f: not f["linked"])
    assert told["method"] == "a"


async def test_unlinked_identity_has_no_second_discount(world: World, provider_a: IdentityServer) -> None:
    client, subject, mitra = await verified(world), new_subject(), await world.mitra()
    await client.call("PATCH", "/api/client/auth/profile", {"display_name": "Dewi"})
    await linking(client, provider_a, subject)
    await world.session(client, mitra)
    await unlinking(client)
    await world.promotion(enabled=True)
    eligible = []
    for one in (subject, new_subject()):
        newcomer = device(world)
        store_tokens(newcomer, await by_identity(newcomer, provider_a, one))
        assert newcomer.user["id"] != client.user["id"]
        eligible.append((await newcomer.get("/api/client/onboarding-state"))["first_session_discount_eligible"])
    assert eligible == [False, True]
