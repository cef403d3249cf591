"""Push tokens of devices, which are columns of auth_sessions (docs/product.md#devices)."""

import attrs

from core.base.languages import Language, parse_locale
from core.storage import locks
from core.storage.database import Tx
from core.storage.locks import AdvisoryLock

PUSH_DEFAULT = Language.INDONESIAN  # for a device that has not named a language


async def move(
    tx: Tx, auth_session_id: str, push_token: str | None, *, locale: Language | None
) -> list[tuple[str, str]] | None:
    """Give an active device a push token (None: remove it), and take it from any other device that had it.

    `locale` is the language of the device's pushes; None keeps the present one. Return the sorted (user type, user id)
    of the devices that were changed; None if the device's auth session has ended.
    """
    if push_token is not None:  # one registration of a token at a time
        await locks.hold(tx, AdvisoryLock.PUSH_TOKEN, push_token)
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
        "UPDATE auth_sessions SET push_token = $2, push_token_at = $3, locale = coalesce($4, locale) WHERE id = $1",
        auth_session_id, push_token, None if push_token is None else tx.now, locale,
    )  # fmt: skip
    return sorted({(row["user_type"], str(row["user_id"])) for row in rows})


@attrs.frozen(kw_only=True)
class PushDevice:
    """An active device that takes pushes, and their language."""

    auth_session_id: str
    push_token: str = attrs.field(repr=False)
    language: Language


async def devices(tx: Tx, recipient_ids: list[str]) -> dict[str, list[PushDevice]]:
    """Return recipient id -> devices that take pushes.

    A customer who joined an account also has the devices of that account.
    """
    rows = await tx.fetch(
        """SELECT r.id::text AS recipient_id, a.id::text AS auth_session_id, a.push_token, a.locale
           FROM unnest($1::uuid[]) AS r(id) LEFT JOIN customers c ON c.id = r.id
           JOIN auth_sessions a ON a.user_id IN (r.id, c.account_belongs_to)
           WHERE a.push_token IS NOT NULL AND a.revoked_at IS NULL AND a.expires_at > $2 ORDER BY a.id""",
        recipient_ids, tx.now,
    )  # fmt: skip
    found: dict[str, list[PushDevice]] = {}
    for row in rows:
        device = PushDevice(
            auth_session_id=row["auth_session_id"],
            push_token=row["push_token"],
            language=parse_locale(row["locale"]) or PUSH_DEFAULT,
        )
        found.setdefault(row["recipient_id"], []).append(device)
    return found


async def drop(tx: Tx, push_token: str) -> list[tuple[str, str]]:
    """Delete a push token that is no longer valid; return the (user type, user id) of the devices that had it."""
    rows = await tx.fetch(
        "UPDATE auth_sessions SET push_token = NULL, push_token_at = NULL WHERE push_token = $1 RETURNING user_type, user_id",
        push_token,
    )
    return [(row["user_type"], str(row["user_id"])) for row in rows]
