"""Verify signed identity tokens of providers A and B (docs/product.md#identity-providers).

The checks are those of OpenID Connect Core 3.1.3.7.
"""

import datetime as dt
import hashlib
import hmac
from collections.abc import Collection
from typing import Any

import attrs
import jwt

from core.base.errors import DomainError, Kind, NotFound
from core.base.languages import Text

LEEWAY_S = 60  # how far the provider's clock may be ahead of ours
REPEAT = dt.timedelta(seconds=60)  # how long the same token is accepted again, in case the answer was lost
FURTHEST = 253_402_300_799  # the last second of the year 9999
ALGORITHMS = ["RS256", "ES256"]  # never HMAC: a forger could use the published key as the shared secret
MAX_SUBJECT = 255


class IdentityTokenInvalid(DomainError):
    """The identity token is forged, expired, already used, or made for another app or by another provider."""

    kind = Kind.UNAUTHENTICATED
    code = "IDENTITY_TOKEN_INVALID"
    message = Text(en="This sign-in could not be verified.", id="Proses masuk ini tidak dapat diverifikasi.")
    advice = "Get a new identity token from the provider."


class ProviderDisabled(NotFound):
    """The service has no settings for this identity provider."""

    code = "PROVIDER_DISABLED"
    message = Text(en="This sign-in method is not available.", id="Cara masuk ini tidak tersedia.")
    advice = "Hide the button: read `GET /api/shared/auth-providers` at the start."


@attrs.frozen(kw_only=True)
class IdentityClaims:
    """The claims of a verified identity token. `email` is None unless the provider has verified it."""

    subject: str
    email: str | None
    expires_at: dt.datetime  # real time


@attrs.frozen(kw_only=True)
class Use:
    """The one use of a token: the auth session that it opened, and when."""

    auth_session_id: str
    used_at: dt.datetime


def digest_of(token: str) -> str:
    """Return the digest by which a used token is recognised, 64 hex digits.

    It leaves out the signature: with some algorithms a valid signature can be changed into another valid one.
    """
    return hashlib.sha256(token.rpartition(".")[0].encode()).hexdigest()


def secret_of(token: str, *, key: bytes) -> bytes:
    """Return the secret of the first refresh token of a sign-in, 32 bytes.

    It is derived from the identity token, so that a repeated sign-in gets the same refresh token.
    """
    return hmac.new(key, b"first refresh " + token.rpartition(".")[0].encode(), hashlib.sha256).digest()


def key_id_of(token: str) -> str:
    """Return the key id in a token's header. Raises IdentityTokenInvalid without one."""
    try:
        kid = jwt.get_unverified_header(token).get("kid")
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as error:
        raise IdentityTokenInvalid from error
    if not isinstance(kid, str):
        raise IdentityTokenInvalid
    return kid


def _true(value: Any) -> bool:
    """Return whether a claim is true; one of the providers writes booleans as strings."""
    return value is True or (isinstance(value, str) and value.lower() == "true")


def verify(
    token: str,
    key: jwt.PyJWK,
    *,
    audiences: Collection[str],
    issuers: Collection[str],
    nonce: str | None,
    now: dt.datetime,
) -> IdentityClaims:
    """Check a token's signature, issuer, audience, times and nonce, and return its claims.

    The token has the nonce as it is or as its SHA-256 in hex. A token with a nonce needs the same one in the request;
    otherwise a stolen token would work without it. `now` is real time: the provider's clock is not scaled.
    Raises IdentityTokenInvalid.
    """
    options: Any = {
        "require": ["iss", "aud", "exp", "iat", "sub"],
        "verify_exp": False,
        "verify_iat": False,
        "verify_nbf": False,
        "verify_iss": False,
    }
    try:
        claims = jwt.decode(token, key, algorithms=ALGORITHMS, audience=list(audiences), options=options)
    except (jwt.PyJWTError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise IdentityTokenInvalid from error
    expires_at, issued_at, subject = claims["exp"], claims["iat"], claims["sub"]
    if not _number(expires_at) or not expires_at > now.timestamp():
        raise IdentityTokenInvalid  # NaN fails every comparison, so it is refused here
    if not _number(issued_at) or not issued_at <= min(now.timestamp() + LEEWAY_S, expires_at):
        raise IdentityTokenInvalid
    if claims["iss"] not in issuers:
        raise IdentityTokenInvalid
    if not isinstance(subject, str) or not 1 <= len(subject) <= MAX_SUBJECT or not _storable(subject):
        raise IdentityTokenInvalid
    if not _same_nonce(nonce, claims):
        raise IdentityTokenInvalid
    until = dt.datetime.fromtimestamp(min(expires_at, FURTHEST), dt.UTC)
    return IdentityClaims(subject=subject, email=_email(claims), expires_at=until)


def _number(claim: Any) -> bool:
    return isinstance(claim, int | float) and not isinstance(claim, bool)


def _storable(text: str) -> bool:
    """Return whether the database can store a text: JSON allows NUL and lone surrogates, PostgreSQL does not."""
    return not any(sign == "\0" or "\ud800" <= sign <= "\udfff" for sign in text)


def _same_nonce(nonce: str | None, claims: dict[str, Any]) -> bool:
    found = claims.get("nonce")
    if nonce is None:
        return found is None
    if found is None:
        # The token says if the device can't send a nonce.
        supported = claims.get("nonce_supported")
        return supported is False or (isinstance(supported, str) and supported.lower() == "false")
    if not isinstance(found, str):
        return False
    if not _storable(nonce) or not _storable(found):
        return False
    hashed = hashlib.sha256(nonce.encode()).hexdigest()
    return any(hmac.compare_digest(found.encode(), wanted.encode()) for wanted in (nonce, hashed))


def _email(claims: dict[str, Any]) -> str | None:
    email = claims.get("email")
    usable = isinstance(email, str) and 3 <= len(email) <= 255 and "@" in email and _storable(email)
    return email if usable and _true(claims.get("email_verified")) else None
