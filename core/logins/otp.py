"""Codes: lifetime, tries, cooldown, hourly limits (specification, Authentication 5; contract 3)."""

import datetime as dt
import hashlib
import hmac

import attrs

from core.base.errors import DomainError, Kind

LIFETIME = dt.timedelta(minutes=5)  # contract 3
WINDOW = dt.timedelta(hours=1)
CODE_LENGTH = 6


class OtpRateLimitPhone(DomainError):
    """Too many requests for this phone within the hour."""

    kind = Kind.TOO_SOON
    code = "OTP_RATE_LIMIT_PHONE"
    message = "Too many codes were asked for this number."


class OtpRateLimitIp(DomainError):
    """Too many requests from this address within the hour."""

    kind = Kind.TOO_SOON
    code = "OTP_RATE_LIMIT_IP"
    message = "Too many codes were asked from this address."


class OtpCooldown(DomainError):
    """Asked again before the cooldown has passed."""

    kind = Kind.TOO_SOON
    code = "OTP_COOLDOWN"
    message = "Wait before asking for another code."


class OtpInvalid(DomainError):
    """Not the code. `details.attempts_remaining` says how many tries are left."""

    kind = Kind.WRONG
    code = "OTP_INVALID"
    message = "This code is not right."


class OtpExpired(DomainError):
    """The code is too old or was used."""

    kind = Kind.WRONG
    code = "OTP_EXPIRED"
    message = "This code is no longer valid. Ask for a new one."


class OtpAttemptsExceeded(DomainError):
    """No tries are left for this code."""

    kind = Kind.TOO_SOON
    code = "OTP_ATTEMPTS_EXCEEDED"
    message = "Too many tries. Ask for a new code."


@attrs.frozen(kw_only=True)
class Asked:
    """Earlier requests within the hour that count, oldest first."""

    by_phone: tuple[dt.datetime, ...]
    by_ip: tuple[dt.datetime, ...]


@attrs.frozen(kw_only=True)
class Limits:
    """The configured limits."""

    per_phone: int
    per_ip: int
    cooldown: dt.timedelta


def _seconds(until: dt.datetime, now: dt.datetime) -> int:
    return max(1, -int((now - until).total_seconds() // 1))


def may_ask(asked: Asked, limits: Limits, *, now: dt.datetime) -> None:
    """Check whether another code may be sent.

    Raises OtpRateLimitPhone, OtpRateLimitIp or OtpCooldown, with the seconds until no limit stands against it.
    """
    hits: list[tuple[type[DomainError], dt.datetime]] = []
    if len(asked.by_phone) >= limits.per_phone:
        oldest = asked.by_phone[-limits.per_phone] if limits.per_phone else now
        hits.append((OtpRateLimitPhone, oldest + WINDOW))
    if len(asked.by_ip) >= limits.per_ip:
        oldest = asked.by_ip[-limits.per_ip] if limits.per_ip else now
        hits.append((OtpRateLimitIp, oldest + WINDOW))
    if asked.by_phone and now < asked.by_phone[-1] + limits.cooldown:
        hits.append((OtpCooldown, asked.by_phone[-1] + limits.cooldown))
    if hits:
        refusal = hits[0][0]
        raise refusal(retry_after_seconds=_seconds(max(until for _, until in hits), now))


def hash_code(*, key: bytes, otp_request_id: str, code: str) -> str:
    """Return the keyed hash of a code, bound to its request: six digits alone are guessed in no time."""
    return hmac.new(key, f"otp|{otp_request_id}|{code}".encode(), hashlib.sha256).hexdigest()


def same(a: str, b: str) -> bool:
    """Compare two hashes in constant time."""
    return hmac.compare_digest(a.encode(), b.encode())
