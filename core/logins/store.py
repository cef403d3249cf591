"""Read, lock and write auth sessions and used identity tokens."""

import datetime as dt
from typing import Any

import attrs

from core.base import ids
from core.base.actor import Actor
from core.base.languages import Language
from core.logins.identity import Use
from core.storage.database import Tx
from core.storage.reads import Reader
from core.storage.records import as_dict, many, one

AUTH_COLUMNS = (
    "id, user_type, user_id, refresh_token_hash, previous_token_hash, rotated_at, used_tokens, "
    "refresh_generation, expires_at, revoked_at"
)


@attrs.frozen(kw_only=True)
class AuthSession:
    """The columns of auth_sessions that the rules need. `used_tokens` maps token hashes to the times of their use."""

    id: str
    user_type: str
    user_id: str
    refresh_token_hash: str
    previous_token_hash: str | None
    rotated_at: dt.datetime | None
    used_tokens: dict[str, dt.datetime] | None
    refresh_generation: int | None
    expires_at: dt.datetime
    revoked_at: dt.datetime | None


async def create_auth_session(
    tx: Tx,
    *,
    auth_session_id: str,
    user_type: str,
    user_id: str,
    refresh_token_hash: str,
    device: dict[str, Any],
    expires_at: dt.datetime,
) -> None:
    """Insert an auth session. `device` is what the client says of its device; `locale` in it has a separate column."""
    device_info = {name: value for name, value in device.items() if name != "locale"}
    await tx.execute(
        """INSERT INTO auth_sessions (id, user_type, user_id, refresh_token_hash, refresh_generation, device_info, created_at, last_used_at, expires_at, locale)
           VALUES ($1, $2, $3, $4, 0, $5, $6, $6, $7, $8)""",
        auth_session_id, user_type, user_id, refresh_token_hash, device_info, tx.now, expires_at, device.get("locale"),
    )  # fmt: skip


async def lock_auth_session(tx: Tx, auth_session_id: str) -> AuthSession | None:
    """Lock and read an auth session."""
    row = await tx.fetchrow(f"SELECT {AUTH_COLUMNS} FROM auth_sessions WHERE id = $1 FOR UPDATE", auth_session_id)
    if row is None:
        return None
    values = as_dict(row)
    if values["used_tokens"] is not None:
        values["used_tokens"] = {digest: dt.datetime.fromisoformat(at) for digest, at in values["used_tokens"].items()}
    return AuthSession(**values)


async def exists(reader: Reader, auth_session_id: str) -> bool:
    """Return whether an auth session exists, active or ended, without locking it."""
    return await reader.fetchval("SELECT 1 FROM auth_sessions WHERE id = $1", auth_session_id) is not None


async def rotate(
    tx: Tx,
    auth_session_id: str,
    *,
    before: str,
    presented: str,
    after: str,
    generation: int,
    used: dict[str, dt.datetime],
    expires_at: dt.datetime,
    locale: Language | None,
) -> bool:
    """Replace the current refresh token's hash `before` by `after`, which has this generation.

    `presented` is the hash of the presented token; `used` maps the hashes of earlier used tokens to the times of their
    use. A `locale` of None keeps the present one. Return False if the auth session has ended or `before` is not
    current.
    """
    return bool(
        await tx.execute(
            """UPDATE auth_sessions SET refresh_token_hash = $3, previous_token_hash = $7, rotated_at = $4, last_used_at = $4,
                 expires_at = $5, used_tokens = $6, refresh_generation = $8, locale = coalesce($9, locale)
               WHERE id = $1 AND refresh_token_hash = $2 AND revoked_at IS NULL""",
            auth_session_id, before, after, tx.now, expires_at, {digest: at.isoformat() for digest, at in used.items()},
            presented, generation, locale,
        )
    )  # fmt: skip


