"""One service with an identity provider and a fallback file, on which a minute passes each second."""

import pathlib
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.http.sign_in.outside import IdentityServer
from tests.stack import Stack, World


@pytest.fixture(scope="package")
def provider_a() -> Iterator[IdentityServer]:
    """Run identity provider A."""
    made = IdentityServer(issuer="https://a.example.test", audience="app-a")
    yield made
    made.close()


@pytest.fixture(scope="package")
def files(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Return the folder of the fallback files."""
    return tmp_path_factory.mktemp("fallback")


@pytest.fixture(scope="package")
def stack(provider_a: IdentityServer, files: pathlib.Path) -> Iterator[Stack]:
    """Run the service."""
    made = Stack(
        scale=60, IDENTITY_A_AUDIENCES="app-a", IDENTITY_A_ISSUERS="https://a.example.test",
        IDENTITY_A_JWKS_URL=provider_a.url + "/keys", WEBHOOK_FALLBACK_ENABLED="true",
        WEBHOOK_FALLBACK_DIR=str(files), WEBHOOK_FALLBACK_NAME="kept",
    )  # fmt: skip
    yield made
    made.close()


@pytest.fixture
async def world(stack: Stack) -> AsyncIterator[World]:
    """Return a World on this service."""
    made = World(stack)
    await made.scale_silence()
    for row in ("otp_max_per_ip_per_hour", "otp_max_per_hour", "otp_max_per_phone_per_hour"):
        await made.config(row, 1_000_000)
    await made.config("otp_resend_cooldown_seconds", 1)
    await made.config("early_end_customer_enabled", True)
    yield made
    await made.close()
