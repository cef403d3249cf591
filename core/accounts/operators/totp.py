"""Time-based one-time codes (RFC 6238: HMAC-SHA1, 6 digits, steps of 30 s of real time) and recovery codes.

A code is accepted in its own step and in the steps before and after it, because phones' clocks are inexact and people
type slowly. A code works once: afterwards only codes of later steps are accepted.
"""

import base64
import datetime as dt
import hashlib
import hmac
import secrets
import urllib.parse

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from core.base.errors import DomainError, Forbidden, Kind, Repeat
from core.base.languages import Text

STEP_S = 30
DIGITS = 6
SECRET_BYTES = 20  # the length of a SHA-1 digest (RFC 4226, section 4, R6)
NONCE_BYTES = 12
RECOVERY_CODES = 10
ONE_TIME_BYTES = 10  # 80 bits, so a fast hash is enough
PENDING_FOR = dt.timedelta(minutes=10)  # real time, from the secret to its first code
ENROLMENT_CODE_FOR = dt.timedelta(hours=24)  # real time
STEPPED_UP_FOR = dt.timedelta(minutes=5)  # real
ISSUER = "Sesi"


class TotpInvalid(DomainError):
    """The code is wrong, was already used, or is too old."""

    kind = Kind.WRONG
    code = "TOTP_INVALID"
    message = Text(
        en="Incorrect or already used code. Enter the next one.",
        id="Kode ini salah atau sudah dipakai. Masukkan kode berikutnya.",
    )
    advice = "Let the operator type the next code."


class TotpRequired(Forbidden):
    """The caller has a second factor and has not entered a code within the last 5 minutes."""

    code = "TOTP_REQUIRED"
    message = Text(
        en="Confirm this with your second factor first.",
        id="Konfirmasi dahulu dengan kode faktor kedua Anda.",
    )
    repeat = Repeat.LATER
    advice = "Ask for a code, send it to `POST /internal/auth/step-up`, and repeat the request."


class TotpEnrolmentRequired(Forbidden):
    """The caller's role requires a second factor, and the caller has none: they can only set one up."""

    code = "TOTP_ENROLMENT_REQUIRED"
    message = Text(
        en="Your role requires a second factor. Set it up first.",
        id="Peran Anda mewajibkan faktor kedua. Siapkan dahulu.",
    )
    repeat = Repeat.LATER
    advice = "Let the operator set up their second factor; nothing else works."


class TotpNotBegun(DomainError):
    """The operator has not begun to set up a second factor, or began more than 10 minutes ago."""

    code = "TOTP_NOT_BEGUN"
    message = Text(
        en="Start setting up the second factor again: the secret has expired or was never created.",
        id="Mulai lagi faktor kedua: tidak ada rahasia untuk dikonfirmasi, atau sudah kedaluwarsa.",
    )
    repeat = Repeat.LATER
    advice = "Begin again with `POST /internal/auth/totp/begin`."


class TotpNotEnrolled(DomainError):
    """The operator has not set up a second factor."""

    code = "TOTP_NOT_ENROLLED"
    message = Text(en="Set up your own second factor first.", id="Siapkan dahulu faktor kedua Anda sendiri.")
    repeat = Repeat.LATER
    advice = "Let the operator set up their second factor first."


class TotpRequiredByRole(DomainError):
    """The role requires the second factor, so it can be replaced but not removed."""

    code = "TOTP_REQUIRED_BY_ROLE"
    message = Text(
        en="Your role requires a second factor. Replace it instead of removing it.",
        id="Peran Anda mewajibkan faktor kedua. Ganti, jangan dihapus.",
    )
    advice = "Offer to replace the second factor instead."


def new_secret() -> bytes:
    """Make a 160-bit secret."""
    return secrets.token_bytes(SECRET_BYTES)


def as_text(secret: bytes) -> str:
    """Return a secret as people type it: base32 without padding."""
    return base64.b32encode(secret).decode().rstrip("=")


def otpauth_uri(*, email: str, secret: bytes) -> str:
    """Return the URI that authenticator apps read from a QR code."""
    label = urllib.parse.quote(f"{ISSUER}:{email}", safe="")
    query = {"secret": as_text(secret), "issuer": ISSUER, "algorithm": "SHA1", "digits": DIGITS, "period": STEP_S}
    return f"otpauth://totp/{label}?{urllib.parse.urlencode(query)}"


def step_of(real_now: dt.datetime) -> int:
    """Return the number of the step that contains a moment of real time."""
    return int(real_now.timestamp()) // STEP_S


def code_at(secret: bytes, step: int) -> str:
    """Return the code of a step."""
    digest = hmac.new(secret, step.to_bytes(8, "big"), hashlib.sha1).digest()
    offset = digest[-1] & 0x0F
    number = int.from_bytes(digest[offset : offset + 4], "big") & 0x7FFFFFFF
    return str(number % 10**DIGITS).zfill(DIGITS)


def matching_step(secret: bytes, code: str, *, real_now: dt.datetime, after: int | None) -> int | None:
    """Return the step whose code this is. None if the code is wrong, or its step is `after` or earlier."""
    present = step_of(real_now)
    found = None
    for step in (present - 1, present, present + 1):
        same = hmac.compare_digest(code_at(secret, step).encode(), code.encode(errors="replace"))
        if same and (after is None or step > after):
            found = step
    return found


def seal(key: bytes, secret: bytes, *, operator_id: str) -> str:
    """Encrypt an operator's secret (AES-256-GCM).

    The operator's id is authenticated, so the result works for this operator only.
    """
    nonce = secrets.token_bytes(NONCE_BYTES)
    return base64.b64encode(nonce + AESGCM(key).encrypt(nonce, secret, operator_id.encode())).decode()


def unseal(keys: list[bytes], sealed: str, *, operator_id: str) -> bytes | None:
    """Decrypt an operator's secret. None if it was encrypted with none of these keys."""
    raw = base64.b64decode(sealed)
    for key in keys:
        try:
            return AESGCM(key).decrypt(raw[:NONCE_BYTES], raw[NONCE_BYTES:], operator_id.encode())
        except InvalidTag:
            continue
    return None


def new_one_time_code() -> str:
    """Make a recovery or enrolment code: four groups of four letters and digits."""
    text = base64.b32encode(secrets.token_bytes(ONE_TIME_BYTES)).decode().lower()
    return "-".join(text[at : at + 4] for at in range(0, len(text), 4))


def hash_of(one_time_code: str, *, operator_id: str) -> str:
    """Return the hash of a recovery or enrolment code. Case, spaces and dashes don't count."""
    plain = "".join(one_time_code.split()).replace("-", "").lower()
    return hashlib.sha256(f"{operator_id} {plain}".encode(errors="replace")).hexdigest()
