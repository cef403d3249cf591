"""The customer that a sign-in leads to: upgraded, merged, created or known (docs/product.md#merging-accounts)."""

import random
import time
from collections.abc import Awaitable, Callable
from typing import Any

import attrs
import jwt
import pytest

from tests.http.sign_in.outside import IdentityServer
from tests.http.sign_in.people import (
    CUSTOMER,
    IDENTITY,
    ME,
    TOKENS,
    VERIFY,
    all_at_once,
    anonymous,
    by_identity,
    by_phone,
    claims_of,
    count,
    device,
    ending_the_earlier,
    new_number,
    new_subject,
    proof,
    raw,
    refusal,
    row_of,
    store_tokens,
)
from tests.stack import World, new_id, refused
from tools.driving.device import Device
from tools.driving.sesi_client import Refused

pytestmark = pytest.mark.anyio

COLUMN = {"phone": "phone", "a": "identity_a_sub", "b": "identity_b_sub"}


@attrs.frozen
class Way:
    """One way to sign in."""

    kind: str
    world: World
    servers: dict[str, IdentityServer]

    def fresh(self) -> str:
        """Return an identity that belongs to no customer."""
        return new_number() if self.kind == "phone" else new_subject()

    async def proof(self, value: str) -> tuple[str, dict[str, Any]]:
        """Return the path and the body that prove an identity."""
        if self.kind == "phone":
            return VERIFY, await proof(self.world, value)
        return IDENTITY[self.kind], {"identity_token": self.servers[self.kind].token(value)}

    async def sign_in(self, client: Device, value: str) -> dict[str, Any]:
        """Sign in, with the device's bearer token if there is one."""
        path, body = await self.proof(value)
        status, answer, _ = await raw(client, "POST", path, body)
        if status != 200:
            raise Refused(status, answer)
        assert (set(answer), set(answer["customer"])) == (TOKENS, CUSTOMER)
        return answer

    async def owners(self, value: str) -> int:
        """Return how many customers own an identity."""
        return await count(self.world, f"{COLUMN[self.kind]} = $1", value)


@pytest.fixture(params=["phone", "a", "b"])
def way(request: Any, world: World, provider_a: IdentityServer, provider_b: IdentityServer) -> Way:
    """Return each way to sign in, one a case."""
    return Way(request.param, world, {"a": provider_a, "b": provider_b})


@pytest.fixture
def ways(world: World, provider_a: IdentityServer, provider_b: IdentityServer) -> dict[str, Way]:
    """Return all ways to sign in."""
    servers = {"a": provider_a, "b": provider_b}
    return {kind: Way(kind, world, servers) for kind in COLUMN}


# -- the four cases


async def test_new_identity_with_anonymous_bearer_upgrades_in_place(world: World, way: Way) -> None:
    client, value = await anonymous(world, "Dewi"), way.fresh()
    payment = await world.request(client)
    before = await row_of(world, client.user["id"])
    # The earlier tokens and sockets end, because they may have been copied, and the payment is still there.
    answer = await ending_the_earlier(world, client, lambda: way.sign_in(client, value))
    after = await row_of(world, client.user["id"])
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"is_anonymous", COLUMN[way.kind]}
    assert (after["is_anonymous"], after[COLUMN[way.kind]]) == (False, value)
    customer = answer["customer"]
    assert (customer["id"], customer["display_name"], customer["is_anonymous"]) == (before["id"], "Dewi", False)
    assert customer["account_belongs_to"] is None
    new = store_tokens(device(world), answer)
    path = f"/api/client/payment/requests/{payment['payment_request_id']}"
    assert (await new.get(path))["status"] == "pending"
    assert claims_of(new.access_token)["sid"] != claims_of(client.access_token)["sid"]


