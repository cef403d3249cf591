"""Writes and locking reads of auth sessions and OTP requests."""

import datetime as dt
from typing import Any

import attrs

from core.logins.otp import Asked
from core.storage.database import Tx
from core.storage.reads import Reader
from core.storage.records import as_dict, many, one

AUTH_COLUMNS = (
    "id, user_type, user_id, refresh_token_hash, previous_token_hash, rotated_at, used_tokens, expires_at, revoked_at"
)
OTP_COLUMNS = "id, phone, user_type, code_hash, provider_reference, attempts, used_at, expires_at"


@attrs.frozen(kw_only=True)
class AuthSession:
    """What rules need of a row of auth_sessions."""

    id: str
    user_type: str
    user_id: str
    refresh_token_hash: str
    previous_token_hash: str | None
    rotated_at: dt.datetime | None
    used_tokens: dict[str, dt.datetime] | None
    expires_at: dt.datetime
    revoked_at: dt.datetime | None


@attrs.frozen(kw_only=True)
class OtpRequest:
    """What rules need of a row of otp_requests."""

    id: str
    phone: str
    user_type: str
    code_hash: str | None
    provider_reference: str | None
    attempts: int
    used_at: dt.datetime | None
    expires_at: dt.datetime


async def create_auth_session(
    tx: Tx,
    *,
    auth_session_id: str,
    user_type: str,
    user_id: str,
    refresh_token_hash: str,
    device_info: dict[str, Any],
    expires_at: dt.datetime,
) -> None:
    """Insert a device."""
    await tx.execute(
        """INSERT INTO auth_sessions (id, user_type, user_id, refresh_token_hash, device_info, created_at, last_used_at, expires_at)
           VALUES ($1, $2, $3, $4, $5, $6, $6, $7)""",
        auth_session_id, user_type, user_id, refresh_token_hash, device_info, tx.now, expires_at,
    )  # fmt: skip


async def lock_auth_session(tx: Tx, auth_session_id: str) -> AuthSession | None:
    """Read and lock a device."""
    row = await tx.fetchrow(f"SELECT {AUTH_COLUMNS} FROM auth_sessions WHERE id = $1 FOR UPDATE", auth_session_id)
    if row is None:
        return None
    values = as_dict(row)
    if values["used_tokens"] is not None:
        values["used_tokens"] = {digest: dt.datetime.fromisoformat(at) for digest, at in values["used_tokens"].items()}
    return AuthSession(**values)


async def rotate(
    tx: Tx, auth_session_id: str, *, before: str, after: str, used: dict[str, dt.datetime], expires_at: dt.datetime
) -> bool:
    """Replace the present refresh token's hash; `used` are those that were used within the window before."""
    return bool(
        await tx.execute(
            """UPDATE auth_sessions SET refresh_token_hash = $3, previous_token_hash = $2, rotated_at = $4, last_used_at = $4,
                 expires_at = $5, used_tokens = $6 WHERE id = $1 AND refresh_token_hash = $2 AND revoked_at IS NULL""",
            auth_session_id, before, after, tx.now, expires_at, {digest: at.isoformat() for digest, at in used.items()},
        )
    )  # fmt: skip


@attrs.frozen(kw_only=True)
class Ended:
    """A device that was living; `push_token` is the one it had."""

    id: str
    user_type: str
    user_id: str
    push_token: str | None


async def revoke(tx: Tx, *, auth_session_id: str | None = None, user_id: str | None = None) -> list[Ended]:
    """End one device, or all of a user's; their push tokens are forgotten. Returns those that were living."""
    rows = await tx.fetch(
        """WITH living AS (SELECT id, push_token FROM auth_sessions
             WHERE (id = $1 OR user_id = $2) AND revoked_at IS NULL ORDER BY id FOR UPDATE)
           UPDATE auth_sessions a SET revoked_at = $3, revoked_real_at = clock_timestamp(), push_token = NULL, push_token_at = NULL
           FROM living WHERE a.id = living.id RETURNING a.id, a.user_type, a.user_id, living.push_token""",
        auth_session_id, user_id, tx.now,
    )  # fmt: skip
    return many(Ended, rows)


async def lock_all(tx: Tx, user_id: str) -> None:
    """Lock all living devices of a user, in their order."""
    await tx.fetch(
        "SELECT 1 FROM auth_sessions WHERE user_id = $1 AND revoked_at IS NULL ORDER BY id FOR UPDATE", user_id
    )


async def living(reader: Reader, user_id: str) -> list[str]:
    """Read the living devices of a user."""
    rows = await reader.fetch(
        "SELECT id FROM auth_sessions WHERE user_id = $1 AND revoked_at IS NULL ORDER BY id", user_id
    )
    return [str(row["id"]) for row in rows]


