"""Check the code that was sent to a phone, and then do what it was entered for (docs/product.md#phone-codes).

A request also takes the codes of earlier requests of its phone and kind of user, because a message may be slow. A wrong
code counts against all their living codes, and the right one uses them up. Where the provider checks codes, it is asked
about the named request only.

Checking takes one transaction, or two if the provider checks the code: then the attempt is counted before the provider
is asked.
"""

import contextlib
import datetime as dt
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TypeVar

from core.accounts.logins import codes, otp
from core.accounts.logins.codes import Locked, OtpRequest
from core.accounts.logins.failed_sign_ins import NotedAttempt
from core.base.actor import UserType
from core.base.errors import DomainError, Unavailable
from core.providers.otp_sender import CodeVerdict, OtpVerifier
from core.runtime.container import Runtime
from core.storage.transaction import Tx
from core.telemetry import logs, metrics

log = logs.get("otp")
T = TypeVar("T")
# What follows the code of a phone, such as the sign-in of its user. Returns None if the code is for nothing of theirs,
# or a refusal that uses the code up. A refusal that it raises leaves the code as it was.
Act = Callable[[Tx, str], Awaitable[T | DomainError | None]]


async def verify(
    runtime: Runtime,
    user_type: UserType,
    otp_request_id: str,
    code: str,
    act: Act[T],
    attempt: NotedAttempt,
) -> T:
    """Check a code, count the attempt and the outcome, and act. A wrong attempt is committed before it is refused.

    Raises OtpInvalid, also if `act` returns None; OtpExpired, OtpAttemptsExceeded, Unavailable, and what `act` returns
    or raises as a refusal.
    """
    with _counted(user_type):
        async with runtime.transaction() as tx:
            locked = await codes.lock(tx, otp_request_id, user_type=user_type.value)
            if locked is None:
                raise otp.OtpInvalid(details={"attempts_remaining": 0})
            request = locked.named
            attempt.account = request.phone
            _check_open(runtime, request, now=tx.now)
            asks_provider = request.code_hash is None and (
                request.provider_reference is not None or isinstance(runtime.otp_sender, OtpVerifier)
            )
            counted = [one.id for one in _with_tries(runtime, locked.living)]
            if asks_provider:
                await codes.count_attempt(tx, counted)
                refusal, result = None, None
            else:
                refusal, result = await _judge(runtime, tx, locked, code, act)
        if asks_provider:
            refusal, result = await _ask_provider(runtime, user_type, request, code, act, counted)
        if result is None:
            raise refusal or otp.OtpInvalid
        if isinstance(result, DomainError):
            raise result
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
    if not _with_tries(runtime, [request]):
        raise otp.OtpAttemptsExceeded


def _with_tries(runtime: Runtime, requests: Sequence[OtpRequest]) -> list[OtpRequest]:
    most = runtime.config.number("otp_verify_max_attempts")
    return [one for one in requests if one.attempts < most]


def _wrong(runtime: Runtime, attempts: int) -> DomainError:
    left = max(0, runtime.config.number("otp_verify_max_attempts") - attempts)
    return otp.OtpInvalid(details={"attempts_remaining": left})


async def _judge(
    runtime: Runtime, tx: Tx, locked: Locked, code: str, act: Act[T]
) -> tuple[DomainError | None, T | DomainError | None]:
    """Compare the code with the hashes of those that the service made. Return (refusal, None) or (None, result)."""
    named, living = locked.named, _with_tries(runtime, locked.living)
    tried = [one for one in living if (one.created_at, one.id) <= (named.created_at, named.id)]
    right = [one for one in tried if _is_code_of(runtime, one, code)]
    result = await act(tx, named.phone) if right else None
    if result is None:
        await codes.count_attempt(tx, [one.id for one in living])
        return _wrong(runtime, named.attempts + 1), None
    await codes.use(tx, locked)
    if right[0].provider_reference == codes.FIXED:
        account = runtime.keys.account_hash(named.phone)
        log.warning("sign-in with the fixed code of a test number", otp_request_id=named.id, account=account)
    return None, result


def _is_code_of(runtime: Runtime, request: OtpRequest, code: str) -> bool:
    return any(
        otp.same(otp.hash_code(key=key, otp_request_id=request.id, code=code), request.code_hash or "")
        for key in runtime.keys.codes
    )


async def _ask_provider(
    runtime: Runtime, user_type: UserType, request: OtpRequest, code: str, act: Act[T], counted: Sequence[str]
) -> tuple[DomainError | None, T | DomainError | None]:
    """Let the provider check the code, outside any transaction, then use it once.

    Returns (refusal, None) or (None, result). `counted` are the requests whose attempts were counted. The provider is
    also asked about a request for which no code was sent, and a mitra's code is only ever right or wrong, never
    expired. A faster or different answer would reveal which numbers belong to mitras. If the provider's reference was
    lost, because the process died or the database failed, the phone's pending code is checked.
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
            await codes.count_attempt(tx, counted, tries=-1)
        raise
    if verdict is not CodeVerdict.RIGHT or not sent:
        refusals = {CodeVerdict.EXPIRED: otp.OtpExpired(), CodeVerdict.EXCEEDED: otp.OtpAttemptsExceeded()}
        return wrong if mitra else refusals.get(verdict, wrong), None
    async with runtime.transaction() as tx:
        locked = await codes.lock(tx, request.id, user_type=user_type.value)
        if locked is None or locked.named.used_at is not None:
            raise otp.OtpExpired
        result = await act(tx, request.phone)
        if result is not None:
            await codes.use(tx, locked)
    return (None if result is not None else wrong), result