async def test_known_identity_with_anonymous_bearer_merges_into_the_account(world: World, way: Way) -> None:
    value = way.fresh()
    known = store_tokens(device(world), await way.sign_in(device(world), value))
    known.user = await known.call("PATCH", "/api/client/auth/profile", {"display_name": "Sari"})
    account = await row_of(world, known.user["id"])
    client = await anonymous(world, "Dewi")
    before = await row_of(world, client.user["id"])
    payment = await world.request(client)
    answer = await ending_the_earlier(world, client, lambda: way.sign_in(client, value))
    assert answer["customer"] == known.user
    assert claims_of(answer["access_token"])["sub"] == known.user["id"]
    # The anonymous row is unchanged, and no object was moved to another row.
    after = await row_of(world, client.user["id"])
    assert {name for name in before if before[name] != after[name]} == {"account_belongs_to", "joined_real_at"}
    assert after["account_belongs_to"] == known.user["id"]
    assert await row_of(world, known.user["id"]) == account
    (row,) = await world.stack.sql(
        "SELECT customer_id::text AS owner FROM payment_requests WHERE id = $1::text::uuid",
        payment["payment_request_id"],
    )
    assert row["owner"] == client.user["id"]
    operator = await world.operator()
    assert (await operator.get(f"/internal/customers/{client.user['id']}"))["account_belongs_to"] == known.user["id"]


async def test_new_identity_without_bearer_creates_a_customer_without_name(world: World, way: Way) -> None:
    value = way.fresh()
    customer = (await way.sign_in(device(world), value))["customer"]
    assert {name: customer[name] for name in ("display_name", "is_anonymous", "account_belongs_to", "usp_seen", "email")} == {
        "display_name": None, "is_anonymous": False, "account_belongs_to": None, "usp_seen": False, "email": None,
    }  # fmt: skip
    assert customer["phone"] == (value if way.kind == "phone" else None)
    assert customer["push_enabled"] is False


async def test_known_identity_without_bearer_signs_the_same_customer_in(world: World, way: Way) -> None:
    value = way.fresh()
    first = store_tokens(device(world), await way.sign_in(device(world), value))
    await first.call("PATCH", "/api/client/auth/profile", {"display_name": "Sari"})
    again = store_tokens(device(world), await way.sign_in(device(world), value))
    assert (again.user["id"], again.user["display_name"]) == (first.user["id"], "Sari")
    assert [(await one.get(ME))["id"] for one in (first, again)] == [first.user["id"]] * 2
    assert await way.owners(value) == 1


# -- the bearer token


async def ignored_bearers(world: World, ways: dict[str, Way]) -> dict[str, str]:
    """Return bearer tokens that must be ignored, by what is wrong with them."""
    secret = world.stack.env["JWT_SECRETS"].partition(":")[2]
    living, revoked = await anonymous(world), await anonymous(world)
    await revoked.post("/api/shared/auth/logout")
    mitra, operator = await world.mitra(online=False), await world.operator()
    named = await ways["a"].sign_in(device(world), new_subject())
    account = new_subject()
    await ways["b"].sign_in(device(world), account)
    joined = await anonymous(world)
    await ways["b"].sign_in(joined, account)
    claims = claims_of(living.access_token)

    def signed(key: str = secret, kid: str = "test", **more: Any) -> str:
        return jwt.encode({**claims, **more}, key, headers={"kid": kid})

    return {
        "garbage": "x.y.z",
        "expired": signed(exp=int(time.time()) - 1),
        "forged": signed(key="k" * 64),
        "of an unknown key": signed(kid="other"),
        "of an unknown auth session": signed(sid=new_id()),
        "of an unknown customer": signed(sub=new_id()),
        "unsigned": jwt.encode(claims, None, algorithm="none", headers={"kid": "test"}),
        "revoked": revoked.access_token or "",
        "a mitra's": mitra.access_token or "",
        "an operator's": operator.access_token or "",
        "a customer's who is not anonymous": named["access_token"],
        "of one who has joined": joined.access_token or "",
        "a refresh token": living.refresh_token or "",
    }


async def test_bearer_of_no_live_anonymous_customer_is_ignored(world: World, ways: dict[str, Way]) -> None:
    bearers = await ignored_bearers(world, ways)
    for n, (what, bearer) in enumerate(bearers.items()):
        way = list(ways.values())[n % 3]
        client, value = device(world), way.fresh()
        client.access_token = bearer
        created = (await way.sign_in(client, value))["customer"]
        assert (created["display_name"], created["is_anonymous"]) == (None, False), what
        assert (await way.sign_in(client, value))["customer"]["id"] == created["id"], what
        assert await count(world, "account_belongs_to = $1::text::uuid", created["id"]) == 0, what


@pytest.mark.parametrize("scheme", ["Basic eDp5", "Bearer", "Bearer ", "bearer\t", "Token x"])
async def test_authorization_header_of_another_scheme_is_ignored(
    world: World, provider_a: IdentityServer, scheme: str
) -> None:
    status, answer, _ = await raw(
        device(world), "POST", IDENTITY["a"], {"identity_token": provider_a.token(new_subject())}, Authorization=scheme
    )
    assert (status, answer["customer"]["is_anonymous"]) == (200, False)


