"""Login tokens: what a right password gives an operator who has a second factor.

A login token is a JWT of its own key and audience, so it opens nothing else. It names the auth session that it will open;
that session exists as soon as the token was used, so it works once. It ends with a change of the password.
"""

import datetime as dt
import hashlib
import hmac

import attrs
import jwt

from core.base import ids
from core.base.errors import DomainError, Kind
from core.base.languages import Text

ALGORITHM = "HS256"
AUDIENCE = "internal-second-factor"
LIVES = dt.timedelta(minutes=5)  # real
CLAIMS = ["sub", "sid", "aud", "exp", "pwd"]


class LoginTokenInvalid(DomainError):
    """The login token was not issued here, has expired, was used, or is older than the password."""

    kind = Kind.UNAUTHENTICATED
    code = "LOGIN_TOKEN_INVALID"
    message = Text(
        en="This sign-in has expired. Begin again with e-mail and password.",
        id="Proses masuk ini sudah kedaluwarsa. Mulai lagi dengan e-mail dan kata sandi.",
    )


@attrs.frozen(kw_only=True)
class LoginToken:
    """What a login token says; `auth_session_id` is the one that it opens."""

    operator_id: str
    auth_session_id: str
    password_mark: str


def _mark(key: bytes, password_hash: str) -> str:
    return hmac.new(key, password_hash.encode(), hashlib.sha256).hexdigest()[:32]


def make(key: bytes, *, operator_id: str, password_hash: str, real_now: dt.datetime) -> str:
    """Return a new login token."""
    claims = {
        "sub": operator_id,
        "sid": ids.new_id(),
        "aud": AUDIENCE,
        "exp": int((real_now + LIVES).timestamp()),
        "pwd": _mark(key, password_hash),
    }
    return jwt.encode(claims, key, algorithm=ALGORITHM)


def read(keys: list[bytes], token: str, *, real_now: dt.datetime) -> LoginToken:
    """Return what a login token says. Raises LoginTokenInvalid."""
    for key in keys:
        try:
            said = jwt.decode(
                token, key, algorithms=[ALGORITHM], audience=AUDIENCE, options={"require": CLAIMS, "verify_exp": False}
            )
            operator_id, auth_session_id = ids.parse_id(said["sub"]), ids.parse_id(said["sid"])
            if operator_id is None or auth_session_id is None or int(said["exp"]) <= real_now.timestamp():
                raise LoginTokenInvalid
            return LoginToken(operator_id=operator_id, auth_session_id=auth_session_id, password_mark=str(said["pwd"]))
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
            continue
    raise LoginTokenInvalid


def is_of_password(keys: list[bytes], token: LoginToken, password_hash: str) -> bool:
    """Return whether the operator's password is the one that the token was made for."""
    said = token.password_mark.encode(errors="replace")
    return any(hmac.compare_digest(said, _mark(key, password_hash).encode()) for key in keys)
