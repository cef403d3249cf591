"""Refresh tokens: single use, rotation, the retry window and the detection of reuse (docs/protocol.md#refresh).

A token is `base64url(auth session id | generation | secret | seal)`. The seal (HMAC-SHA256 with a server key) proves
that the service issued the token even if it is no longer the current one, so that only a really reused token revokes.
The successor's secret is derived from the presented token, so that concurrent retries and retries after a lost answer
get the same token.
"""

import base64
import binascii
import datetime as dt
import enum
import hashlib
import hmac
import math
import uuid

import attrs

from core.base.errors import DomainError, Kind
from core.base.languages import Text

SECRET_BYTES = 32
SEAL_BYTES = 16
SIZE = 16 + 4 + SECRET_BYTES + SEAL_BYTES
RETRY_WINDOW = dt.timedelta(seconds=30)  # service time, like all times here
REMEMBERED = 100  # used tokens per device
ROTATIONS, ROTATIONS_WITHIN = 10, dt.timedelta(minutes=1)  # per device; one every 15 minutes is usual


class RefreshInvalid(DomainError):
    """The refresh token is unknown, revoked, expired or already used."""

    kind = Kind.UNAUTHENTICATED
    code = "REFRESH_INVALID"
    message = Text(
        en="This refresh token is invalid. Sign in again.", id="Token penyegar ini tidak sah. Silakan masuk lagi."
    )
    advice = "Forget the tokens and sign in again."


class TokenVerdict(enum.Enum):
    """The verdict on a presented token."""

    PRESENT = "present"  # the current token: rotate it
    NEWER = "newer"  # issued after the current one, in history that the database has lost: rotate it
    RETRY = "retry"  # the previous token, within the window: return the same successor again
    STALE = "stale"  # an older token that was used within the window: refuse it, revoke nothing
    REUSED = "reused"  # used before the window, so it was copied: revoke the auth session


@attrs.frozen(kw_only=True)
class StoredTokens:
    """An auth session's tokens as the database stores them.

    `used` maps the hashes of recently used tokens before the previous one to the times of their use. `rotated_at` alone
    can't tell a late retry from a thief who keeps rotating. None: a process of an older version rotated last.
    """

    present_hash: str
    previous_hash: str | None
    rotated_at: dt.datetime | None
    used: dict[str, dt.datetime] | None
    generation: int | None = None  # of the current token; None: a process of an older version rotated last

    def used_after_rotation(self, now: dt.datetime, *, by_newer: bool = False) -> dict[str, dt.datetime]:
        """Return `used` after a rotation by the current token or (`by_newer`) by a newer one.

        A newer one becomes the previous token, so the current one counts as used now. Tokens are kept for twice the
        window, because a request that arrived in time may be judged late, after waiting for a lock.
        """
        used = dict(self.used or {})
        if self.previous_hash is not None and self.rotated_at is not None:
            used[self.previous_hash] = self.rotated_at
        if by_newer:
            used[self.present_hash] = now
        recent = [(digest, at) for digest, at in used.items() if now < at + 2 * RETRY_WINDOW]
        return dict(sorted(recent, key=lambda one: one[1])[-REMEMBERED:])


def hash_of(token: str) -> str:
    """Return base64 of SHA-256: a fast hash is enough for 256 random bits, and it fits varchar(60)."""
    return base64.b64encode(hashlib.sha256(token.encode()).digest()).decode()


def _seal(key: bytes, body: bytes) -> bytes:
    return hmac.new(key, b"seal" + body, hashlib.sha256).digest()[:SEAL_BYTES]


def make(*, key: bytes, auth_session_id: str, generation: int, secret: bytes) -> str:
    """Build a token from its parts."""
    body = uuid.UUID(auth_session_id).bytes + generation.to_bytes(4, "big") + secret
    return base64.urlsafe_b64encode(body + _seal(key, body)).decode().rstrip("=")


def successor(*, key: bytes, token: str) -> str:
    """Build the token that follows a presented one. Raises RefreshInvalid if that can't be parsed."""
    raw = _unpack(token)
    secret = hmac.new(key, b"next" + raw, hashlib.sha256).digest()
    return make(
        key=key,
        auth_session_id=str(uuid.UUID(bytes=raw[:16])),
        generation=(int.from_bytes(raw[16:20], "big") + 1) % 2**32,
        secret=secret,
    )


def _unpack(token: str) -> bytes:
    try:
        raw = base64.urlsafe_b64decode(token.encode("ascii") + b"=" * (-len(token) % 4))
    except (UnicodeError, binascii.Error, ValueError) as error:
        raise RefreshInvalid from error
    if len(raw) != SIZE or base64.urlsafe_b64encode(raw).decode().rstrip("=") != token:
        raise RefreshInvalid
    return raw


def auth_session_of(token: str, *, keys: list[bytes]) -> str:
    """Return the id of a token's auth session.

    Raises RefreshInvalid if none of `keys` sealed the token.
    """
    raw = _unpack(token)
    body, seal = raw[:-SEAL_BYTES], raw[-SEAL_BYTES:]
    if not any(hmac.compare_digest(_seal(key, body), seal) for key in keys):
        raise RefreshInvalid
    return str(uuid.UUID(bytes=raw[:16]))


def generation_of(token: str) -> int:
    """Return the number of rotations between a token and its sign-in. Raises RefreshInvalid if it can't be parsed."""
    return int.from_bytes(_unpack(token)[16:20], "big")


def judge(token: str, held: StoredTokens, *, now: dt.datetime) -> TokenVerdict:
    """Return the verdict on a sealed token of an auth session.

    Only this service seals tokens, and each rotation increases the generation by one. So a token of a later generation
    than the current one was issued in history that a failover or a restore has lost; it can't be an old copy.
    """
    digest = hash_of(token)
    if hmac.compare_digest(digest, held.present_hash):
        return TokenVerdict.PRESENT
    if held.generation is not None and generation_of(token) > held.generation:
        return TokenVerdict.NEWER
    if (
        held.previous_hash is not None
        and held.rotated_at is not None
        and hmac.compare_digest(digest, held.previous_hash)
        and now < held.rotated_at + RETRY_WINDOW
    ):
        return TokenVerdict.RETRY
    used_at = held.rotated_at if held.used is None else held.used.get(digest)
    if used_at is not None and now < used_at + RETRY_WINDOW and digest != held.previous_hash:
        return TokenVerdict.STALE
    return TokenVerdict.REUSED


def wait_before_rotation(held: StoredTokens, *, now: dt.datetime) -> int:
    """Return the seconds until an auth session may rotate its token; 0 if it may now.

    Rotations are counted by the times of used tokens, so that a retried token counts once.
    """
    times = list((held.used or {}).values())
    if held.rotated_at is not None:
        times.append(held.rotated_at)
    recent = sorted(at for at in times if at > now - ROTATIONS_WITHIN)
    if len(recent) < ROTATIONS:
        return 0
    return math.ceil((recent[-ROTATIONS] + ROTATIONS_WITHIN - now).total_seconds())


def repeated_successor(token: str, held: StoredTokens, *, keys: list[bytes]) -> str:
    """Return the successor that was issued for this token, whichever key derived it.

    Raises RefreshInvalid if no key derives the current token from it.
    """
    for key in keys:
        following = successor(key=key, token=token)
        if hmac.compare_digest(hash_of(following), held.present_hash):
            return following
    raise RefreshInvalid
