"""Link a phone or an identity to a verified customer, and unlink an identity (docs/product.md#ways-to-sign-in).

The caller has signed in within the last minutes, so a copied token is not enough. Nothing is merged: what another
account has is refused.
"""

import attrs

from core.accounts.customers import block_account, erasing
from core.accounts.customers import store as customers
from core.accounts.customers.rules import (
    KINDS,
    AccountBlocked,
    Identity,
    IdentityInUse,
    IdentityKind,
    LastSignInMethod,
    PhoneInUse,
    Provider,
    VerifiedAccountRequired,
)
from core.accounts.customers.store import Customer
from core.accounts.logins import callers, check_code, failed_sign_ins, sign_off
from core.accounts.logins import store as logins
from core.accounts.logins.sign_in_with_identity import verify_identity
from core.base.actor import Actor, UserType
from core.base.errors import DomainError, Unauthenticated
from core.erasures.rules import identity_hash
from core.events.changes import SignInMethod, SignInMethodChanged
from core.runtime.container import Runtime
from core.security import identity
from core.security.identity import IdentityTokenInvalid, ProviderDisabled
from core.storage.transaction import Tx

METHODS: dict[IdentityKind, SignInMethod] = {
    IdentityKind.PHONE: "phone",
    **{kind: provider for provider, kind in KINDS.items()},
}


async def link_identity(
    runtime: Runtime, actor: Actor, *, provider: Provider, identity_token: str, nonce: str | None, ip_address: str
) -> Customer:
    """Link an identity, in the place of another one of the provider. Return the customer.

    The same token again from the same device changes nothing. A refusal uses the token up. Raises
    VerifiedAccountRequired, RecentSignInRequired, ProviderDisabled, IdentityTokenInvalid, IdentityInUse,
    AccountBlocked, Unauthenticated, Unavailable.
    """
    configured = runtime.identity_providers.get(provider)
    if configured is None:
        raise ProviderDisabled
    await _require(runtime, actor)
    with failed_sign_ins.noted(runtime, way=f"link identity {provider}", address=ip_address) as attempt:
        claims = await verify_identity(runtime, configured, identity_token, nonce)
        attempt.account = claims.subject
        proven = Identity(kind=KINDS[provider], value=claims.subject, email=claims.email)
        async with runtime.transaction() as tx:
            earlier = await logins.use_identity_token(
                tx,
                digest=identity.digest_of(identity_token),
                auth_session_id=actor.auth_session_id,
                expires_real_at=claims.expires_at,
            )
            result = (
                await _link_or_refuse(runtime, tx, actor, proven)
                if earlier is None
                else await _linked_before(tx, actor, proven, auth_session_id=earlier.auth_session_id)
            )
        if isinstance(result, DomainError):
            raise result
        return result


async def link_phone(runtime: Runtime, actor: Actor, *, otp_request_id: str, code: str, ip_address: str) -> Customer:
    """Link the phone to which a code was sent, in the place of another one. Return the customer.

    A phone that replaces another one ends the account's other auth sessions. A right code is used up, even if the link
    is refused. Raises VerifiedAccountRequired, RecentSignInRequired, OtpInvalid, OtpExpired, OtpAttemptsExceeded,
    PhoneInUse, AccountBlocked, Unauthenticated, Unavailable.
    """
    await _require(runtime, actor)

    async def link(tx: Tx, phone: str) -> Customer | DomainError:
        return await _link_or_refuse(runtime, tx, actor, Identity(kind=IdentityKind.PHONE, value=phone))

    with failed_sign_ins.noted(runtime, way="link code", address=ip_address) as attempt:
        return await check_code.verify(runtime, UserType.CUSTOMER, otp_request_id, code, link, attempt)


async def unlink_identity(runtime: Runtime, actor: Actor, *, provider: Provider) -> None:
    """Unlink an identity. If it is not linked, nothing changes.

    Raises VerifiedAccountRequired, RecentSignInRequired, LastSignInMethod, AccountBlocked.
    """
    await _require(runtime, actor)
    kind = KINDS[provider]
    async with runtime.transaction() as tx:
        await customers.lock(tx, actor.user_id)
        customer = await customers.get(tx, actor.user_id)
        before = None if customer is None else getattr(customer, kind.value)
        if before is None:
            return
        await block_account.check(tx, actor.user_id)
        if not await customers.unlink(tx, actor.user_id, kind):
            raise LastSignInMethod
        await _tell(runtime, tx, actor.user_id, kind, linked=False, given_up=before)


