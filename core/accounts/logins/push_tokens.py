"""Push tokens of devices, which are columns of auth_sessions (docs/product.md#devices).

A user's own row repeats the newest one, for reads of the control center. Lock order: auth sessions before their
customer or mitra.
"""

import attrs
from piccolo.query import OrderByRaw

from core.accounts.customers import store as customers
from core.accounts.logins.store import EndedLogin
from core.accounts.logins.tables import AuthSession as AuthSessions
from core.accounts.mitras import store as mitras
from core.base.actor import UserType
from core.base.languages import Language, parse_locale
from core.storage import locks, sql_files
from core.storage.locks import AdvisoryLock
from core.storage.statements import p, statement
from core.storage.transaction import Reader, Tx

PUSHED_DEVICES = 10  # of an account: the newest get pushes
PUSH_DEFAULT = Language.INDONESIAN  # for a device that has not named a language

SQL = sql_files.load(__file__)
TAKE = statement(
    AuthSessions.update(push_token=None, push_token_at=None).where(
        AuthSessions.push_token == p.push_token, AuthSessions.id != p.id
    )
)
DROP = statement(
    AuthSessions.update(push_token=None, push_token_at=None)
    .where(AuthSessions.push_token == p.push_token)
    .returning(AuthSessions.user_type, AuthSessions.user_id)
)
NEWEST = statement(
    AuthSessions.select(AuthSessions.push_token)
    .where(AuthSessions.user_id == p.user_id, AuthSessions.push_token.is_not_null())
    .order_by(OrderByRaw("push_token_at IS NOT NULL"), AuthSessions.push_token_at, ascending=False)
    .limit(1)
)


async def move(
    tx: Tx, auth_session_id: str, push_token: str | None, *, locale: Language | None
) -> list[tuple[str, str]] | None:
    """Give an active device a push token (None: remove it), and take it from any other device that had it.

    `locale` is the language of the device's pushes; None keeps the present one. Return the sorted (user type, user id)
    of the devices that were changed; None if the device's auth session has ended.
    """
    if push_token is not None:  # one registration of a token at a time
        await locks.hold(tx, AdvisoryLock.PUSH_TOKEN, push_token)
    rows = await tx.fetch(SQL["lock_devices"], auth_session_id, push_token)
    mine = [row for row in rows if str(row["id"]) == auth_session_id]
    if not mine or mine[0]["revoked_at"] is not None:
        return None
    await TAKE.execute(tx, id=auth_session_id, push_token=push_token)
    since = None if push_token is None else tx.now
    await tx.execute(SQL["give"], auth_session_id, push_token, since, locale)
    return sorted({(row["user_type"], str(row["user_id"])) for row in rows})


async def inherit(tx: Tx, auth_session_id: str, ended: EndedLogin) -> None:
    """Give a new auth session the push token of the one that it replaces, which this transaction has ended."""
    await tx.execute(SQL["inherit"], auth_session_id, ended.push_token, ended.push_token_at, ended.locale)


@attrs.frozen(kw_only=True)
class PushDevice:
    """An active device that takes pushes, and their language."""

    auth_session_id: str
    push_token: str = attrs.field(repr=False)
    language: Language


async def devices(tx: Tx, recipient_ids: list[str]) -> dict[str, list[PushDevice]]:
    """Return recipient id -> devices that take pushes, at most PUSHED_DEVICES, those with the newest tokens first.

    A customer who joined an account also has the devices of that account.
    """
    rows = await tx.fetch(SQL["devices"], recipient_ids, tx.now, PUSHED_DEVICES)
    found: dict[str, list[PushDevice]] = {}
    for row in rows:
        device = PushDevice(
            auth_session_id=row["auth_session_id"],
            push_token=row["push_token"],
            language=parse_locale(row["locale"]) or PUSH_DEFAULT,
        )
        found.setdefault(row["recipient_id"], []).append(device)
    return found


async def make_room(tx: Tx, user_id: str) -> int:
    """Remove the oldest push tokens of a user who opens another auth session; return how many.

    So a user never has more than PUSHED_DEVICES with the new one.
    """
    return await tx.execute(SQL["make_room"], user_id, PUSHED_DEVICES - 1)


async def drop(tx: Tx, push_token: str) -> list[tuple[str, str]]:
    """Delete a push token that is no longer valid; return the (user type, user id) of the devices that had it."""
    return [(row["user_type"], row["user_id"]) for row in await DROP.all(tx, push_token=push_token)]


async def newest(reader: Reader, user_id: str) -> str | None:
    """Return the push token that a user's devices registered last, or None."""
    return await NEWEST.value(reader, user_id=user_id)


async def refresh_push_token(tx: Tx, user_type: str, user_id: str) -> None:
    """Set the user's own push token to the newest one of their devices.

    `user_type` is `customer` or `mitra`.
    """
    store = {UserType.CUSTOMER.value: customers, UserType.MITRA.value: mitras}[user_type]
    # Lock first: the read must see what the previous holder of the lock did to the user's devices.
    await store.lock(tx, user_id)
    await store.set_push_token(tx, user_id, await newest(tx, user_id))
