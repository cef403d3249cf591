"""Sign-in by identity provider A or B over HTTP (docs/product.md#identity-providers)."""

import asyncio
import base64
import hashlib
import hmac
import json
import time
from collections.abc import Iterator
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization

from core.accounts.logins import sign_in_with_identity
from core.app.reactions import open_runtime
from core.security import identity
from core.settings.environment import read
from tests.http.sign_in.outside import EC_KEY, GARBAGE, RSA_KEYS, IdentityServer
from tests.http.sign_in.people import (
    CUSTOMER,
    IDENTITY,
    TOKENS,
    all_at_once,
    anonymous,
    another_api,
    by_identity,
    claims_of,
    count,
    device,
    end_api,
    me_status,
    new_subject,
    raw,
    refusal,
    store_tokens,
)
from tests.stack import Stack, World, within
from tools.driving.device import Device

pytestmark = pytest.mark.anyio

PROVIDERS = "/api/shared/auth-providers"


async def sign_in(client: Device, token: Any, letter: str = "a", **more: Any) -> tuple[int, str | None]:
    """Sign in with a token; return the status and the refusal's code."""
    status, answer, headers = await raw(client, "POST", IDENTITY[letter], {"identity_token": token, **more})
    if status == 200:
        assert (set(answer), set(answer["customer"])) == (TOKENS, CUSTOMER)
        return 200, None
    error = answer["error"]
    assert headers.get("Retry-After") == (str(error["retry_after_seconds"]) if "retry_after_seconds" in error else None)
    return status, error["code"]


OK, INVALID = (200, None), (401, "IDENTITY_TOKEN_INVALID")


async def test_token_of_one_provider_is_refused_at_the_other(
    world: World, provider_a: IdentityServer, provider_b: IdentityServer
) -> None:
    assert await world.client().get(PROVIDERS) == {"identity_a": {"enabled": True}, "identity_b": {"enabled": True}}
    for letter, server in (("a", provider_a), ("b", provider_b)):
        assert await sign_in(device(world), server.token(new_subject()), letter) == OK
        assert await sign_in(device(world), server.token(new_subject(), key=EC_KEY), letter) == OK
        assert await sign_in(device(world), server.token(new_subject()), {"a": "b", "b": "a"}[letter]) == INVALID


async def test_all_configured_audiences_and_issuers_are_accepted(world: World, provider_a: IdentityServer) -> None:
    for audience in ("app-a", "web-a", ["other", "web-a"]):
        for issuer in ("https://a.example.test", "a.example.test"):
            assert await sign_in(device(world), provider_a.token(new_subject(), aud=audience, iss=issuer)) == OK
    for claims in (
        {"aud": "app-b"},
        {"aud": " web-a"},
        {"aud": []},
        {"aud": None},
        {"iss": "https://b.example.test"},
        {"iss": None},
    ):
        assert await sign_in(device(world), provider_a.token(new_subject(), **claims)) == INVALID


async def test_nonce_must_match_when_sent(world: World, provider_b: IdentityServer) -> None:
    hashed = hashlib.sha256(b"n-1").hexdigest()
    for claims, expected in (
        ({"nonce": "n-1"}, OK), ({"nonce": hashed}, OK), ({"nonce_supported": False}, OK), ({"nonce_supported": "false"}, OK),
        ({"nonce": "n-2"}, INVALID), ({}, INVALID), ({"nonce_supported": True}, INVALID), ({"nonce_supported": "true"}, INVALID),
        ({"nonce": "n-2", "nonce_supported": False}, INVALID), ({"nonce": hashed.upper()}, INVALID),
    ):  # fmt: skip
        token = provider_b.token(new_subject(), **claims)
        assert await sign_in(device(world), token, "b", nonce="n-1") == expected, claims
    # A token that was requested with a nonce is refused without it.
    token = provider_b.token(new_subject(), nonce="n-1")
    assert await sign_in(device(world), token, "b") == INVALID
    assert await sign_in(device(world), token, "b", nonce=None) == INVALID
    assert await sign_in(device(world), token, "b", nonce="n-1") == OK
    status, code = await sign_in(device(world), token, "b", nonce="a\ud800")
    assert status in (400, 401, 422), code


