"""Check the code that was sent to a phone, and then do what it was entered for (docs/product.md#phone-codes).

Checking takes one transaction, or two if the provider checks the code: then the attempt is counted before the provider
is asked.
"""

import contextlib
import datetime as dt
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

from core.base import logs, metrics
from core.base.actor import UserType
from core.base.errors import DomainError, Unavailable
from core.logins import codes, otp
from core.logins.codes import OtpRequest
from core.providers.otp_sender import OtpVerifier, Verdict
from core.runtime import Runtime
from core.steps.failed_sign_ins import Attempt
from core.storage.transaction import Tx

log = logs.get("otp")
T = TypeVar("T")
# What follows the code of a phone, such as the sign-in of its user. Returns None if the code is for nothing of theirs.
Act = Callable[[Tx, str], Awaitable[T | None]]
# Takes locks that come before the row of a code.
Hold = Callable[[Tx], Awaitable[None]]


async def verify(
    runtime: Runtime,
    user_type: UserType,
    otp_request_id: str,
    code: str,
    act: Act[T],
    attempt: Attempt,
    hold: Hold | None = None,
) -> T:
    """Check a code, count the attempt and the outcome, and act. A wrong attempt is committed before it is refused.

    Raises OtpInvalid, also if `act` returns None; OtpExpired, OtpAttemptsExceeded, Unavailable.
    """
    with _counted(user_type):
        async with runtime.transaction() as tx:
            if hold is not None:
                await hold(tx)
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
                refusal, result = None, None
            else:
                refusal, result = await _judge(runtime, tx, request, code, act)
        if asks_provider:
            refusal, result = await _ask_provider(runtime, user_type, request, code, act, hold)
        if result is None:
            raise refusal or otp.OtpInvalid
        return result


@contextlib.contextmanager
def _counted(user_type: UserType) -> Iterator[None]:
    """Count the outcome of a check, which the block raises if it is a refusal."""
    try:
        yield
    except DomainError as refusal:
        metrics.OTP_VERIFIED.labels(user_type.value, refusal.code).inc()
        raise
    metrics.OTP_VERIFIED.labels(user_type.value, "verified").inc()


def _check_open(runtime: Runtime, request: OtpRequest, *, now: dt.datetime) -> None:
    if request.used_at is not None or request.expires_at <= now:
        raise otp.OtpExpired
    if request.attempts >= runtime.config.number("otp_verify_max_attempts"):
        raise otp.OtpAttemptsExceeded


def _wrong(runtime: Runtime, attempts: int) -> DomainError:
    left = max(0, runtime.config.number("otp_verify_max_attempts") - attempts)
    return otp.OtpInvalid(details={"attempts_remaining": left})


async def _judge(
    runtime: Runtime, tx: Tx, request: OtpRequest, code: str, act: Act[T]
) -> tuple[DomainError | None, T | None]:
    """Compare the code with the hash of the one that the service made. Return (refusal, None) or (None, result)."""
    right = any(
        otp.same(otp.hash_code(key=key, otp_request_id=request.id, code=code), request.code_hash or "")
        for key in runtime.keys.codes
    )
    result = await act(tx, request.phone) if right else None
    if result is None:
        await codes.count_attempt(tx, request.id)
        return _wrong(runtime, request.attempts + 1), None
    await codes.use(tx, request.id)
    if request.provider_reference == codes.FIXED:
        account = runtime.keys.account_hash(request.phone)
        log.warning("sign-in with the fixed code of a test number", otp_request_id=request.id, account=account)
    return None, result


async def _ask_provider(
    runtime: Runtime, user_type: UserType, request: OtpRequest, code: str, act: Act[T], hold: Hold | None
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
        if hold is not None:
            await hold(tx)
        locked = await codes.lock(tx, request.id)
        if locked is None or locked.used_at is not None:
            raise otp.OtpExpired
        result = await act(tx, request.phone)
        if result is not None:
            await codes.use(tx, request.id)
    return (None if result is not None else wrong), result
