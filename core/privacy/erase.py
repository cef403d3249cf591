"""Erase a user's personal data: asked for by themselves, or by an operator (docs/privacy.md#erasure)."""

import attrs

from core.accounts.customers import erasing as customers
from core.accounts.customers.rules import Identity, IdentityKind
from core.accounts.logins import check_code, check_identity, failed_sign_ins
from core.accounts.logins import store as logins
from core.base import field_messages
from core.base.actor import Actor, UserType
from core.base.errors import Unauthenticated, ValidationFailed
from core.bus.buckets import charges_of_address, hourly_limit
from core.erasures.rules import RequestedBy
from core.erasures.store import Erasure
from core.privacy import erasing
from core.privacy.erasing import IdentityChanged, Requester
from core.runtime.container import Runtime
from core.security import identity
from core.security.identity import IdentityTokenInvalid, ProviderDisabled
from core.storage.transaction import Tx
from core.telemetry import logs

PER_ADDRESS = 300  # an hour: each leaves a row that stays, and anonymous customers are free to make
BY_USER = Requester(by=RequestedBy.USER)
log = logs.get("erasure")


@attrs.frozen(kw_only=True)
class CodeProof:
    """A code that was sent to the caller's phone."""

    otp_request_id: str
    code: str = attrs.field(repr=False)


@attrs.frozen(kw_only=True)
class IdentityProof:
    """A token of the caller's identity that was not used before."""

    provider: str
    identity_token: str = attrs.field(repr=False)
    nonce: str | None


async def erase_own(
    runtime: Runtime, actor: Actor, proof: CodeProof | IdentityProof | None, *, ip_address: str
) -> Erasure:
    """Erase the calling customer. The texts of their sessions follow within minutes.

    A customer with a phone or identity must prove it again; an anonymous one needs no proof. Raises SessionInProgress,
    ValidationFailed (no proof), OtpInvalid, OtpExpired, OtpAttemptsExceeded, IdentityTokenInvalid, ProviderDisabled,
    RateLimited, Unauthenticated, Unavailable.
    """
    await runtime.charge(charges_of_address(hourly_limit("erasures", PER_ADDRESS), ip_address))
    known = await customers.identities_of(runtime.db, actor.user_id)
    try:
        if not known:
            made = await _unproven(runtime, actor)
        elif isinstance(proof, CodeProof):
            made = await _by_code(runtime, actor, known, proof, ip_address)
        elif isinstance(proof, IdentityProof):
            made = await _by_identity(runtime, actor, known, proof, ip_address)
        else:
            raise ValidationFailed.of("otp_request_id", field_messages.REQUIRED)
    except IdentityChanged as error:
        # An anonymous caller has just signed in with a phone or identity, or joined an account.
        raise Unauthenticated from error
    _log(made)
    return made


async def _unproven(runtime: Runtime, actor: Actor) -> Erasure:
    async with runtime.transaction() as tx:
        return await erasing.erase_customer(runtime, tx, actor.user_id, [], BY_USER)


async def _by_code(runtime: Runtime, actor: Actor, known: list[Identity], proof: CodeProof, ip_address: str) -> Erasure:
    phone = next((one.value for one in known if one.kind is IdentityKind.PHONE), None)

    async def erase(tx: Tx, proven: str) -> Erasure | None:
        if proven != phone:
            return None
        return await erasing.erase_customer(runtime, tx, actor.user_id, known, BY_USER)

    with failed_sign_ins.noted(runtime, way="erasure code", address=ip_address) as attempt:
        return await check_code.verify(runtime, UserType.CUSTOMER, proof.otp_request_id, proof.code, erase, attempt)


async def _by_identity(
    runtime: Runtime, actor: Actor, known: list[Identity], proof: IdentityProof, ip_address: str
) -> Erasure:
    configured = runtime.identity_providers.get(proof.provider)
    if configured is None:
        raise ProviderDisabled
    with failed_sign_ins.noted(runtime, way="erasure identity", address=ip_address) as attempt:
        claims = await check_identity.verify(runtime, configured, proof.identity_token, proof.nonce)
        attempt.account = claims.subject
        kind = check_identity.KINDS[proof.provider]
        if not any((one.kind, one.value) == (kind, claims.subject) for one in known):
            raise IdentityTokenInvalid
        async with runtime.transaction() as tx:
            earlier = await logins.use_identity_token(
                tx,
                digest=identity.digest_of(proof.identity_token),
                auth_session_id=actor.auth_session_id,
                expires_real_at=claims.expires_at,
            )
            if earlier is not None:
                raise IdentityTokenInvalid
            return await erasing.erase_customer(runtime, tx, actor.user_id, known, BY_USER)


async def erase_customer(runtime: Runtime, customer_id: str, asked: Requester) -> Erasure:
    """Erase a customer's account for an operator. Raises NotFound, SessionInProgress."""
    while True:
        known = await customers.identities_of(runtime.db, await customers.account_of(runtime.db, customer_id))
        try:
            async with runtime.transaction() as tx:
                made = await erasing.erase_customer(runtime, tx, customer_id, known, asked)
        except IdentityChanged:
            continue  # a customer gains an identity or joins an account once, so this loop ends
        _log(made)
        return made


async def erase_mitra(runtime: Runtime, mitra_id: str, asked: Requester) -> Erasure:
    """Erase a deactivated mitra. Raises NotFound, MitraStillActive."""
    async with runtime.transaction() as tx:
        made = await erasing.erase_mitra(runtime, tx, mitra_id, asked)
    _log(made)
    return made


def _log(made: Erasure) -> None:
    # The line outlives a restored backup: it names a user whose data must be erased again.
    log.info("erased", erasure_id=made.id, user_type=made.user_type, user_id=made.user_id)
