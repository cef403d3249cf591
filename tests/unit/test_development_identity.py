"""The development identity provider: its keys and tokens (docs/product.md#identity-providers)."""

import datetime as dt

import pytest

from core.providers.development_identity import AUDIENCE, KEY_ID, DevelopmentIdentity
from core.providers.http_client import HttpClient
from core.providers.identity_keys import make_identity_providers
from core.security import identity
from core.security.identity import IdentityClaims, IdentityTokenInvalid
from core.settings.environment import read

pytestmark = pytest.mark.anyio

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
SECRET, OTHER = b"s" * 32, b"t" * 32
REAL_A = {
    "IDENTITY_A_AUDIENCES": "app",
    "IDENTITY_A_ISSUERS": "i",
    "IDENTITY_A_JWKS_URL": "https://a.example.test/keys",
}


def signed(letter: str = "a", *, secret: bytes = SECRET, nonce: str | None = None) -> str:
    provider = DevelopmentIdentity(letter, secret=secret)
    return provider.token(token_id="1", email="dewi@example.test", nonce=nonce, now=NOW)


async def verified(
    token: str, letter: str = "a", *, nonce: str | None = None, now: dt.datetime = NOW
) -> IdentityClaims:
    """Verify a token as a process that has only the secret in common with its signer."""
    provider = DevelopmentIdentity(letter, secret=SECRET)
    key = await provider.get(identity.key_id_of(token))
    assert key is not None
    return identity.verify(token, key, audiences=(AUDIENCE,), issuers=(provider.issuer,), nonce=nonce, now=now)


async def test_processes_with_the_same_secret_accept_each_others_tokens():
    found = await verified(signed())
    assert (found.subject, found.email) == ("dewi@example.test", "dewi@example.test")


async def test_token_signed_with_another_secret_is_refused():
    with pytest.raises(IdentityTokenInvalid):
        await verified(signed(secret=OTHER))


async def test_token_of_provider_a_is_refused_for_b():
    with pytest.raises(IdentityTokenInvalid):
        await verified(signed("a"), "b")


async def test_token_expires_after_ten_minutes():
    await verified(signed(), now=NOW + dt.timedelta(minutes=9, seconds=59))
    with pytest.raises(IdentityTokenInvalid):
        await verified(signed(), now=NOW + dt.timedelta(minutes=10))


async def test_token_has_the_nonce_of_the_request():
    await verified(signed(nonce="n1"), nonce="n1")
    with pytest.raises(IdentityTokenInvalid):
        await verified(signed(nonce="n1"), nonce="n2")


async def test_published_key_has_no_private_part():
    provider = DevelopmentIdentity("a", secret=SECRET)
    assert set(provider.published) == {"kty", "crv", "x", "y", "kid", "alg", "use"}
    assert provider.published["kid"] == KEY_ID
    assert await provider.get("another") is None


@pytest.mark.parametrize(
    ("environ", "secret", "development"),
    [
        ({}, SECRET, {"a", "b"}),
        ({}, None, set()),
        (REAL_A, SECRET, {"b"}),
    ],
)
async def test_development_provider_replaces_only_those_not_configured(
    environ: dict[str, str], secret: bytes | None, development: set[str]
):
    http = HttpClient()
    try:
        found = make_identity_providers(read(environ), http, development_secret=secret)
    finally:
        await http.close()
    assert {letter for letter, one in found.items() if isinstance(one.keys, DevelopmentIdentity)} == development
    assert set(found) == development | ({"a"} if environ else set())
