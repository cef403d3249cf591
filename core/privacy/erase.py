"""Erase a user's personal data: asked for by themselves, or by an operator (docs/privacy.md#erasure).

One transaction erases the user's identity and signs them out. What takes longer follows in core/privacy/erase_rest.py,
by the jobs process. `all_erasures` is for a list that is kept outside the backups (docs/privacy.md#backups).
"""

from collections.abc import AsyncIterator, Sequence

import attrs

from core.accounts.customers import erasing as customer_erasing
from core.accounts.customers import store as customers
from core.accounts.customers.rules import KINDS, Identity, IdentityKind, Provider
from core.accounts.logins import check_code, failed_sign_ins, sign_in_with_identity, sign_off
from core.accounts.logins import erasing as login_erasing
from core.accounts.logins import store as logins
from core.accounts.mitras import erasing as mitra_erasing
from core.accounts.mitras import store as mitras
from core.accounts.mitras.rules import NumberChanged
from core.accounts.operators import store as operators
from core.base import field_messages
from core.base.actor import Actor, UserType
from core.base.errors import NotFound, Unauthenticated, ValidationFailed
from core.base.field_types import Id, Time
from core.bus.buckets import charges_of_address, hourly_limit
from core.erasures import store as erasures
from core.erasures.rules import MitraStillActive, RequestedBy
from core.erasures.store import Erasure
from core.idempotency import store as idempotency
from core.payments import erasing as payment_erasing
from core.payments import money
from core.payments import store as payments
from core.payments.rules import SessionInProgress
from core.privacy import erase_columns
from core.runtime.container import Runtime
from core.security import identity
from core.security.identity import IdentityTokenInvalid, ProviderDisabled
from core.storage.transaction import Tx
from core.telemetry import logs

PER_ADDRESS = 300  # an hour: each leaves a row that stays, and anonymous customers are free to make
LISTED_AT_ONCE = 1_000
log = logs.get("erasure")


@attrs.frozen(kw_only=True)
class Requester:
    """Who asks for an erasure; `operator_id` is set for an operator."""

    by: RequestedBy
    operator_id: str | None = None


class IdentityChanged(Exception):
    """The customer gained an identity while the caller waited for its locks: the caller must start again."""


BY_USER = Requester(by=RequestedBy.USER)


@attrs.frozen(kw_only=True)
class CodeProof:
    """A code that was sent to the caller's phone."""

    otp_request_id: str
    code: str = attrs.field(repr=False)


@attrs.frozen(kw_only=True)
class IdentityProof:
    """A token of the caller's identity that was not used before."""

    provider: Provider
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
    known = await customer_erasing.identities_of(runtime.db, actor.user_id)
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
        return await _erase_customer_in(runtime, tx, actor.user_id, [], BY_USER)


async def _by_code(runtime: Runtime, actor: Actor, known: list[Identity], proof: CodeProof, ip_address: str) -> Erasure:
    phone = next((one.value for one in known if one.kind is IdentityKind.PHONE), None)

    async def erase(tx: Tx, proven: str) -> Erasure | None:
        if proven != phone:
            return None
        return await _erase_customer_in(runtime, tx, actor.user_id, known, BY_USER)

    with failed_sign_ins.noted(runtime, way="erasure code", address=ip_address) as attempt:
        return await check_code.verify(runtime, UserType.CUSTOMER, proof.otp_request_id, proof.code, erase, attempt)


async def _by_identity(
    runtime: Runtime, actor: Actor, known: list[Identity], proof: IdentityProof, ip_address: str
) -> Erasure:
    configured = runtime.identity_providers.get(proof.provider)
    if configured is None:
        raise ProviderDisabled
    with failed_sign_ins.noted(runtime, way="erasure identity", address=ip_address) as attempt:
        claims = await sign_in_with_identity.verify_identity(runtime, configured, proof.identity_token, proof.nonce)
        attempt.account = claims.subject
        kind = KINDS[proof.provider]
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
            return await _erase_customer_in(runtime, tx, actor.user_id, known, BY_USER)


async def erase_customer(runtime: Runtime, customer_id: str, asked: Requester) -> Erasure:
    """Erase a customer's account for an operator. Raises NotFound, SessionInProgress."""
    while True:
        account_id = await customer_erasing.account_of(runtime.db, customer_id)
        known = await customer_erasing.identities_of(runtime.db, account_id)
        try:
            async with runtime.transaction() as tx:
                made = await _erase_customer_in(runtime, tx, customer_id, known, asked)
        except IdentityChanged:
            continue  # a customer gains an identity or joins an account once, so this loop ends
        _log(made)
        return made


async def erase_mitra(runtime: Runtime, mitra_id: str, asked: Requester) -> Erasure:
    """Erase a deactivated mitra. Raises NotFound, MitraStillActive."""
    while True:
        try:
            async with runtime.transaction() as tx:
                made = await _erase_mitra_in(runtime, tx, mitra_id, asked)
        except NumberChanged:
            continue  # each time an operator has changed the number, so this loop ends
        _log(made)
        return made


def _log(made: Erasure) -> None:
    # The line outlives a restored backup: it names a user whose data must be erased again.
    log.info("erased", erasure_id=made.id, user_type=made.user_type, user_id=made.user_id)