async def _require(runtime: Runtime, actor: Actor) -> None:
    """Check that the caller is verified and signed in lately. Raises VerifiedAccountRequired, RecentSignInRequired."""
    customer = await customers.get(runtime.db, actor.user_id)
    if customer is None or customer.is_anonymous:
        raise VerifiedAccountRequired
    await callers.require_recent_sign_in(runtime, actor)


async def _linked_before(tx: Tx, actor: Actor, proven: Identity, *, auth_session_id: str) -> Customer:
    """Return the caller, if this device (`auth_session_id`) has linked the identity with the token that it repeats.

    Raises IdentityTokenInvalid.
    """
    customer = await customers.get(tx, actor.user_id)
    is_repeat = auth_session_id == actor.auth_session_id
    if customer is None or not is_repeat or getattr(customer, proven.kind.value) != proven.value:
        raise IdentityTokenInvalid
    return customer


async def _link_or_refuse(runtime: Runtime, tx: Tx, actor: Actor, proven: Identity) -> Customer | DomainError:
    """Link what was proven. Return the customer, or a refusal that must not undo the use of the code or token.

    Raises Unauthenticated.
    """
    try:
        return await _link(runtime, tx, actor, proven)
    except (PhoneInUse, IdentityInUse, AccountBlocked) as refusal:  # nothing was linked yet
        return refusal


async def _link(runtime: Runtime, tx: Tx, actor: Actor, proven: Identity) -> Customer:
    before = await _hold(tx, actor, proven)
    owner = await customers.with_identity(tx, proven)
    if owner is not None and owner != actor.user_id:
        raise PhoneInUse if proven.kind is IdentityKind.PHONE else IdentityInUse
    if before is not None and before != proven.value:
        await _give_up(tx, actor, proven.kind)
    customer = await customers.link(tx, actor.user_id, proven)
    if customer is None:  # within a second of the erasure, before its token is refused
        raise Unauthenticated
    if before == proven.value:
        return customer
    if await erasing.had_first_session(runtime, tx, proven):
        await erasing.set_had_first_session(tx, customer.id)
    await _tell(runtime, tx, customer.id, proven.kind, linked=True, given_up=before)
    return await customers.get(tx, customer.id) or customer


async def _give_up(tx: Tx, actor: Actor, kind: IdentityKind) -> None:
    """Prepare that another phone or identity replaces the caller's: a phone ends their other auth sessions.

    A blocked account gives nothing up, because a new account could sign in with it. Raises AccountBlocked.
    """
    is_phone = kind is IdentityKind.PHONE
    if is_phone:
        await logins.lock_all(tx, actor.user_id)
    await customers.lock(tx, actor.user_id)
    await block_account.check(tx, actor.user_id)
    if is_phone:
        await sign_off.revoke_others(tx, actor)


async def _hold(tx: Tx, actor: Actor, proven: Identity) -> str | None:
    """Lock an identity, and the one of the caller that it replaces. Return the latter's value, None without one.

    So a sign-in with the replaced phone is either before the change, and ends with it, or finds no account.
    """
    await customers.hold_methods(tx, actor.user_id)
    customer = await customers.get(tx, actor.user_id)
    before = None if customer is None else getattr(customer, proven.kind.value)
    for value in sorted({proven.value, before or proven.value}):
        await customers.hold_identity(tx, attrs.evolve(proven, value=value))
    return before


async def _tell(
    runtime: Runtime, tx: Tx, customer_id: str, kind: IdentityKind, *, linked: bool, given_up: str | None
) -> None:
    key = runtime.settings.erasure_hash_keys[0]
    await tx.tell(
        SignInMethodChanged(
            customer_id=customer_id,
            method=METHODS[kind],
            linked=linked,
            given_up=None if given_up is None else identity_hash(key, kind=kind.value, value=given_up),
        )
    )
