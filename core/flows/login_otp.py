"""Mitras sign in with a code (specification, Authentication 4 and 5).

Asking takes two transactions with the provider between them: the request is kept, and counts, before the code is sent.
"""

import datetime as dt
from typing import Any

import attrs

from core.base import ids, phones
from core.base.actor import UserType
from core.base.errors import DomainError
from core.logins import otp
from core.logins import store as logins
from core.logins.issued import Tokens
from core.mitras import store as mitras
from core.mitras.store import Mitra
from core.outside.otp_sender import Code, OtpDeliveryFailed
from core.runtime import Runtime
from core.steps import tokens


@attrs.frozen(kw_only=True)
class Asked:
    """The answer to a request for a code (contract 3)."""

    otp_request_id: str
    expires_at: dt.datetime
    resend_after_seconds: int


async def ask_code(runtime: Runtime, *, phone: str, ip_address: str) -> Asked:
    """Send a code to a mitra's phone. A number that is nobody's, or an inactive mitra's, gets the same answer.

    Raises OtpRateLimitPhone, OtpRateLimitIp, OtpCooldown, OtpDeliveryFailed, ValidationFailed.
    """
    number = phones.normalise(phone)
    config = runtime.config
    limits = otp.Limits(
        per_phone=config.number("otp_max_per_phone_per_hour"),
        per_ip=config.number("otp_max_per_ip_per_hour"),
        cooldown=config.seconds("otp_resend_cooldown_seconds"),
    )
    otp_request_id, code = ids.new_id(), ids.new_code(otp.CODE_LENGTH)
    async with runtime.transaction() as tx:
        await logins.lock_otp_limits(tx, phone=number, ip_address=ip_address)
        asked = await logins.asked(
            tx, phone=number, user_type=UserType.MITRA.value, ip_address=ip_address, since=tx.now - otp.WINDOW
        )
        otp.may_ask(asked, limits, now=tx.now)
        mitra = await mitras.by_phone(tx, number)
        known = mitra is not None and mitra.is_active
        await logins.create_otp(
            tx,
            otp_request_id=otp_request_id,
            phone=number,
            ip_address=ip_address,
            user_type=UserType.MITRA.value,
            channel=runtime.settings.otp_channel,
            code_hash=_hash(runtime, otp_request_id, code) if known else None,
            expires_at=tx.now + otp.LIFETIME,
        )
        expires_at = tx.now + otp.LIFETIME
    if known:
        await _deliver(
            runtime,
            Code(
                phone=number,
                code=code,
                channel=runtime.settings.otp_channel,
                otp_request_id=otp_request_id,
                ttl_seconds=int(otp.LIFETIME.total_seconds()),
            ),
        )
    return Asked(
        otp_request_id=otp_request_id,
        expires_at=expires_at,
        resend_after_seconds=config.number("otp_resend_cooldown_seconds"),
    )


def _hash(runtime: Runtime, otp_request_id: str, code: str) -> str:
    return otp.hash_code(key=runtime.settings.jwt_secrets[0][1], otp_request_id=otp_request_id, code=code)


async def _deliver(runtime: Runtime, code: Code) -> None:
    reference: str | None = None
    try:
        reference = await runtime.otp_sender.send(code)
    finally:
        async with runtime.transaction() as tx:
            await logins.otp_sent(tx, code.otp_request_id, reference=reference)
    if reference is None:
        raise OtpDeliveryFailed


async def verify_code(
    runtime: Runtime, *, otp_request_id: str, code: str, device: dict[str, Any]
) -> tuple[Tokens, Mitra]:
    """Sign a mitra in. A wrong try is counted and committed before it is refused.

    Raises OtpInvalid, OtpExpired, OtpAttemptsExceeded.
    """
    limit = runtime.config.number("otp_verify_max_attempts")
    refusal: DomainError | None = None
    issued: Tokens | None = None
    async with runtime.transaction() as tx:
        request = await logins.lock_otp(tx, otp_request_id)
        if request is None or request.user_type != UserType.MITRA.value:
            raise otp.OtpInvalid(details={"attempts_remaining": 0})
        if request.used_at is not None or request.expires_at <= tx.now:
            raise otp.OtpExpired
        if request.attempts >= limit:
            raise otp.OtpAttemptsExceeded
        mitra = await mitras.by_phone(tx, request.phone)
        right = any(
            otp.same(otp.hash_code(key=key, otp_request_id=request.id, code=code), request.code_hash or "")
            for _, key in runtime.settings.jwt_secrets
        )
        if not right or mitra is None or not mitra.is_active:
            await logins.count_attempt(tx, request.id)
            refusal = otp.OtpInvalid(details={"attempts_remaining": max(0, limit - request.attempts - 1)})
        else:
            await logins.use_otp(tx, request.id)
            issued = await tokens.issue(runtime, tx, user_type=UserType.MITRA, user_id=mitra.id, device=device)
    if mitra is None or issued is None:
        raise refusal or otp.OtpInvalid
    return issued, mitra
