"""Access tokens: JWTs signed with HS256, with a key id (docs/security.md#keys-and-lifetimes)."""

import base64
import datetime as dt
import hmac
from typing import Literal

import attrs
import jwt
import msgspec
from jwt.algorithms import HMACAlgorithm

from core.base import ids
from core.base.actor import UserType
from core.base.errors import Unauthenticated
from core.base.field_types import Id

ALGORITHM = "HS256"
CACHE_SIZE = 20_000  # verified tokens in memory: a lookup costs a thirtieth of a verification


def audience_of(user_type: UserType) -> str:
    """Return the audience of a user's tokens: the internal listener for operators, the public one for all others."""
    return "internal" if user_type is UserType.OPERATOR else "public"


@attrs.frozen(kw_only=True)
class AccessClaims:
    """The claims of a verified token."""

    user_type: UserType
    user_id: Id
    auth_session_id: str
    audience: str
    expires_at: int  # unix seconds of service time
    newcomer: bool = False  # an anonymous customer who had never paid when the token was made


@attrs.frozen(kw_only=True)
class Tokens:
    """The token response of a sign-in without the user. `expires_in` is seconds of service time."""

    access_token: str = attrs.field(repr=False)
    refresh_token: str = attrs.field(repr=False)
    token_type: Literal["Bearer"] = "Bearer"  # noqa: S105 - the scheme's name
    expires_in: int


class Said(msgspec.Struct):
    """The claims that a token must have."""

    sub: str
    typ: UserType
    sid: str
    aud: str
    iat: int
    exp: int
    jti: str
    newcomer: bool = False


class PreparedHS256(HMACAlgorithm):
    """HS256 without the check that PyJWT repeats for each token: whether the secret is a PEM or SSH key.

    The check costs 8 % of a connect; the settings accept only secrets of 32 or more bytes.
    """

    def prepare_key(self, key: str | bytes) -> bytes:
        """Return the secret unchanged."""
        assert isinstance(key, bytes)
        return key


read_claims = msgspec.json.Decoder(Said).decode


class AccessTokens:
    """Makes and checks access tokens. The first secret signs, all verify."""

    def __init__(self, secrets: tuple[tuple[str, bytes], ...]) -> None:
        self._keys = dict(secrets)
        self._jws = jwt.PyJWS(algorithms=[])
        self._jws.register_algorithm(ALGORITHM, PreparedHS256(HMACAlgorithm.SHA256))
        self._kid = secrets[0][0]
        self._seen: dict[str, AccessClaims] = {}
        self._heads: dict[str, bytes] = {}  # the header of a valid token -> the secret that its key id names

    def make(
        self,
        *,
        user_type: UserType,
        user_id: str,
        auth_session_id: str,
        now: dt.datetime,
        seconds: int,
        newcomer: bool = False,
        jti: str | None = None,
    ) -> str:
        """Return a token that is valid for `seconds` of service time. With the same `jti` and time it is the same."""
        issued = int(now.timestamp())
        claims = {
            "sub": user_id,
            "typ": user_type.value,
            "sid": auth_session_id,
            "aud": audience_of(user_type),
            "iat": issued,
            "exp": issued + seconds,
            "jti": jti or ids.new_id(),
            **({"newcomer": True} if newcomer else {}),
        }
        return jwt.encode(claims, self._keys[self._kid], algorithm=ALGORITHM, headers={"kid": self._kid})

    def check(self, token: str, *, audience: str, now: dt.datetime) -> AccessClaims:
        """Return a token's claims.

        Raises Unauthenticated if the token is forged or expired, or has another audience or algorithm.
        """
        claims = self._seen.get(token)
        if claims is None:
            claims = self._verify(token)
            if len(self._seen) >= CACHE_SIZE:
                self._seen.clear()
            self._seen[token] = claims
        if claims.audience != audience or claims.expires_at <= now.timestamp():
            raise Unauthenticated
        return claims

    def _verify(self, token: str) -> AccessClaims:
        try:
            said = read_claims(self._signed_payload(token) or self._decode(token))
            user_id, sid = ids.parse_id(said.sub), ids.parse_id(said.sid)
            if user_id is None or sid is None:
                raise Unauthenticated
            return AccessClaims(
                user_type=said.typ,
                user_id=user_id,
                auth_session_id=sid,
                audience=said.aud,
                expires_at=said.exp,
                newcomer=said.newcomer,
            )
        except (jwt.PyJWTError, msgspec.DecodeError, ValueError, TypeError, AttributeError, RecursionError) as error:
            raise Unauthenticated from error

    def _decode(self, token: str) -> bytes:
        """Let PyJWT check a token and return its payload."""
        head, _, _ = token.partition(".")
        key = self._heads.get(head)
        if key is None:
            kid = jwt.get_unverified_header(token).get("kid")
            key = self._keys.get(kid) if isinstance(kid, str) else None
            if key is None:
                raise Unauthenticated
        payload = self._jws.decode(token, key, algorithms=[ALGORITHM])
        read_claims(payload)
        self._heads[head] = key
        return payload

    def _signed_payload(self, token: str) -> bytes | None:
        """Return the payload of a token, if PyJWT has accepted its header and the signature is right; else None.

        PyJWT would accept it too, at four times the cost.
        """
        signed, _, signature = token.rpartition(".")
        head, _, payload = signed.partition(".")
        key = self._heads.get(head)
        if key is None:
            return None
        right = base64.urlsafe_b64encode(hmac.digest(key, signed.encode(), "sha256")).rstrip(b"=")
        if not hmac.compare_digest(right, signature.encode()):
            return None
        return base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))
