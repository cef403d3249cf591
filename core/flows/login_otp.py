"""Sign in a customer or a mitra with a code (docs/product.md#phone-codes).

Verifying takes one transaction, or two if the provider checks the code: then the attempt is counted before the provider
is asked.
"""

import datetime as dt
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from core.base import logs, metrics
from core.base.actor import Actor, UserType
from core.base.errors import DomainError, Unavailable
from core.customers.rules import Identity, IdentityKind
from core.customers.store import Customer
from core.logins import codes, otp
from core.logins.access import Tokens
from core.logins.codes import OtpRequest
from core.mitras import store as mitras
from core.mitras.store import Mitra
from core.providers.otp_sender import OtpVerifier, Verdict
from core.runtime import Runtime
from core.steps import accounts, failed_sign_ins, tokens
from core.steps.failed_sign_ins import Attempt
from core.storage.transaction import Tx

log = logs.get("otp")
T = TypeVar("T")
# Signs in the user with the proven phone. Returns None if no user may sign in with it.
SignIn = Callable[[Tx, str], Awaitable[T | None]]


async def _active_mitra(tx: Tx, phone: str) -> Mitra | None:
    mitra = await mitras.by_phone(tx, phone)
    return mitra if mitra is not None and mitra.is_active else None


async def verify_mitra(
    runtime: Runtime, *, otp_request_id: str, code: str, device: dict[str, Any], ip_address: str
) -> tuple[Tokens, Mitra]:
    """Sign a mitra in. Return (tokens, mitra).

    Raises OtpInvalid, OtpExpired, OtpAttemptsExceeded, Unavailable.
    """

    async def sign_in(tx: Tx, phone: str) -> tuple[Tokens, Mitra] | None:
        mitra = await _active_mitra(tx, phone)
        if mitra is None:
            return None
        await mitras.hold_logins(tx, mitra.id)
        # During the wait for the lock the mitra may have been deactivated or their number changed.
        mitra = await _active_mitra(tx, phone)
        if mitra is None:
            return None
        return await tokens.issue(runtime, tx, user_type=UserType.MITRA, user_id=mitra.id, device=device), mitra

    with failed_sign_ins.noted(runtime, way="mitra code", address=ip_address) as attempt:
        return await _verify(runtime, UserType.MITRA, otp_request_id, code, sign_in, attempt)


async def verify_customer(
    runtime: Runtime, *, otp_request_id: str, code: str, caller: Actor | None, device: dict[str, Any], ip_address: str
) -> tuple[Tokens, Customer]:
    """Sign a customer in: upgraded, joined, created or known. Return (tokens, customer).

    Raises OtpInvalid, OtpExpired, OtpAttemptsExceeded, RateLimited, Unavailable.
    """

    async def sign_in(tx: Tx, phone: str) -> tuple[Tokens, Customer]:
        identity = Identity(kind=IdentityKind.PHONE, value=phone)
        return await accounts.sign_in(runtime, tx, identity=identity, caller=caller, device=device)

    with failed_sign_ins.noted(runtime, way="customer code", address=ip_address) as attempt:
        return await _verify(runtime, UserType.CUSTOMER, otp_request_id, code, sign_in, attempt)


async def _verify(
    runtime: Runtime, user_type: UserType, otp_request_id: str, code: str, sign_in: SignIn[T], attempt: Attempt
) -> T:
    """Check a code and sign in, and count the outcome."""
    try:
        signed_in = await _check(runtime, user_type, otp_request_id, code, sign_in, attempt)
    except DomainError as refusal:
        metrics.OTP_VERIFIED.labels(user_type.value, refusal.code).inc()
        raise
    metrics.OTP_VERIFIED.labels(user_type.value, "verified").inc()
    return signed_in


