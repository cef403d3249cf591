"""Read, lock and write auth sessions and used identity tokens."""

import datetime as dt
from collections.abc import Sequence
from typing import Any

import attrs

from core.accounts.logins.tables import AuthSession as AuthSessions
from core.accounts.logins.tables import UsedIdentityToken as UsedTokens
from core.base import ids
from core.base.actor import Actor, UserType
from core.base.languages import Language
from core.security.identity import Use
from core.storage import sql_files
from core.storage.records import many
from core.storage.statements import columns_of, insert, p, statement
from core.storage.transaction import Reader, Tx


def _times(value: dict[str, Any] | None) -> dict[str, dt.datetime] | None:
    """Return `used_tokens` with times instead of their texts."""
    return None if value is None else {digest: dt.datetime.fromisoformat(at) for digest, at in value.items()}


@attrs.frozen(kw_only=True)
class AuthSession:
    """The columns of auth_sessions that the rules need. `used_tokens` maps token hashes to the times of their use."""

    id: str
    user_type: str
    user_id: str
    refresh_token_hash: str
    previous_token_hash: str | None
    rotated_at: dt.datetime | None
    used_tokens: dict[str, dt.datetime] | None = attrs.field(converter=_times)
    refresh_generation: int | None
    created_at: dt.datetime
    expires_at: dt.datetime
    revoked_at: dt.datetime | None


@attrs.frozen(kw_only=True)
class EndedLogin:
    """An auth session that was active; `push_token` is the one it had, `locale` the language of its pushes."""

    id: str
    user_type: str
    user_id: str
    push_token: str | None
    push_token_at: dt.datetime | None
    locale: str | None


@attrs.frozen(kw_only=True)
class Replacement:
    """The auth session `old` of a device, and the one that follows it with the next sign-in."""

    old: str
    new: str


SQL = sql_files.load(__file__)
LOCK = statement(
    AuthSessions.select(*columns_of(AuthSessions, AuthSession)).where(AuthSessions.id == p.id).lock_rows("UPDATE"),
    AuthSession,
)
EXISTS = statement(AuthSessions.select(AuthSessions.id).where(AuthSessions.id == p.id))
SIGNED_IN_AT = statement(AuthSessions.select(AuthSessions.created_at).where(AuthSessions.id == p.id))
CREATE = statement(
    insert(
        AuthSessions,
        "id user_type user_id refresh_token_hash device_info created_at expires_at locale",
        refresh_generation=0,
        last_used_at=p.created_at,
    )
)
STEP_UP = statement(
    AuthSessions.update(stepped_up_until=p.until).where(AuthSessions.id == p.id, AuthSessions.revoked_at.is_null())
)
STEPPED_UP_UNTIL = statement(AuthSessions.select(AuthSessions.stepped_up_until).where(AuthSessions.id == p.id))
LIVING = statement(
    AuthSessions.select(AuthSessions.id)
    .where(AuthSessions.user_id == p.user_id, AuthSessions.revoked_at.is_null())
    .order_by(AuthSessions.id)
)
LOCK_ALL = statement(
    AuthSessions.select(AuthSessions.id)
    .where(AuthSessions.user_id == p.user_id, AuthSessions.revoked_at.is_null())
    .order_by(AuthSessions.id)
    .lock_rows("UPDATE")
)
HAS_ANOTHER = statement(
    AuthSessions.select(AuthSessions.id)
    .where(
        AuthSessions.user_id == p.user_id,
        AuthSessions.id != p.id,
        AuthSessions.revoked_at.is_null(),
        AuthSessions.expires_at > p.now,
    )
    .limit(1)
)
USE_IDENTITY_TOKEN = statement(
    insert(UsedTokens, "id digest auth_session_id used_at expires_real_at").on_conflict(UsedTokens.digest, "DO NOTHING")
)
USE_OF = statement(UsedTokens.select(*columns_of(UsedTokens, Use)).where(UsedTokens.digest == p.digest), Use)


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
    await CREATE.execute(
        tx,
        id=auth_session_id,
        user_type=user_type,
        user_id=user_id,
        refresh_token_hash=refresh_token_hash,
        device_info={name: value for name, value in device.items() if name != "locale"},
        created_at=tx.now,
        expires_at=expires_at,
        locale=device.get("locale"),
    )


async def lock_auth_session(tx: Tx, auth_session_id: str) -> AuthSession | None:
    """Lock and read an auth session."""
    return await LOCK.first(tx, id=auth_session_id)


async def exists(reader: Reader, auth_session_id: str) -> bool:
    """Return whether an auth session exists, active or ended, without locking it."""
    return await EXISTS.value(reader, id=auth_session_id) is not None


