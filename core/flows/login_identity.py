"""Customers sign in by identity provider A or B (specification, Authentication 4; contract 3).

The provider's keys are fetched before the transaction; the same four cases as with a phone follow in it.
"""

from typing import Any

from core.base.actor import Actor
from core.customers.rules import Identity, IdentityKind
from core.customers.store import Customer
from core.logins import identity
from core.logins.identity import Claims, IdentityTokenInvalid, ProviderDisabled
from core.logins.issued import Tokens
from core.outside.identity_keys import IdentityProvider
from core.runtime import Runtime
from core.steps import accounts, failed_sign_ins

KINDS = {"a": IdentityKind.IDENTITY_A, "b": IdentityKind.IDENTITY_B}


async def sign_in_by_identity(
    runtime: Runtime,
    *,
    provider: str,
    identity_token: str,
    nonce: str | None,
    caller: Actor | None,
    device: dict[str, Any],
    ip_address: str,
) -> tuple[Tokens, Customer]:
    """Sign a customer in: upgraded, joined, created or recognised.

    Raises ProviderDisabled, IdentityTokenInvalid, Unavailable (the provider's keys can't be read).
    """
    configured = runtime.identity_providers.get(provider)
    if configured is None:
        raise ProviderDisabled
    with failed_sign_ins.noted(runtime, way=f"identity {provider}", address=ip_address):
        claims = await _verify(runtime, configured, identity_token, nonce)
    proven = Identity(kind=KINDS[provider], value=claims.subject, email=claims.email)
    async with runtime.transaction() as tx:
        return await accounts.sign_in(runtime, tx, identity=proven, caller=caller, device=device)


async def _verify(runtime: Runtime, provider: IdentityProvider, identity_token: str, nonce: str | None) -> Claims:
    key = await provider.keys.get(identity.key_id_of(identity_token))
    if key is None:
        raise IdentityTokenInvalid
    return identity.verify(
        identity_token,
        key,
        audiences=provider.audiences,
        issuers=provider.issuers,
        nonce=nonce,
        now=runtime.clock.real_now(),
    )
