"""Check a token of an identity provider (docs/product.md#identity-providers)."""

from core.accounts.customers.rules import IdentityKind
from core.providers.identity_keys import IdentityProvider
from core.runtime.container import Runtime
from core.security import identity
from core.security.identity import Claims, IdentityTokenInvalid

KINDS = {"a": IdentityKind.IDENTITY_A, "b": IdentityKind.IDENTITY_B}


async def verify(runtime: Runtime, provider: IdentityProvider, identity_token: str, nonce: str | None) -> Claims:
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