@pytest.mark.parametrize(
    ("claims", "kept"),
    [
        ({"email_verified": True}, True), ({"email_verified": "true"}, True), ({"email_verified": False}, False),
        ({"email_verified": "false"}, False), ({}, False), ({"email_verified": 1}, False),
    ],
)  # fmt: skip
async def test_email_is_stored_only_if_verified(
    world: World, provider_a: IdentityServer, claims: dict[str, Any], kept: bool
) -> None:
    subject = new_subject()
    answer = await by_identity(device(world), provider_a, subject, email=f"{subject}@example.test", **claims)
    assert answer["customer"]["email"] == (f"{subject}@example.test" if kept else None)
    (row,) = await world.stack.sql("SELECT email FROM customers WHERE identity_a_sub = $1", subject)
    assert row["email"] == answer["customer"]["email"]


async def test_invalid_email_claim_is_not_stored(world: World, provider_a: IdentityServer) -> None:
    for email in ("x" * 300 + "@example.test", "\ud800@example.test", "a\0@example.test", 5):
        answer = await by_identity(device(world), provider_a, new_subject(), email=email, email_verified=True)
        assert answer["customer"]["email"] is None


async def test_wrong_claims_are_refused(world: World, provider_a: IdentityServer) -> None:
    now = int(time.time())
    for claims in (
        {"sub": None}, {"sub": ""}, {"sub": "x" * 256}, {"sub": 5}, {"sub": "\ud800"}, {"sub": "a\0b"}, {"exp": now - 1},
        {"exp": None}, {"exp": str(now + 600)}, {"exp": float("nan")}, {"exp": True}, {"iss": ["a.example.test"]},
    ):  # fmt: skip
        subject = claims.pop("sub", new_subject()) if "sub" in claims else new_subject()
        assert await sign_in(device(world), provider_a.token(subject, **claims)) == INVALID, (subject, claims)
    assert await sign_in(device(world), provider_a.token("é" * 255)) == OK


