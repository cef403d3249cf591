"""Sign in a customer with a token of identity provider A or B (docs/product.md#identity-providers).

The provider's keys are fetched before the transaction. The four cases of docs/product.md#merging-accounts follow in it.
"""

from typing import Any

from core.accounts.customers import sign_in
from core.accounts.customers import store as customers
from core.accounts.customers.rules import KINDS, Identity, Provider
from core.accounts.customers.store import Customer
from core.accounts.logins import failed_sign_ins, repeated_sign_ins, tokens
from core.accounts.logins import store as logins
from core.accounts.logins.tokens import Opening
from core.base.actor import Actor
from core.idempotency.rules import KeyedRequest
from core.providers.identity_keys import IdentityProvider
from core.runtime.container import Runtime
from core.security import identity
from core.security.access import Tokens
from core.security.identity import IdentityClaims, IdentityTokenInvalid, ProviderDisabled, Use
from core.storage.transaction import Tx

PURGE_AT_ONCE = 1_000  # rows for each statement


async def sign_in_by_identity(
    runtime: Runtime,
    *,
    provider: Provider,
    identity_token: str,
    nonce: str | None,
    caller: Actor | None,
    keyed: KeyedRequest | None,
    device: dict[str, Any],
    ip_address: str,
) -> tuple[Tokens, Customer]:
    """Sign a customer in: upgraded, joined, created or known. Return (tokens, customer). A token works once.

    The same token again within 60 s gets the same auth session, because the first answer may have been lost; a repeat
    of the `keyed` request of an anonymous customer does within five minutes. Raises ProviderDisabled,
    IdentityTokenInvalid, RateLimited, Unavailable (the provider's keys can't be read).
    """
    configured = runtime.identity_providers.get(provider)
    if configured is None:
        raise ProviderDisabled
    with failed_sign_ins.noted(runtime, way=f"identity {provider}", address=ip_address) as attempt:
        again = await repeated_sign_ins.find(runtime, keyed, _secrets(runtime, identity_token))
        if again is not None:
            return again
        claims = await verify_identity(runtime, configured, identity_token, nonce)
        attempt.account = claims.subject
        proven = Identity(kind=KINDS[provider], value=claims.subject, email=claims.email)
        opening = Opening(secret=identity.secret_of(identity_token, key=runtime.keys.identity_tokens[0]))
        async with runtime.transaction() as tx:
            earlier = await logins.use_identity_token(
                tx,
                digest=identity.digest_of(identity_token),
                auth_session_id=opening.auth_session_id,
                expires_real_at=claims.expires_at,
            )
            if earlier is not None:
                return await _again(runtime, tx, identity_token, earlier)
            return await sign_in.sign_in(
                runtime, tx, identity=proven, caller=caller, device=device, opening=opening, keyed=keyed
            )


async def _again(runtime: Runtime, tx: Tx, identity_token: str, earlier: Use) -> tuple[Tokens, Customer]:
    """Repeat the answer to a token that was just used, unless the device has refreshed its tokens since.

    Raises IdentityTokenInvalid.
    """
    if tx.now >= earlier.used_at + identity.REPEAT:
        raise IdentityTokenInvalid
    again = await tokens.first_again(
        runtime,
        tx,
        earlier.auth_session_id,
        within=identity.REPEAT,
        secrets=_secrets(runtime, identity_token),
    )
    customer = None if again is None else await customers.get(tx, again[1])
    if again is None or customer is None:
        raise IdentityTokenInvalid
    return again[0], customer


def _secrets(runtime: Runtime, identity_token: str) -> list[bytes]:
    """Return what the secret of the first refresh token may be that was given for an identity token."""
    return [identity.secret_of(identity_token, key=key) for key in runtime.keys.identity_tokens]


async def purge_used_tokens(runtime: Runtime) -> None:
    """Sweep: delete used identity tokens that have expired."""
    await runtime.in_batches(lambda tx: logins.forget_identity_tokens(tx, limit=PURGE_AT_ONCE), at_once=PURGE_AT_ONCE)


async def verify_identity(
    runtime: Runtime, provider: IdentityProvider, identity_token: str, nonce: str | None
) -> IdentityClaims:
    """Check a token with the provider's keys, before any transaction. Return its claims.

    Raises IdentityTokenInvalid, and Unavailable if the keys can't be read.
    """
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
