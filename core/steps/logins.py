"""Ends auth sessions: the tokens, the sockets and the push tokens of a device go together (contract 3).

Locks: auth sessions before the customer or mitra whose they are.
"""

from core.base.actor import Actor, UserType
from core.events.signals import LoginsRevoked
from core.logins import store as logins
from core.storage.database import Tx


async def revoke(
    tx: Tx, *, auth_session_id: str | None = None, user_id: str | None = None, but: str | None = None
) -> bool:
    """End one device, or all of a user's but one. Returns whether there was a living one.

    Its access token is refused and its sockets are closed within a second; no push goes to it any more.
    """
    ended = await logins.revoke(tx, auth_session_id=auth_session_id, user_id=user_id, but=but)
    if ended:
        tx.signal(LoginsRevoked(auth_session_ids=[one.id for one in ended]))
    for owner in {(one.user_type, one.user_id) for one in ended if one.push_token is not None}:
        await refresh_push_token(tx, *owner)
    return bool(ended)


async def revoke_others(tx: Tx, actor: Actor) -> None:
    """End every living device of the caller but the one that asks. The caller's auth sessions are locked."""
    for device in await logins.living(tx, actor.user_id):
        if device != actor.auth_session_id:
            await revoke(tx, auth_session_id=device)


async def refresh_push_token(tx: Tx, user_type: str, user_id: str) -> None:
    """Let the user's own column hold the newest push token of their devices (contract 3)."""
    table = {UserType.CUSTOMER.value: "customers", UserType.MITRA.value: "mitras"}[user_type]
    # Held first: the statement below must see what whoever held it before us has done to the user's devices.
    await tx.execute(f"SELECT 1 FROM {table} WHERE id = $1 FOR NO KEY UPDATE", user_id)
    await tx.execute(
        f"""UPDATE {table} SET push_token = (SELECT a.push_token FROM auth_sessions a WHERE a.user_id = $1
              AND a.push_token IS NOT NULL ORDER BY a.push_token_at DESC LIMIT 1) WHERE id = $1""",
        user_id,
    )