async def move_push_token(tx: Tx, auth_session_id: str, push_token: str | None) -> list[tuple[str, str]] | None:
    """Give a living device a push token (None: take it away), and take it from whatever device had it.

    Returns the users (type, id) whose devices were touched; None when the device's auth session has ended.
    """
    if push_token is not None:  # devices that register one token are served one after the other
        await tx.execute("SELECT pg_advisory_xact_lock(5, hashtext($1))", push_token)
    rows = await tx.fetch(
        """SELECT id, user_type, user_id, revoked_at FROM auth_sessions WHERE id = $1 OR push_token = $2 ORDER BY id FOR UPDATE""",
        auth_session_id, push_token,
    )  # fmt: skip
    mine = [row for row in rows if str(row["id"]) == auth_session_id]
    if not mine or mine[0]["revoked_at"] is not None:
        return None
    await tx.execute(
        "UPDATE auth_sessions SET push_token = NULL, push_token_at = NULL WHERE push_token = $2 AND id <> $1",
        auth_session_id, push_token,
    )  # fmt: skip
    await tx.execute(
        "UPDATE auth_sessions SET push_token = $2, push_token_at = $3 WHERE id = $1",
        auth_session_id, push_token, None if push_token is None else tx.now,
    )  # fmt: skip
    return sorted({(row["user_type"], str(row["user_id"])) for row in rows})


@attrs.frozen(kw_only=True)
class PushDevice:
    """A living device that takes pushes."""

    auth_session_id: str
    push_token: str = attrs.field(repr=False)


async def push_devices(tx: Tx, recipient_ids: list[str]) -> dict[str, list[PushDevice]]:
    """Read the devices of users; those of the account that an anonymous customer signed into are hers too."""
    rows = await tx.fetch(
        """SELECT r.id::text AS recipient_id, a.id::text AS auth_session_id, a.push_token
           FROM unnest($1::uuid[]) AS r(id) LEFT JOIN customers c ON c.id = r.id
           JOIN auth_sessions a ON a.user_id IN (r.id, c.account_belongs_to)
           WHERE a.push_token IS NOT NULL AND a.revoked_at IS NULL AND a.expires_at > $2 ORDER BY a.id""",
        recipient_ids, tx.now,
    )  # fmt: skip
    found: dict[str, list[PushDevice]] = {}
    for row in rows:
        device = PushDevice(auth_session_id=row["auth_session_id"], push_token=row["push_token"])
        found.setdefault(row["recipient_id"], []).append(device)
    return found


async def drop_push_token(tx: Tx, push_token: str) -> list[tuple[str, str]]:
    """Forget a dead push token; returns whose device had it."""
    rows = await tx.fetch(
        "UPDATE auth_sessions SET push_token = NULL, push_token_at = NULL WHERE push_token = $1 RETURNING user_type, user_id",
        push_token,
    )
    return [(row["user_type"], str(row["user_id"])) for row in rows]


async def lock_otp_limits(tx: Tx, *, phone: str, ip_address: str) -> None:
    """Let requests for one phone, or from one address, be judged one after the other."""
    await tx.execute("SELECT pg_advisory_xact_lock(1, hashtext($1))", phone)
    await tx.execute("SELECT pg_advisory_xact_lock(2, hashtext($1))", ip_address)


async def asked(tx: Tx, *, phone: str, ip_address: str, since: dt.datetime) -> Asked:
    """Read the requests that count against the limits. A phone is one phone, whoever it is asked for."""
    by_phone = await tx.fetch(
        "SELECT created_at FROM otp_requests WHERE phone = $1 AND created_at > $2 AND NOT delivery_failed ORDER BY created_at",
        phone, since,
    )  # fmt: skip
    by_ip = await tx.fetch(
        "SELECT created_at FROM otp_requests WHERE ip_address = $1 AND created_at > $2 AND NOT delivery_failed ORDER BY created_at",
        ip_address, since,
    )  # fmt: skip
    return Asked(by_phone=tuple(row["created_at"] for row in by_phone), by_ip=tuple(row["created_at"] for row in by_ip))


async def create_otp(
    tx: Tx, *, otp_request_id: str, phone: str, ip_address: str, user_type: str, channel: str,
    code_hash: str | None, expires_at: dt.datetime,
) -> None:  # fmt: skip
    """Insert a request for a code."""
    await tx.execute(
        """INSERT INTO otp_requests (id, phone, ip_address, user_type, channel, code_hash, created_at, expires_at)
           VALUES ($1, $2, $3, $4, $5, $6, $7, $8)""",
        otp_request_id, phone, ip_address, user_type, channel, code_hash, tx.now, expires_at,
    )  # fmt: skip


async def otp_sent(tx: Tx, otp_request_id: str, *, reference: str | None) -> None:
    """Note the provider's reference; None: it was not delivered, and does not count."""
    await tx.execute(
        "UPDATE otp_requests SET provider_reference = $2, delivery_failed = $3 WHERE id = $1",
        otp_request_id, reference, reference is None,
    )  # fmt: skip


async def lock_otp(tx: Tx, otp_request_id: str) -> OtpRequest | None:
    """Read and lock a request for a code."""
    return one(
        OtpRequest,
        await tx.fetchrow(f"SELECT {OTP_COLUMNS} FROM otp_requests WHERE id = $1 FOR UPDATE", otp_request_id),
    )


async def count_attempt(tx: Tx, otp_request_id: str, *, tries: int = 1) -> None:
    """Count a try; -1 gives back one that nobody judged."""
    await tx.execute("UPDATE otp_requests SET attempts = attempts + $2 WHERE id = $1", otp_request_id, tries)


async def use_otp(tx: Tx, otp_request_id: str) -> None:
    """Mark a code as used."""
    await tx.execute("UPDATE otp_requests SET used_at = $2 WHERE id = $1 AND used_at IS NULL", otp_request_id, tx.now)