async def test_anonymous_customer_id_in_body_is_422(world: World, way: Way) -> None:
    victim, value = await anonymous(world), way.fresh()
    path, body = await way.proof(value)
    status, code, error = await refusal(
        device(world), "POST", path, {**body, "anonymous_customer_id": victim.user["id"]}
    )
    assert (status, code) == (422, "VALIDATION_ERROR")
    assert [item["field"] for item in error["details"]["fields"]] == ["anonymous_customer_id"]
    assert (await row_of(world, victim.user["id"]))["is_anonymous"] is True
    assert await way.owners(value) == 0


async def test_newest_verified_email_is_kept(world: World, provider_a: IdentityServer) -> None:
    subject, client = new_subject(), device(world)
    for claims, kept in (
        ({"email": "a@example.test"}, None),
        ({"email": "a@example.test", "email_verified": True}, "a@example.test"),
        ({"email": "b@example.test", "email_verified": False}, "a@example.test"),
        ({}, "a@example.test"),
        ({"email": "c@example.test", "email_verified": "true"}, "c@example.test"),
    ):
        answer = await by_identity(client, provider_a, subject, **claims)
        assert answer["customer"]["email"] == kept


async def test_upgrade_stores_the_verified_email(world: World, provider_b: IdentityServer) -> None:
    client = await anonymous(world)
    answer = await by_identity(client, provider_b, new_subject(), "b", email="x@example.test", email_verified="true")
    assert (answer["customer"]["id"], answer["customer"]["email"]) == (client.user["id"], "x@example.test")


async def test_same_subject_at_two_providers_is_two_customers(
    world: World, provider_a: IdentityServer, provider_b: IdentityServer
) -> None:
    subject = new_subject()
    a = await by_identity(device(world), provider_a, subject, "a")
    b = await by_identity(device(world), provider_b, subject, "b")
    assert a["customer"]["id"] != b["customer"]["id"]


# -- concurrency


async def test_concurrent_first_sign_ins_create_one_customer(world: World, way: Way) -> None:
    value = way.fresh()
    if way.kind == "phone":
        async with world.setting(otp_max_per_phone_per_hour=100):
            proofs = [(VERIFY, await proof(world, value)) for _ in range(6)]
    else:
        proofs = [await way.proof(value) for _ in range(20)]
    answers = await all_at_once([device(world).call("POST", path, body) for path, body in proofs])
    if way.kind == "phone":  # one right code uses up the others
        answers = [answer for answer in answers if getattr(answer, "code", None) != "OTP_EXPIRED"]
        assert len(answers) == 1
    assert len({answer["customer"]["id"] for answer in answers}) == 1
    assert await way.owners(value) == 1


async def test_concurrent_sign_ins_with_one_identity_are_one_upgrade_and_merges(
    world: World, provider_a: IdentityServer
) -> None:
    subject = new_subject()
    clients = [await anonymous(world) for _ in range(10)]
    answers = await all_at_once([by_identity(client, provider_a, subject) for client in clients])
    (account,) = {answer["customer"]["id"] for answer in answers}
    assert account in {client.user["id"] for client in clients}
    assert await count(world, "account_belongs_to = $1::text::uuid", account) == 9
    assert await count(world, "identity_a_sub = $1", subject) == 1


@pytest.mark.parametrize("known", [(False, False), (True, False), (True, True)])
async def test_concurrent_sign_ins_with_two_identities_merge_once(
    world: World, ways: dict[str, Way], known: tuple[bool, bool]
) -> None:
    for _ in range(4):
        client = await anonymous(world)
        values = {kind: ways[kind].fresh() for kind in ("a", "b")}
        accounts = {}
        for kind, there in zip(values, known, strict=True):
            if there:
                accounts[kind] = (await ways[kind].sign_in(device(world), values[kind]))["customer"]["id"]
        both = [ways[kind].sign_in(device(world, like=client), values[kind]) for kind in values]
        answers = dict(zip(values, await all_at_once(both), strict=True))
        assert answers["a"]["customer"]["id"] != answers["b"]["customer"]["id"]
        for kind, account in accounts.items():
            assert answers[kind]["customer"]["id"] == account
        row = await row_of(world, client.user["id"])
        upgraded = row["is_anonymous"] is False
        assert upgraded != (row["account_belongs_to"] is not None)
        assert [row["identity_a_sub"], row["identity_b_sub"]].count(None) == (1 if upgraded else 2)
        if upgraded:
            assert client.user["id"] in {answer["customer"]["id"] for answer in answers.values()}
        else:
            assert row["account_belongs_to"] in accounts.values()


