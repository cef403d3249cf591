"""Revoke auth sessions: a device's tokens, sockets and push token end together (docs/product.md#devices).

Lock order: auth sessions before their customer or mitra.
"""

from core.base.actor import Actor, UserType
from core.customers import store as customers
from core.events.signals import LoginsRevoked
from core.logins import push_tokens
from core.logins import store as logins
from core.mitras import store as mitras
from core.storage.transaction import Tx


async def revoke(
    tx: Tx, *, auth_session_id: str | None = None, user_id: str | None = None, but: str | None = None
) -> bool:
    """Revoke one device, or all of a user's except `but`. Return whether any device was revoked.

    Within a second its access token is refused and its sockets are closed. It gets no more pushes.
    """
    ended = await logins.revoke(tx, auth_session_id=auth_session_id, user_id=user_id, but=but)
    if ended:
        tx.emit(LoginsRevoked(auth_session_ids=[one.id for one in ended]))
    for owner in {(one.user_type, one.user_id) for one in ended if one.push_token is not None}:
        await refresh_push_token(tx, *owner)
    return bool(ended)


async def revoke_others(tx: Tx, actor: Actor) -> None:
    """Revoke all of the caller's devices except the calling one.

    The caller of this function must hold their auth sessions' locks.
    """
    for device in await logins.living(tx, actor.user_id):
        if device != actor.auth_session_id:
            await revoke(tx, auth_session_id=device)


async def refresh_push_token(tx: Tx, user_type: str, user_id: str) -> None:
    """Set the user's own push token to the newest one of their devices.

    `user_type` is `customer` or `mitra`.
    """
    store = {UserType.CUSTOMER.value: customers, UserType.MITRA.value: mitras}[user_type]
    # Lock first: the read must see what the previous holder of the lock did to the user's devices.
    await store.lock(tx, user_id)
    await store.set_push_token(tx, user_id, await push_tokens.newest(tx, user_id))
