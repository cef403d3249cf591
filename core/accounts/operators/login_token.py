"""Login tokens: what an operator with a second factor gets for a correct password.

A login token is a JWT with a separate key and audience, so it can't be used for anything else. It names the auth
session that it will open. That session exists once the token was used, so the token works once. It becomes invalid when
the password changes.
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
LIVES = dt.timedelta(minutes=5)  # real time
CLAIMS = ["sub", "sid", "aud", "exp", "pwd"]


class LoginTokenInvalid(DomainError):
    """The login token was not issued here, has expired, was used, or is older than the password."""

    kind = Kind.UNAUTHENTICATED
    code = "LOGIN_TOKEN_INVALID"
    message = Text(
        en="This sign-in has expired. Start again with e-mail and password.",
        id="Proses masuk ini sudah kedaluwarsa. Mulai lagi dengan e-mail dan kata sandi.",
    )
    advice = "Begin the sign-in again."


@attrs.frozen(kw_only=True)
class LoginToken:
    """The contents of a login token. `auth_session_id` is the auth session that it will open."""

    operator_id: str
    auth_session_id: str
    password_mark: str


def _mark(key: bytes, password_hash: str) -> str:
    return hmac.new(key, password_hash.encode(), hashlib.sha256).hexdigest()[:32]


def make(key: bytes, *, operator_id: str, password_hash: str, real_now: dt.datetime) -> str:
    """Make a login token. It expires LIVES after `real_now`."""
    claims = {
        "sub": operator_id,
        "sid": ids.new_id(),
        "aud": AUDIENCE,
        "exp": int((real_now + LIVES).timestamp()),
        "pwd": _mark(key, password_hash),
    }
    return jwt.encode(claims, key, algorithm=ALGORITHM)


def read(keys: list[bytes], token: str, *, real_now: dt.datetime) -> LoginToken:
    """Verify a login token and return its contents. Raises LoginTokenInvalid."""
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
