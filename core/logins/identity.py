"""Signed identity tokens of providers A and B (specification, Authentication 4; OpenID Connect Core 3.1.3.7; contract 3)."""

import datetime as dt
import hashlib
import hmac
from collections.abc import Collection
from typing import Any

import attrs
import jwt

from core.base.errors import DomainError, Kind, NotFound
from core.base.languages import Text

LEEWAY_S = 60  # the provider's clock may be ahead of ours by so much
REPEAT = dt.timedelta(seconds=60)  # the same token again, because the answer was lost
FURTHEST = 253_402_300_799  # the last second of the year 9999
ALGORITHMS = ["RS256", "ES256"]  # never a shared secret: the published key would be one
MAX_SUBJECT = 255


class IdentityTokenInvalid(DomainError):
    """The identity token is forged, expired, already used, or made for another app or by another provider."""

    kind = Kind.UNAUTHENTICATED
    code = "IDENTITY_TOKEN_INVALID"
    message = Text(en="This sign-in could not be verified.", id="Proses masuk ini tidak dapat diverifikasi.")


class ProviderDisabled(NotFound):
    """The service has no settings for this identity provider."""

    code = "PROVIDER_DISABLED"
    message = Text(en="This sign-in method is not available.", id="Cara masuk ini tidak tersedia.")


@attrs.frozen(kw_only=True)
class Claims:
    """What a verified identity token says. `email` only when the provider has verified it."""

    subject: str
    email: str | None
    expires_at: dt.datetime  # real time


@attrs.frozen(kw_only=True)
class Use:
    """The one use of a token: the auth session that it opened, and when."""

    auth_session_id: str
    used_at: dt.datetime


def digest_of(token: str) -> str:
    """Return what stands for a verified token in the memory of used ones, 64 hex digits.

    It leaves the signature out: of some algorithms a valid one can be changed into another valid one.
    """
    return hashlib.sha256(token.rpartition(".")[0].encode()).hexdigest()


def secret_of(token: str, *, key: bytes) -> bytes:
    """Return the random part of the first refresh token that a token's sign-in gives: made from it, so that it can be repeated."""
    return hmac.new(key, b"first refresh " + token.rpartition(".")[0].encode(), hashlib.sha256).digest()


def key_id_of(token: str) -> str:
    """Return the id of the key that a token says it is signed with. Raises IdentityTokenInvalid."""
    try:
        kid = jwt.get_unverified_header(token).get("kid")
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as error:
        raise IdentityTokenInvalid from error
    if not isinstance(kid, str):
        raise IdentityTokenInvalid
    return kid


def _true(value: Any) -> bool:
    """One of the providers writes its booleans as strings."""
    return value is True or (isinstance(value, str) and value.lower() == "true")


def verify(
    token: str, key: jwt.PyJWK, *, audiences: Collection[str], issuers: Collection[str], nonce: str | None, now: dt.datetime
) -> Claims:  # fmt: skip
    """Check signature, issuer, audience, times, and the nonce: as it is, or its SHA-256 in hex.

    A token that has a nonce needs the same one in the request: else a stolen token would do without it.

    `now` is real time: the provider's clock is not scaled. Raises IdentityTokenInvalid.
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
        raise IdentityTokenInvalid  # NaN is later than nothing
    if not _number(issued_at) or not issued_at <= min(now.timestamp() + LEEWAY_S, expires_at):
        raise IdentityTokenInvalid
    if claims["iss"] not in issuers:
        raise IdentityTokenInvalid
    if not isinstance(subject, str) or not 1 <= len(subject) <= MAX_SUBJECT or not _storable(subject):
        raise IdentityTokenInvalid
    if not _same_nonce(nonce, claims):
        raise IdentityTokenInvalid
    until = dt.datetime.fromtimestamp(min(expires_at, FURTHEST), dt.UTC)
    return Claims(subject=subject, email=_email(claims), expires_at=until)


def _number(claim: Any) -> bool:
    return isinstance(claim, int | float) and not isinstance(claim, bool)


def _storable(text: str) -> bool:
    """JSON can spell NUL and half characters (lone surrogates); the database takes neither."""
    return not any(sign == "\0" or "\ud800" <= sign <= "\udfff" for sign in text)


def _same_nonce(nonce: str | None, claims: dict[str, Any]) -> bool:
    found = claims.get("nonce")
    if nonce is None:
        return found is None
    if found is None:
        # A device that can't send a nonce says so in the token.
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