async def _check(
    runtime: Runtime, user_type: UserType, otp_request_id: str, code: str, sign_in: SignIn[T], attempt: Attempt
) -> T:
    """Check a code, count the attempt, and sign in. A wrong attempt is committed before it is refused."""
    async with runtime.transaction() as tx:
        request = await codes.lock(tx, otp_request_id)
        if request is None or request.user_type != user_type.value:
            raise otp.OtpInvalid(details={"attempts_remaining": 0})
        attempt.account = request.phone
        _check_open(runtime, request, now=tx.now)
        asks_provider = request.code_hash is None and (
            request.provider_reference is not None or isinstance(runtime.otp_sender, OtpVerifier)
        )
        if asks_provider:
            await codes.count_attempt(tx, request.id)
            refusal, signed_in = None, None
        else:
            refusal, signed_in = await _judge(runtime, tx, request, code, sign_in)
    if asks_provider:
        refusal, signed_in = await _ask_provider(runtime, user_type, request, code, sign_in)
    if signed_in is None:
        raise refusal or otp.OtpInvalid
    return signed_in


def _check_open(runtime: Runtime, request: OtpRequest, *, now: dt.datetime) -> None:
    if request.used_at is not None or request.expires_at <= now:
        raise otp.OtpExpired
    if request.attempts >= runtime.config.number("otp_verify_max_attempts"):
        raise otp.OtpAttemptsExceeded


def _wrong(runtime: Runtime, attempts: int) -> DomainError:
    left = max(0, runtime.config.number("otp_verify_max_attempts") - attempts)
    return otp.OtpInvalid(details={"attempts_remaining": left})


async def _judge(
    runtime: Runtime, tx: Tx, request: OtpRequest, code: str, sign_in: SignIn[T]
) -> tuple[DomainError | None, T | None]:
    """Compare the code with the hash of the one that the service made. Return (refusal, None) or (None, result)."""
    right = any(
        otp.same(otp.hash_code(key=key, otp_request_id=request.id, code=code), request.code_hash or "")
        for key in runtime.keys.codes
    )
    signed_in = await sign_in(tx, request.phone) if right else None
    if signed_in is None:
        await codes.count_attempt(tx, request.id)
        return _wrong(runtime, request.attempts + 1), None
    await codes.use(tx, request.id)
    if request.provider_reference == codes.FIXED:
        account = runtime.keys.account_hash(request.phone)
        log.warning("sign-in with the fixed code of a test number", otp_request_id=request.id, account=account)
    return None, signed_in


async def _ask_provider(
    runtime: Runtime, user_type: UserType, request: OtpRequest, code: str, sign_in: SignIn[T]
) -> tuple[DomainError | None, T | None]:
    """Let the provider check the code, outside any transaction, then use it once.

    Returns (refusal, None) or (None, result). The provider is also asked about a request for which no code was sent,
    and a mitra's code is only ever right or wrong, never expired. A faster or different answer would reveal which
    numbers belong to mitras. If the provider's reference was lost, because the process died or the database failed, the
    phone's pending code is checked.
    """
    wrong = _wrong(runtime, request.attempts + 1)
    mitra = user_type is UserType.MITRA
    if not isinstance(runtime.otp_sender, OtpVerifier):  # the code was made by a provider that has been replaced
        return wrong if mitra else otp.OtpExpired(), None
    sent = request.provider_reference is not None or request.may_be_sent
    try:
        verdict = await runtime.otp_sender.check(
            reference=request.provider_reference, phone=request.phone if sent else None, code=code
        )
    except Unavailable:
        async with runtime.transaction() as tx:
            await codes.count_attempt(tx, request.id, tries=-1)
        raise
    if verdict is not Verdict.RIGHT or not sent:
        refusals = {Verdict.EXPIRED: otp.OtpExpired(), Verdict.EXCEEDED: otp.OtpAttemptsExceeded()}
        return wrong if mitra else refusals.get(verdict, wrong), None
    async with runtime.transaction() as tx:
        locked = await codes.lock(tx, request.id)
        if locked is None or locked.used_at is not None:
            raise otp.OtpExpired
        signed_in = await sign_in(tx, request.phone)
        if signed_in is not None:
            await codes.use(tx, request.id)
    return (None if signed_in is not None else wrong), signed_in
