"""Recognise an erased customer who comes back, for the first-session discount (docs/privacy.md#coming-back)."""

from core.accounts.customers.rules import Identity
from core.erasures import store as erasures
from core.erasures.rules import identity_hash
from core.runtime.container import Runtime
from core.storage.transaction import Tx


async def remember(runtime: Runtime, tx: Tx, identity: Identity) -> None:
    """Keep the hash of an identity whose customer is erased and had used up the discount."""
    key = runtime.settings.erasure_hash_keys[0]
    await erasures.keep_hash(tx, identity_hash(key, kind=identity.kind.value, value=identity.value))


async def had_first_session(runtime: Runtime, tx: Tx, identity: Identity) -> bool:
    """Return whether an erased customer with this identity had used up the discount."""
    keys = runtime.settings.erasure_hash_keys
    return await erasures.knows(
        tx, [identity_hash(key, kind=identity.kind.value, value=identity.value) for key in keys]
    )