async def step_up(tx: Tx, auth_session_id: str, *, until: dt.datetime) -> None:
    """Allow an active auth session, until `until` (real time), actions that need a fresh code of the second factor."""
    await tx.execute(
        "UPDATE auth_sessions SET stepped_up_until = $2 WHERE id = $1 AND revoked_at IS NULL", auth_session_id, until
    )


async def stepped_up_until(reader: Reader, auth_session_id: str) -> dt.datetime | None:
    """Return until when (real time) an auth session may do what needs a fresh code of the second factor."""
    found: dt.datetime | None = await reader.fetchval(
        "SELECT stepped_up_until FROM auth_sessions WHERE id = $1", auth_session_id
    )
    return found


@attrs.frozen(kw_only=True)
class Ended:
    """An auth session that was active; `push_token` is the one it had."""

    id: str
    user_type: str
    user_id: str
    push_token: str | None


async def revoke(
    tx: Tx, *, auth_session_id: str | None = None, user_id: str | None = None, but: str | None = None
) -> list[Ended]:
    """End one auth session, or all of a user's except `but`. Return those that were active.

    Their push tokens are deleted.
    """
    rows = await tx.fetch(
        """WITH living AS (SELECT id, push_token FROM auth_sessions
             WHERE (id = $1 OR user_id = $2) AND revoked_at IS NULL AND id IS DISTINCT FROM $4::uuid ORDER BY id FOR UPDATE)
           UPDATE auth_sessions a SET revoked_at = $3, revoked_real_at = clock_timestamp(), push_token = NULL, push_token_at = NULL
           FROM living WHERE a.id = living.id RETURNING a.id, a.user_type, a.user_id, living.push_token""",
        auth_session_id, user_id, tx.now, but,
    )  # fmt: skip
    return many(Ended, rows)


async def lock_all(tx: Tx, user_id: str) -> None:
    """Lock all active auth sessions of a user, in the order of their ids."""
    await tx.fetch(
        "SELECT 1 FROM auth_sessions WHERE user_id = $1 AND revoked_at IS NULL ORDER BY id FOR UPDATE", user_id
    )


async def living(reader: Reader, user_id: str) -> list[str]:
    """Return the ids of a user's active auth sessions."""
    rows = await reader.fetch(
        "SELECT id FROM auth_sessions WHERE user_id = $1 AND revoked_at IS NULL ORDER BY id", user_id
    )
    return [str(row["id"]) for row in rows]


async def has_another(tx: Tx, actor: Actor) -> bool:
    """Return whether the caller has another active auth session."""
    return await tx.fetchval(
        """SELECT EXISTS (SELECT 1 FROM auth_sessions WHERE user_id = $1 AND id <> $2 AND revoked_at IS NULL
             AND expires_at > $3)""",
        actor.user_id, actor.auth_session_id, tx.now,
    )  # fmt: skip


async def use_identity_token(tx: Tx, *, digest: str, auth_session_id: str, expires_real_at: dt.datetime) -> Use | None:
    """Record the use of an identity token by an auth session; return None, or the earlier use if there is one.

    A second use of the token waits for the commit of the first.
    """
    added = await tx.execute(
        """INSERT INTO used_identity_tokens (id, digest, auth_session_id, used_at, expires_real_at)
           VALUES ($1, $2, $3, $4, $5) ON CONFLICT (digest) DO NOTHING""",
        ids.new_id(), digest, auth_session_id, tx.now, expires_real_at,
    )  # fmt: skip
    if added:
        return None
    sql = "SELECT auth_session_id, used_at FROM used_identity_tokens WHERE digest = $1"
    return one(Use, await tx.fetchrow(sql, digest))


async def forget_identity_tokens(tx: Tx, *, limit: int) -> int:
    """Delete at most `limit` used identity tokens that have expired; return how many."""
    return await tx.execute(
        """DELETE FROM used_identity_tokens WHERE id = ANY (ARRAY(SELECT id FROM used_identity_tokens
           WHERE expires_real_at < clock_timestamp() - interval '1 minute' LIMIT $1))""",
        limit,
    )
