"""One service with both identity providers, shared by all tests of accounts."""

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.http.sign_in.outside import IdentityServer
from tests.stack import Stack, World

A_AUDIENCES, A_ISSUERS = "app-a, web-a", "https://a.example.test,a.example.test"
B_AUDIENCES, B_ISSUERS = "app-b", "https://b.example.test"


@pytest.fixture(scope="package")
def provider_a() -> Iterator[IdentityServer]:
    """Run identity provider A."""
    made = IdentityServer(issuer="https://a.example.test", audience="app-a")
    yield made
    made.close()


@pytest.fixture(scope="package")
def provider_b() -> Iterator[IdentityServer]:
    """Run identity provider B."""
    made = IdentityServer(issuer="https://b.example.test", audience="app-b")
    yield made
    made.close()


@pytest.fixture(scope="package")
def stack(provider_a: IdentityServer, provider_b: IdentityServer) -> Iterator[Stack]:
    """Run the service."""
    made = Stack(
        IDENTITY_A_AUDIENCES=A_AUDIENCES, IDENTITY_A_ISSUERS=A_ISSUERS, IDENTITY_A_JWKS_URL=provider_a.url + "/keys",
        IDENTITY_B_AUDIENCES=B_AUDIENCES, IDENTITY_B_ISSUERS=B_ISSUERS, IDENTITY_B_JWKS_URL=provider_b.url + "/keys",
    )  # fmt: skip
    yield made
    made.close()


@pytest.fixture
async def world(stack: Stack) -> AsyncIterator[World]:
    """Return a World on the service of the accounts tests."""
    made = World(stack)
    yield made
    await made.close()
