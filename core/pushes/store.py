"""Writes of pushes.

A process claims a push while it sends it, and deletes it when the provider has taken or refused it.
"""

import datetime as dt
from typing import Any

import attrs

from core.base import ids
from core.storage.database import Database, Tx
from core.storage.records import many

HOLD_S = 20.0  # real time of a claim, longer than a try can take: after it, the process that claimed the push is dead
CLAIM = f"""UPDATE pushes SET attempts = attempts + 1, due_real_at = clock_timestamp() + make_interval(secs => {HOLD_S})
  WHERE id = ANY (ARRAY(SELECT id FROM pushes WHERE due_real_at <= statement_timestamp() ORDER BY urgent DESC, due_real_at LIMIT $1 FOR UPDATE SKIP LOCKED))
  RETURNING id, push_token, content, urgent, attempts,
    CASE WHEN is_farewell THEN NOT EXISTS (SELECT 1 FROM auth_sessions a WHERE a.push_token = pushes.push_token)
      ELSE EXISTS (SELECT 1 FROM auth_sessions was JOIN auth_sessions a ON a.user_id = was.user_id
        WHERE was.id = pushes.auth_session_id AND a.push_token = pushes.push_token AND a.revoked_at IS NULL) END AS is_wanted,
    expires_real_at"""


@attrs.frozen(kw_only=True)
class Push:
    """A push that this process has claimed. It is useless after `expires_real_at`.

    `is_wanted` is False once the user has signed out on the device, or another user has registered its push token. The
    push about the end of the device's auth session (a farewell) is wanted until its token is registered again.
    """

    id: str
    push_token: str = attrs.field(repr=False)
    content: dict[str, str]
    urgent: bool
    attempts: int
    is_wanted: bool
    expires_real_at: dt.datetime


@attrs.frozen(kw_only=True)
class Planned:
    """A new push for one device. `ttl` is in real time."""

    auth_session_id: str
    push_token: str = attrs.field(repr=False)
    content: dict[str, Any]
    urgent: bool
    ttl: dt.timedelta
    is_farewell: bool = False


async def add(tx: Tx, planned: list[Planned]) -> None:
    """Store pushes that are due now."""
    if not planned:
        return
    await tx.execute(
        """INSERT INTO pushes (id, auth_session_id, push_token, content, urgent, is_farewell, due_real_at, expires_real_at)
           SELECT u.id, u.device, u.token, u.content, u.urgent, u.is_farewell, clock_timestamp(), clock_timestamp() + u.ttl
           FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::jsonb[], $5::bool[], $6::interval[], $7::bool[])
             AS u(id, device, token, content, urgent, ttl, is_farewell)""",
        [ids.new_id() for _ in planned], [p.auth_session_id for p in planned], [p.push_token for p in planned],
        [p.content for p in planned], [p.urgent for p in planned], [p.ttl for p in planned],
        [p.is_farewell for p in planned],
    )  # fmt: skip


async def claim(db: Database, *, limit: int) -> list[Push]:
    """Claim due pushes for HOLD_S, so that no other process sends them. Claim only as many as can be sent at once."""
    return many(Push, await db.fetch(CLAIM, limit))


async def done(tx: Tx, push_id: str) -> None:
    """Delete a push, because the provider has taken it or will never take it."""
    await tx.execute("DELETE FROM pushes WHERE id = $1", push_id)


async def again(tx: Tx, push_id: str, *, after_s: float) -> None:
    """Retry a push after `after_s` seconds of real time, or delete it if it is useless by then."""
    await tx.execute(
        "DELETE FROM pushes WHERE id = $1 AND expires_real_at <= clock_timestamp() + make_interval(secs => $2)",
        push_id,
        after_s,
    )
    await tx.execute(
        "UPDATE pushes SET due_real_at = clock_timestamp() + make_interval(secs => $2) WHERE id = $1", push_id, after_s
    )