async def signed_in_at(reader: Reader, auth_session_id: str) -> dt.datetime | None:
    """Return when the sign-in of an auth session was."""
    return await SIGNED_IN_AT.value(reader, id=auth_session_id)


async def user_exists(reader: Reader, user_type: UserType, user_id: str) -> bool:
    """Return whether there is a customer or mitra with this id."""
    return await reader.fetchval(SQL["user_exists"], user_type.value, user_id) is not None


async def would_lock_out(reader: Reader, user_id: str, *, auth_session_id: str | None, now: dt.datetime) -> bool:
    """Return whether an anonymous customer would have no living auth session left, and so no way to sign in.

    The question is about the end of `auth_session_id`, or of all if it is None. False for a customer without any.
    """
    return await reader.fetchval(SQL["would_lock_out"], user_id, auth_session_id, now)


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
    used_tokens = {digest: at.isoformat() for digest, at in used.items()}
    return bool(
        await tx.execute(
            SQL["rotate"],
            auth_session_id,
            before,
            after,
            tx.now,
            expires_at,
            used_tokens,
            presented,
            generation,
            locale,
        )
    )


async def step_up(tx: Tx, auth_session_id: str, *, until: dt.datetime) -> None:
    """Allow an active auth session, until `until` (real time), actions that need a fresh code of the second factor."""
    await STEP_UP.execute(tx, id=auth_session_id, until=until)


async def stepped_up_until(reader: Reader, auth_session_id: str) -> dt.datetime | None:
    """Return until when (real time) an auth session may do what needs a fresh code of the second factor."""
    return await STEPPED_UP_UNTIL.value(reader, id=auth_session_id)


async def revoke(
    tx: Tx, *, auth_session_id: str | None = None, user_id: str | None = None, replaced: Replacement | None = None
) -> list[EndedLogin]:
    """End one auth session, or all of a user's. Return those that were active.

    Their push tokens are deleted. `replaced` is noted with the one among them that it names.
    """
    old, new = (None, None) if replaced is None else (replaced.old, replaced.new)
    return many(EndedLogin, await tx.fetch(SQL["revoke"], auth_session_id, user_id, tx.now, old, new))


async def lock_all(tx: Tx, user_id: str) -> None:
    """Lock all active auth sessions of a user, in the order of their ids."""
    await LOCK_ALL.execute(tx, user_id=user_id)


async def living(reader: Reader, user_id: str) -> list[str]:
    """Return the ids of a user's active auth sessions."""
    return [one["id"] for one in await LIVING.all(reader, user_id=user_id)]


async def has_another(tx: Tx, actor: Actor) -> bool:
    """Return whether the caller has another active auth session."""
    found = await HAS_ANOTHER.value(tx, user_id=actor.user_id, id=actor.auth_session_id, now=tx.now)
    return found is not None


async def use_identity_token(tx: Tx, *, digest: str, auth_session_id: str, expires_real_at: dt.datetime) -> Use | None:
    """Record the use of an identity token by an auth session; return None, or the earlier use if there is one.

    A second use of the token waits for the commit of the first.
    """
    added = await USE_IDENTITY_TOKEN.execute(
        tx,
        id=ids.new_id(),
        digest=digest,
        auth_session_id=auth_session_id,
        used_at=tx.now,
        expires_real_at=expires_real_at,
    )
    return None if added else await USE_OF.first(tx, digest=digest)


async def forget_identity_tokens(tx: Tx, *, limit: int) -> int:
    """Delete at most `limit` used identity tokens that have expired; return how many."""
    return await tx.execute(SQL["forget_identity_tokens"], limit)


async def remove_codes(tx: Tx, *, before: dt.datetime, end_id: str, limit: int) -> int:
    """Delete requests for codes from before a time, whose ids are below the bound `end_id`; return how many."""
    return await tx.execute(SQL["remove_codes"], before, end_id, limit)


async def remove_marks(tx: Tx, *, before: dt.datetime, limit: int) -> int:
    """Delete requests for codes of erased users from before a time; return how many."""
    return await tx.execute(SQL["remove_marks"], before, limit)


async def remove_ended(tx: Tx, *, before: dt.datetime, limit: int) -> int:
    """Delete auth sessions that were revoked or expired before a time, those that ended first; return how many."""
    return await tx.execute(SQL["remove_ended"], before, limit)


async def lock_unused(tx: Tx, user_ids: Sequence[str], *, since: dt.datetime) -> list[str]:
    """Lock the auth sessions of users that were not used since a time; skip locked ones. Return their ids."""
    return [row["id"] for row in await tx.fetch(SQL["lock_unused"], user_ids, since)]


async def remove(tx: Tx, user_ids: Sequence[str]) -> None:
    """Delete all auth sessions of users."""
    await tx.execute(SQL["remove"], user_ids)