async def _erase_customer_in(
    runtime: Runtime, tx: Tx, customer_id: str, known: list[Identity], asked: Requester
) -> Erasure:
    """Erase the identity of a customer's account, sign it out, and abandon its pending requests.

    `known` are the identities that the caller has read. A repeated erasure returns the first one. Raises NotFound,
    IdentityChanged, and SessionInProgress for a live session or a confirmed request.
    """
    account_id = await customer_erasing.account_of(tx, customer_id)
    rows = await _lock(tx, account_id, known)
    before = await erasures.of_user(tx, account_id)
    if before is not None and await customer_erasing.is_erased(tx, account_id):
        return before
    if await customer_erasing.identities_of(tx, account_id) != known or await _has_joined(tx, customer_id, account_id):
        raise IdentityChanged
    in_progress = await payments.in_progress(tx, rows, but=None)
    if in_progress is not None:
        raise SessionInProgress(details=in_progress.details)
    for payment in await payment_erasing.lock_pending(tx, rows):
        await money.abandon(tx, payment, by=None)
    await _keep_of_identities(runtime, tx, rows, known)
    await customer_erasing.mark_erased(tx, rows)
    await operators.blank_audit_log(tx, rows)
    await _sign_out(tx, account_id, rows)
    return await _begun(tx, UserType.CUSTOMER, account_id, asked)


async def _lock(tx: Tx, account_id: str, known: list[Identity]) -> list[str]:
    """Lock an account with its codes, identities, devices and joined customers. Return the ids of its customers.

    Raises NotFound.
    """
    for one in known:
        if one.kind is IdentityKind.PHONE:
            await login_erasing.lock_codes(tx, one.value)
    for one in known:
        await customers.hold_identity(tx, one)
    rows = await customer_erasing.rows_of(tx, account_id)
    if not rows:
        raise NotFound
    await login_erasing.lock_devices(tx, rows)
    await customer_erasing.lock_rows(tx, account_id, rows)
    return rows


async def _has_joined(tx: Tx, customer_id: str, account_id: str) -> bool:
    """Return whether a customer has joined another account than the one that is locked."""
    return await customer_erasing.account_of(tx, customer_id) != account_id


async def _keep_of_identities(runtime: Runtime, tx: Tx, rows: list[str], known: list[Identity]) -> None:
    """Keep what is needed of the identities: hashes if the discount is used up, and marks of codes for their limits."""
    if await payment_erasing.has_used_first_session(tx, rows):
        for one in known:
            await customer_erasing.remember_identity(runtime, tx, one)
    for one in known:
        if one.kind is IdentityKind.PHONE:
            await login_erasing.forget_codes(runtime, tx, one.value)


async def _erase_mitra_in(runtime: Runtime, tx: Tx, mitra_id: str, asked: Requester) -> Erasure:
    """Erase the identity of a deactivated mitra. Their conversations belong to their customers and stay.

    A repeated erasure returns the first one. Raises NotFound, MitraStillActive, NumberChanged.
    """
    found = await mitras.get(tx, mitra_id)
    if found is None:
        raise NotFound
    await login_erasing.lock_codes(tx, found.phone)
    await mitras.hold_logins(tx, mitra_id)
    await login_erasing.lock_devices(tx, [mitra_id])
    mitra = await mitras.lock(tx, mitra_id)
    assert mitra is not None
    if mitra.is_active:
        raise MitraStillActive
    before = await erasures.of_user(tx, mitra_id)
    if before is not None and await mitra_erasing.is_erased(tx, mitra_id):
        return before
    if mitra.phone != found.phone:
        raise NumberChanged
    await login_erasing.forget_codes(runtime, tx, mitra.phone)
    await operators.blank_audit_log(tx, [mitra_id])
    await _sign_out(tx, mitra_id, [mitra_id])
    await mitra_erasing.blank(tx, mitra_id)
    return await _begun(tx, UserType.MITRA, mitra_id, asked)


async def _sign_out(tx: Tx, user_id: str, rows: Sequence[str]) -> None:
    """Revoke all devices of a user and erase the user, the devices and what is stored for them."""
    await sign_off.revoke(tx, user_id=user_id)
    await erase_columns.blank_identity(tx, rows)
    await forget_stored(tx, rows)


async def forget_stored(tx: Tx, rows: Sequence[str]) -> None:
    """Delete events, pushes and idempotent answers that are stored for a user.

    A key that another transaction has locked is left to the sweep.
    """
    await erase_columns.delete_rows(tx, rows)
    await idempotency.forget_all(tx, rows)


async def _begun(tx: Tx, user_type: UserType, user_id: str, asked: Requester) -> Erasure:
    if asked.by is not RequestedBy.USER:
        await operators.audit(tx, asked.operator_id, f"{user_type.value}.erased", user_type.value, user_id)
    return await erasures.begin(tx, user_type=user_type.value, user_id=user_id, requested_by=asked.by)


@attrs.frozen(kw_only=True)
class ErasureEntry:
    """An erasure: ids and times only."""

    user_type: str
    user_id: Id
    requested_by: str
    began_at: Time
    completed_at: Time | None


async def all_erasures(runtime: Runtime) -> AsyncIterator[ErasureEntry]:
    """Yield all erasures, the oldest first."""
    after: Erasure | None = None
    while True:
        found = await erasures.listed(runtime.db, after=after, limit=LISTED_AT_ONCE)
        for one in found:
            yield ErasureEntry(**attrs.asdict(one, filter=lambda field, _: field.name != "id"))
        if len(found) < LISTED_AT_ONCE:
            return
        after = found[-1]