async def test_tokens_not_signed_by_the_provider_are_refused(world: World, provider_a: IdentityServer) -> None:
    subject = new_subject()
    claims = provider_a.claims(subject)
    public = RSA_KEYS[0].private.public_key()  # type: ignore[union-attr]
    pem = public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    good = provider_a.token(subject)
    head, body, seal = good.split(".")
    tokens = {
        "none": jwt.encode(claims, None, algorithm="none", headers={"kid": "rsa-0"}),
        "the public key as a secret": with_hmac(claims, pem),
        "another key under a known name": provider_a.token(subject, key=RSA_KEYS[2], headers={"kid": "rsa-0"}),
        "another algorithm's key": provider_a.token(subject, key=EC_KEY, headers={"kid": "rsa-0"}),
        "without kid": jwt.api_jws.encode(json.dumps(claims).encode(), RSA_KEYS[0].private, algorithm="RS256"),  # type: ignore[arg-type]
        "a kid that is no text": f"{head}x.{body}.{seal}",
        "no token": "hello",
        "dots": "...",
        "half": good[: len(good) // 2],
        "claims of another": f"{head}.{provider_a.token(new_subject()).split('.')[1]}.{seal}",
        "other bytes": "é" * 300,
        "surrogates": "\ud800.\ud800.\ud800",
        "long": "a." * 7_900 + "b",
    }
    for what, token in tokens.items():
        found = await sign_in(device(world), token)
        assert found == INVALID or (what == "surrogates" and found[0] in (400, 422)), what
    assert await count(world, "identity_a_sub = $1", subject) == 0
    for body_ in (
        {"identity_token": "x" * 16_001},
        {"identity_token": ""},
        {"identity_token": None},
        {},
        {"identity_token": good, "nonce": ""},
    ):
        assert (await refusal(device(world), "POST", IDENTITY["a"], body_))[:2] == (422, "VALIDATION_ERROR")
    assert (await refusal(device(world), "POST", IDENTITY["a"], {"identity_token": "x" * 70_000}))[:2] == (
        413,
        "BODY_TOO_LARGE",
    )


def with_hmac(claims: dict[str, Any], pem: bytes) -> str:
    """Sign with HS256 and a public key as the secret, which PyJWT itself refuses."""

    def part(data: bytes) -> str:
        return base64.urlsafe_b64encode(data).decode().rstrip("=")

    said = part(b'{"alg":"HS256","kid":"rsa-0"}') + "." + part(json.dumps(claims).encode())
    return said + "." + part(hmac.new(pem, said.encode(), "sha256").digest())


async def test_identity_tokens_and_emails_are_not_logged(world: World, provider_a: IdentityServer) -> None:
    subject = new_subject()
    token = provider_a.token(subject, email=f"{subject}@example.test", email_verified=True)
    assert await sign_in(device(world), token) == OK
    assert await sign_in(device(world), token + "x") == INVALID
    log = world.stack.log("api")
    assert token not in log
    assert subject not in log


# -- single use


async def again(client: Device, token: str) -> tuple[int, Any]:
    """Sign in with a token; return the status and the body."""
    status, answer, _ = await raw(client, "POST", IDENTITY["a"], {"identity_token": token})
    return status, answer


async def test_identity_token_repeated_within_a_minute_returns_the_same_auth_session(
    world: World, provider_a: IdentityServer
) -> None:
    token = provider_a.token(new_subject())
    answers = await all_at_once([again(device(world), token) for _ in range(12)])
    assert {status for status, _ in answers} == {200}
    assert len({answer["refresh_token"] for _, answer in answers}) == 1
    assert len({answer["customer"]["id"] for _, answer in answers}) == 1
    assert len({claims_of(answer["access_token"])["sid"] for _, answer in answers}) == 1
    customer_id = answers[0][1]["customer"]["id"]
    (row,) = await world.stack.sql(
        "SELECT count(*)::int AS n FROM auth_sessions WHERE user_id = $1::text::uuid", customer_id
    )
    assert row["n"] == 1
    # The refresh token works as usual.
    client = store_tokens(device(world), answers[3][1])
    status, _, _ = await raw(client, "POST", "/api/shared/auth/refresh", {"refresh_token": client.refresh_token})
    assert status == 200


async def test_identity_token_is_refused_a_minute_after_use(world: World, provider_a: IdentityServer) -> None:
    token = provider_a.token(new_subject())
    assert (await again(device(world), token))[0] == 200
    await world.stack.sql(
        "UPDATE used_identity_tokens SET used_at = used_at - interval '61 seconds' WHERE digest = $1",
        identity.digest_of(token),
    )
    assert await sign_in(device(world), token) == INVALID


async def test_repeated_identity_token_is_refused_once_the_device_has_refreshed(
    world: World, provider_a: IdentityServer
) -> None:
    token = provider_a.token(new_subject())
    client = store_tokens(device(world), (await again(device(world), token))[1])
    _, fresh, _ = await raw(client, "POST", "/api/shared/auth/refresh", {"refresh_token": client.refresh_token})
    assert await sign_in(device(world), token) == INVALID
    store_tokens(client, fresh)
    assert await me_status(client) == 200
    await client.call("POST", "/api/shared/auth/logout")
    assert await sign_in(device(world), token) == INVALID


async def test_upgrade_repeated_after_lost_answer_returns_the_same_answer(
    world: World, provider_a: IdentityServer
) -> None:
    client, token = await anonymous(world), provider_a.token(new_subject())
    first = (await again(client, token))[1]
    status, answer = await again(client, token)  # the bearer token has ended by now
    assert (status, answer["refresh_token"], answer["customer"]) == (200, first["refresh_token"], first["customer"])
    assert answer["customer"]["id"] == client.user["id"]


async def test_expired_used_identity_tokens_are_deleted(world: World, provider_a: IdentityServer) -> None:
    token, digest = provider_a.token(new_subject()), "e" * 64
    assert (await again(device(world), token))[0] == 200
    await world.stack.sql(
        """INSERT INTO used_identity_tokens (id, digest, auth_session_id, used_at, expires_real_at)
           VALUES (gen_random_uuid(), $1, gen_random_uuid(), now(), now() - interval '2 minutes')""",
        digest,
    )
    runtime = await open_runtime(read(world.stack.env))
    try:
        await sign_in_with_identity.purge_used_tokens(runtime)
    finally:
        await runtime.close()
    rows = await world.stack.sql("SELECT digest FROM used_identity_tokens")
    assert digest not in {row["digest"] for row in rows}
    assert identity.digest_of(token) in {row["digest"] for row in rows}


# -- a separate process with its own provider


@pytest.fixture
def server() -> Iterator[IdentityServer]:
    """Run a provider."""
    made = IdentityServer(issuer="https://a.example.test", audience="app-a")
    yield made
    made.close()


@pytest.fixture
def base(stack: Stack, server: IdentityServer) -> Iterator[str]:
    """Start an api process that has only this provider."""
    nothing = {f"IDENTITY_B_{name}": "" for name in ("AUDIENCES", "ISSUERS", "JWKS_URL")}
    yield another_api(stack, "api-identity", IDENTITY_A_JWKS_URL=server.url, **nothing)
    end_api(stack, "api-identity")


async def test_unconfigured_provider_is_disabled(world: World, base: str, server: IdentityServer) -> None:
    client = device(world, base=base)
    assert (await raw(client, "GET", PROVIDERS))[1] == {
        "identity_a": {"enabled": True},
        "identity_b": {"enabled": False},
    }
    for token in (server.token(new_subject()), "x"):
        assert await sign_in(client, token, "b") == (404, "PROVIDER_DISABLED")
    assert server.hits == 0


async def test_new_keys_work_at_once_and_keys_are_fetched_once_a_minute(
    world: World, base: str, server: IdentityServer
) -> None:
    def token(n: int) -> str:
        return server.token(new_subject(), key=RSA_KEYS[n])

    calls = [sign_in(device(world, base=base), token(0)) for _ in range(10)]
    assert await all_at_once(calls) == [OK] * 10
    assert server.hits == 1
    server.keys = {"rsa-1": RSA_KEYS[1]}
    calls = [sign_in(device(world, base=base), token(1)) for _ in range(10)]
    assert await all_at_once(calls) == [OK] * 10
    assert server.hits == 2
    assert await sign_in(device(world, base=base), token(0)) == INVALID  # withdrawn by the provider
    server.keys["rsa-2"] = RSA_KEYS[2]
    unknown = [sign_in(device(world, base=base), server.token("s", headers={"kid": f"k-{n}"})) for n in range(10)]
    assert await all_at_once([*unknown, sign_in(device(world, base=base), token(2))]) == [INVALID] * 11
    assert server.hits == 2
    assert await sign_in(device(world, base=base), token(1)) == OK


@pytest.mark.slow
async def test_only_known_keys_work_while_provider_is_down(world: World, base: str, server: IdentityServer) -> None:
    client = device(world, base=base)
    server.fault = 500
    for _ in range(3):
        status, code, error = await refusal(
            client, "POST", IDENTITY["a"], {"identity_token": server.token(new_subject())}
        )
        assert (status, code, error["retry_after_seconds"]) == (503, "UNAVAILABLE", 5)
    assert server.hits == 2
    assert await sign_in(client, "x") == INVALID  # needs no key
    server.fault = None

    async def again() -> tuple[int, str | None]:
        return await sign_in(client, server.token(new_subject()))

    assert await world.until(again, lambda seen: seen[0] == 200) == OK
    assert server.hits == 3
    for fault in (500, 0, *GARBAGE[:1]):
        server.fault = fault
        assert await again() == OK
        assert await sign_in(client, server.token("s", key=RSA_KEYS[1])) == (503, "UNAVAILABLE")
        assert await again() == OK


async def test_silent_provider_does_not_delay_tokens_with_known_key(
    world: World, base: str, server: IdentityServer
) -> None:
    assert await sign_in(device(world, base=base), server.token(new_subject())) == OK
    real, held = server.answer, asyncio.Event()
    loop = asyncio.get_running_loop()

    def silent(path: str, headers: dict[str, str], body: bytes) -> Any:
        loop.call_soon_threadsafe(held.set)
        server.released.wait(30)
        return real(path, headers, body)

    server.answer = silent  # type: ignore[method-assign]
    unknown = asyncio.create_task(sign_in(device(world, base=base), server.token("s", key=RSA_KEYS[1])))
    await held.wait()
    for _ in range(5):
        assert await sign_in(device(world, base=base), server.token(new_subject())) == OK
    assert not unknown.done()
    server.released.set()
    assert await unknown == INVALID


@pytest.mark.slow
async def test_silent_provider_without_known_key_is_503_within_five_seconds(
    world: World, base: str, server: IdentityServer
) -> None:
    def silent(path: str, headers: dict[str, str], body: bytes) -> Any:
        server.released.wait(30)

    server.answer = silent  # type: ignore[method-assign]
    began = time.monotonic()
    calls = [sign_in(device(world, base=base), server.token(new_subject())) for _ in range(5)]
    assert await all_at_once(calls) == [(503, "UNAVAILABLE")] * 5
    assert time.monotonic() - began < within(5)
