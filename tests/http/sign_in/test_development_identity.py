"""Sign-in at the development identity provider, with its pages (docs/product.md#identity-providers)."""

import html
import re
import urllib.parse
from collections.abc import Iterator
from typing import Any

import aiohttp
import pytest

from tests.http.sign_in.people import IDENTITY, anonymous, another_api, device, end_api, raw, row_of
from tests.stack import Stack, World
from tools.driving.device import Device

pytestmark = pytest.mark.anyio

PROVIDERS = "/api/shared/auth-providers"
APP = "https://app.example.test"
NO_PROVIDER = dict.fromkeys(
    [f"IDENTITY_{letter}_{name}" for letter in "AB" for name in ("AUDIENCES", "ISSUERS", "JWKS_URL")], ""
)


@pytest.fixture(scope="module")
def base(stack: Stack) -> Iterator[str]:
    """Run an api process with the development providers and no others; return its address."""
    made = another_api(stack, "development", DEVELOPMENT_IDENTITIES="true", PUBLIC_CORS_ORIGINS=APP, **NO_PROVIDER)
    yield made
    end_api(stack, "development")


async def page(client: Device, path: str, form: dict[str, str] | None = None) -> tuple[int, str, Any]:
    """Get a page, or post a form to it; return status, text and headers."""
    method = "GET" if form is None else "POST"
    async with client._http.request(method, client._base + path, data=form) as answer:
        assert isinstance(answer, aiohttp.ClientResponse)
        return answer.status, await answer.text(), answer.headers


async def token_of(client: Device, email: str, *, letter: str = "a", **form: str) -> str:
    """Sign in at the provider and return the identity token that its page hands over."""
    status, text, _ = await page(client, f"/dev/identity-{letter}", {"email": email, **form})
    assert status == 200, text
    found = re.search(r'data-token="([^"]+)"', text)
    assert found is not None
    return found[1]


@pytest.mark.parametrize("environment", ["development", "test"])
async def test_unconfigured_providers_are_enabled_by_their_setting_only(
    world: World, stack: Stack, base: str, environment: str
) -> None:
    on = {"identity_a": {"enabled": True}, "identity_b": {"enabled": True}}
    assert await device(world, base=base).get(PROVIDERS) == on
    plain = another_api(stack, "plain", ENVIRONMENT=environment, **NO_PROVIDER)
    try:
        client = device(world, base=plain)
        assert await client.get(PROVIDERS) == {"identity_a": {"enabled": False}, "identity_b": {"enabled": False}}
        for path in ("/dev/identity-a", "/dev/identity-b", "/dev/identity-a/jwks.json"):
            assert (await page(client, path))[0] == 404
    finally:
        end_api(stack, "plain")


@pytest.mark.parametrize("letter", ["a", "b"])
async def test_token_of_the_page_signs_a_customer_in(world: World, base: str, letter: str) -> None:
    client = await anonymous(world)
    client._base = base
    token = await token_of(client, f" Dewi-{letter}@Example.test ", letter=letter, nonce="n-1")
    status, answer, _ = await raw(client, "POST", IDENTITY[letter], {"identity_token": token, "nonce": "n-1"})
    assert status == 200, answer
    assert answer["customer"]["id"] == client.user["id"]  # upgraded in place
    assert answer["customer"]["email"] == f"dewi-{letter}@example.test"
    assert (await row_of(world, client.user["id"]))[f"identity_{letter}_sub"] == f"dewi-{letter}@example.test"
    again = await token_of(client, f"dewi-{letter}@example.test", letter=letter)
    status, answer, _ = await raw(device(world, base=base), "POST", IDENTITY[letter], {"identity_token": again})
    assert (status, answer["customer"]["id"]) == (200, client.user["id"])


async def test_token_with_another_nonce_is_refused(world: World, base: str) -> None:
    client = device(world, base=base)
    token = await token_of(client, "budi@example.test", nonce="n-1")
    status, answer, _ = await raw(client, "POST", IDENTITY["a"], {"identity_token": token, "nonce": "n-2"})
    assert (status, answer["error"]["code"]) == (401, "IDENTITY_TOKEN_INVALID")


@pytest.mark.parametrize(
    "email", ["", "dewi", "a@b@c", "@example.test", "dewi@", "d e@example.test", "d" * 300 + "@e.t"]
)
async def test_page_refuses_what_is_not_an_email_address(world: World, base: str, email: str) -> None:
    status, text, _ = await page(device(world, base=base), "/dev/identity-a", {"email": email})
    assert status == 422
    assert '"field":"email"' in text


@pytest.mark.parametrize(
    "origin", ["https://evil.example.test", APP + ".evil.test", APP + "/", "null", "*", "http://127.0.0.1:1"]
)
async def test_page_hands_tokens_only_to_allowed_origins(world: World, base: str, origin: str) -> None:
    client = device(world, base=base)
    query = urllib.parse.urlencode({"origin": origin})
    for form in (None, {"email": "dewi@example.test", "origin": origin}):
        status, text, _ = await page(client, f"/dev/identity-a?{query}", form)
        assert status == 422
        assert '"field":"origin"' in text


async def test_page_accepts_its_own_origin_and_those_of_the_cors_setting(world: World, base: str) -> None:
    client = device(world, base=base)
    for origin in (base, APP):
        status, text, headers = await page(client, f"/dev/identity-a?{urllib.parse.urlencode({'origin': origin})}")
        assert status == 200
        assert f'name="origin" value="{origin}"' in text
        assert headers["Content-Security-Policy"].endswith(f"frame-ancestors 'self' {APP}")


async def test_page_escapes_what_it_repeats(world: World, base: str) -> None:
    client = device(world, base=base)
    evil = '"><script>alert(1)</script>'
    _, text, _ = await page(client, f"/dev/identity-a?{urllib.parse.urlencode({'nonce': evil})}")
    assert html.escape(evil) in text
    assert evil not in text


async def test_published_keys_belong_to_the_tokens(world: World, base: str) -> None:
    client = device(world, base=base)
    (key,) = (await client.get("/dev/identity-a/jwks.json"))["keys"]
    assert (key["kty"], key["alg"], key["kid"]) == ("EC", "ES256", "development")
