"""Rules of phone codes: lifetime, tries, cooldown, hourly limits and the budget (docs/product.md#phone-codes)."""

import datetime as dt
import hashlib
import hmac

import attrs

from core.base.errors import DomainError, Kind, Repeat
from core.base.languages import Text
from core.settings.fixed_codes import CODE_LENGTH

LIFETIME = dt.timedelta(minutes=5)  # service time, like the window
WINDOW = dt.timedelta(hours=1)
REFUSED_NUMBERS = 30  # per address in an hour: enough for a carrier's gateway, too few to test a list of numbers


class OtpRateLimitPhone(DomainError):
    """Too many codes were requested for this phone within an hour."""

    kind = Kind.TOO_SOON
    code = "OTP_RATE_LIMIT_PHONE"
    message = Text(en="Too many codes requested for this number.", id="Terlalu banyak kode diminta untuk nomor ini.")
    repeat = Repeat.WAIT
    advice = "Show the wait, and offer to go on without a phone number."


class OtpRateLimitIp(DomainError):
    """Too many codes were requested from this address within an hour."""

    kind = Kind.TOO_SOON
    code = "OTP_RATE_LIMIT_IP"
    message = Text(en="Too many codes requested from this address.", id="Terlalu banyak kode diminta dari alamat ini.")
    repeat = Repeat.WAIT
    advice = "Show the wait, and offer to go on without a phone number."


class OtpCooldown(DomainError):
    """The pause between two codes for this phone is not over."""

    kind = Kind.TOO_SOON
    code = "OTP_COOLDOWN"
    message = Text(en="Wait before requesting another code.", id="Mohon tunggu sebelum meminta kode lagi.")
    repeat = Repeat.WAIT
    advice = "Extend the countdown on the button that asks for another code."


class OtpBudgetExceeded(DomainError):
    """The whole service has sent as many codes within an hour as `otp_max_per_hour` allows."""

    kind = Kind.TOO_SOON
    code = "OTP_BUDGET_EXCEEDED"
    message = Text(
        en="No more codes can be sent right now. Try again later.",
        id="Kode tidak dapat dikirim sekarang. Silakan coba lagi nanti.",
    )
    repeat = Repeat.WAIT
    advice = "Show the wait, and offer to go on without a phone number."


class OtpInvalid(DomainError):
    """The code is wrong; `details.attempts_remaining` says how many tries are left."""

    kind = Kind.WRONG
    code = "OTP_INVALID"
    message = Text(en="Incorrect code.", id="Kode ini salah.")
    advice = "Let the user type the code again, and show how many tries are left."


class OtpExpired(DomainError):
    """The code is older than 5 minutes, or was used."""

    kind = Kind.WRONG
    code = "OTP_EXPIRED"
    message = Text(
        en="This code is no longer valid. Request a new one.",
        id="Kode ini tidak berlaku lagi. Silakan minta kode baru.",
    )
    advice = "Ask for a new code."


class OtpAttemptsExceeded(DomainError):
    """No tries are left for this code."""

    kind = Kind.TOO_SOON
    code = "OTP_ATTEMPTS_EXCEEDED"
    message = Text(en="Too many attempts. Request a new code.", id="Terlalu banyak percobaan. Silakan minta kode baru.")
    advice = "Ask for a new code."


@attrs.frozen(kw_only=True)
class CodesAsked:
    """The times of earlier requests within the hour that count against the limits, oldest first.

    `refused_by_ip` are those whose number the provider refused, and those whose answer is awaited.
    """

    by_phone: tuple[dt.datetime, ...]
    by_ip: tuple[dt.datetime, ...]
    refused_by_ip: tuple[dt.datetime, ...] = ()


@attrs.frozen(kw_only=True)
class Limits:
    """The configured limits: codes per phone and per address in an hour, and the pause between two codes."""

    per_phone: int
    per_ip: int
    cooldown: dt.timedelta


@attrs.frozen(kw_only=True)
class Hit:
    """A limit that refuses a request: its name, the refusal, and the seconds until no limit refuses it."""

    limit: str
    refusal: type[DomainError]
    retry_after_seconds: int


def _seconds(until: dt.datetime, now: dt.datetime) -> int:
    return max(1, -int((now - until).total_seconds() // 1))


def hit_by(asked: CodesAsked, limits: Limits, *, now: dt.datetime) -> Hit | None:
    """Return the first limit that refuses another code; None if it may be sent."""
    hits: list[tuple[str, type[DomainError], dt.datetime]] = []
    for name, refusal, times, most in (
        ("otp_phone", OtpRateLimitPhone, asked.by_phone, limits.per_phone),
        ("otp_address", OtpRateLimitIp, asked.by_ip, limits.per_ip),
        ("otp_refused_numbers", OtpRateLimitIp, asked.refused_by_ip, REFUSED_NUMBERS),
    ):
        if len(times) >= most:
            hits.append((name, refusal, (times[-most] if most else now) + WINDOW))
    if asked.by_phone and now < asked.by_phone[-1] + limits.cooldown:
        hits.append(("otp_cooldown", OtpCooldown, asked.by_phone[-1] + limits.cooldown))
    if not hits:
        return None
    name, refusal, _ = hits[0]
    return Hit(limit=name, refusal=refusal, retry_after_seconds=_seconds(max(until for *_, until in hits), now))


def hit_by_budget(
    full_since: dt.datetime | None, share_full_since: dt.datetime | None, *, now: dt.datetime
) -> Hit | None:
    """Return the hit of a used-up budget, or of a network's share in it; None if some is left of both.

    Each is the time of the code that must be an hour old before another one may be sent; None if some is left.
    """
    full = [since for since in (full_since, share_full_since) if since is not None]
    if not full:
        return None
    limit = "otp_budget_share" if full_since is None else "otp_budget"
    return Hit(limit=limit, refusal=OtpBudgetExceeded, retry_after_seconds=_seconds(max(full) + WINDOW, now))


def code_for(*, key: bytes, otp_request_id: str) -> str:
    """Derive the code of a request from its id and a key, as RFC 4226 derives codes from a counter.

    So two processes that send the same request send the same code, and no plain code is stored.
    """
    digest = hmac.new(key, f"code|{otp_request_id}".encode(), hashlib.sha256).digest()
    return str(int.from_bytes(digest[:16], "big") % 10**CODE_LENGTH).zfill(CODE_LENGTH)


def hash_code(*, key: bytes, otp_request_id: str, code: str) -> str:
    """Return the keyed hash of a code, bound to its request: a plain hash of six digits is reversed in no time."""
    return hmac.new(key, f"otp|{otp_request_id}|{code}".encode(), hashlib.sha256).hexdigest()


def same(a: str, b: str) -> bool:
    """Compare two hashes in constant time."""
    return hmac.compare_digest(a.encode(), b.encode())