async def test_concurrent_sign_ins_with_one_new_identity_upgrade_once(world: World, way: Way) -> None:
    client, value = await anonymous(world), way.fresh()
    path, body = await way.proof(value)
    if way.kind == "phone":
        answers = await all_at_once([device(world, like=client).call("POST", path, body) for _ in range(8)])
        assert sum(not isinstance(answer, Refused) for answer in answers) == 1
    else:
        answers = await all_at_once([device(world, like=client).call("POST", path, body) for _ in range(8)])
        assert {answer["customer"]["id"] for answer in answers} == {client.user["id"]}
    assert await way.owners(value) == 1
    assert (await row_of(world, client.user["id"]))["account_belongs_to"] is None


# -- random walk


@attrs.define
class Model:
    """The expected state: the owner of each identity, the anonymous customers, and the account that each belongs to."""

    owner: dict[tuple[str, str], str] = attrs.field(factory=dict)
    anonymous: set[str] = attrs.field(factory=set)
    belongs: dict[str, str] = attrs.field(factory=dict)

    def sign_in(self, identity: tuple[str, str], caller: str | None) -> str | None:
        """Return the customer that a sign-in must lead to, or None for a new customer."""
        asks = caller if caller in self.anonymous else None
        known = self.owner.get(identity)
        if asks is not None:
            self.anonymous.discard(asks)
            if known is None:
                self.owner[identity] = asks
            else:
                self.belongs[asks] = known
        return known or asks


@pytest.mark.parametrize("walk", range(4))
async def test_random_sign_ins_end_in_the_state_of_the_model(world: World, ways: dict[str, Way], walk: int) -> None:
    seed = random.randrange(10**9)
    print(f"walk {walk}: seed {seed}")  # noqa: T201 - shown when the test fails
    dice, model = random.Random(seed), Model()
    identities = [(kind, ways[kind].fresh()) for kind in ("a", "a", "a", "b", "b", "b", "phone")]
    devices: list[Device] = []

    async def becomes_anonymous() -> None:
        devices.append(await anonymous(world, None))
        model.anonymous.add(devices[-1].user["id"])

    async def signs_in() -> None:
        client = dice.choice(devices) if devices and dice.random() < 0.8 else device(world)
        kind, value = dice.choice(identities)
        customers = set(model.owner.values()) | set(model.belongs) | model.anonymous
        expected = model.sign_in((kind, value), client.user.get("id"))
        customer = (await ways[kind].sign_in(client, value))["customer"]
        if expected is None:
            assert customer["id"] not in customers
            model.owner[kind, value] = customer["id"]
        else:
            assert customer["id"] == expected
        assert customer["is_anonymous"] is False

    async def leaves() -> None:
        if devices:
            client = devices.pop(dice.randrange(len(devices)))
            await raw(client, "POST", "/api/shared/auth/logout")
            model.anonymous.discard(client.user["id"])

    steps: list[Callable[[], Awaitable[None]]] = [becomes_anonymous, signs_in, signs_in, signs_in, leaves]
    for _ in range(60):
        await dice.choice(steps)()
    for (kind, value), customer in model.owner.items():
        rows = await world.stack.sql(f"SELECT id::text FROM customers WHERE {COLUMN[kind]} = $1", value)
        assert [row["id"] for row in rows] == [customer]
    for anonymous_id, account in model.belongs.items():
        row = await row_of(world, anonymous_id)
        assert (row["is_anonymous"], row["account_belongs_to"]) == (True, account)
    for anonymous_id in model.anonymous:
        row = await row_of(world, anonymous_id)
        assert (row["is_anonymous"], row["account_belongs_to"]) == (True, None)


async def test_linked_identity_never_answers_a_conflict(world: World, ways: dict[str, Way]) -> None:
    number = new_number()
    first = await by_phone(world, device(world), number)
    for client in (await anonymous(world), store_tokens(device(world), first), device(world)):
        assert (await ways["phone"].sign_in(client, number))["customer"]["id"] == first["customer"]["id"]
    await refused(device(world).get(ME), 401, "UNAUTHENTICATED")
