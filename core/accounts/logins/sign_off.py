"""End sign-ins: a device's tokens, sockets and push token end together, and a mitra without any device goes offline.

Every end of a sign-in that has a cause comes through `revoke`: logout, removal of a device, reuse of a refresh token,
deactivation, a changed number or factor, erasure; or through `replace`, when an anonymous customer signs in
(docs/product.md#end-of-a-sign-in). core/pairing/presence.py takes a mitra offline in the same transaction. An auth
session that expires has no transaction: for it a sweep of core/pairing/presence.py does the same. An operator signs
users out by `by_operator` (docs/product.md#devices).

Lock order: auth sessions, their customer or mitra, then the sessions that ask the mitra.
"""

from collections.abc import Sequence

import attrs

from core.accounts.customers.rules import LastSignInMethod
from core.accounts.logins import store as logins
from core.accounts.logins.push_tokens import refresh_push_token
from core.accounts.logins.store import EndedLogin, Replacement
from core.accounts.mitras import store as mitras
from core.accounts.operators import store as operators
from core.base.actor import Actor, UserType
from core.base.errors import NotFound
from core.events.changes import MitraSignedOut
from core.events.signals import LoginsRevoked
from core.runtime.container import Runtime
from core.storage.transaction import Tx


async def revoke(tx: Tx, *, auth_session_id: str | None = None, user_id: str | None = None) -> bool:
    """Revoke one device, or all of a user's. Return whether any device was revoked.

    Within a second its access token is refused and its sockets are closed. It gets no more pushes. A mitra whose last
    auth session this was goes offline, and their open invitations are closed.
    """
    ended = await logins.revoke(tx, auth_session_id=auth_session_id, user_id=user_id)
    if ended:
        tx.emit(LoginsRevoked(auth_session_ids=[one.id for one in ended]))
    await _follow(tx, ended)
    return bool(ended)


async def replace(tx: Tx, *, user_id: str, replaced: Replacement) -> EndedLogin | None:
    """Revoke all of an anonymous customer's devices, because the calling one signs in: its next auth session follows.

    The calling device stays signed in: its sockets close with 4401, after which an app connects with its new token.
    Return its ended auth session, whose push token the caller of this function gives to the next one.
    """
    ended = await logins.revoke(tx, user_id=user_id, replaced=replaced)
    others = [one.id for one in ended if one.id != replaced.old]
    if others:
        tx.emit(LoginsRevoked(auth_session_ids=others))
    tx.emit(LoginsRevoked(auth_session_ids=[replaced.old], replaced=True))
    await _follow(tx, ended)
    return next((one for one in ended if one.id == replaced.old), None)


async def _follow(tx: Tx, ended: Sequence[EndedLogin]) -> None:
    """Carry out what follows from the end of auth sessions for their users."""
    for owner in {(one.user_type, one.user_id) for one in ended if one.push_token is not None}:
        await refresh_push_token(tx, *owner)
    for mitra_id in {one.user_id for one in ended if one.user_type == UserType.MITRA}:
        # If two devices sign out at once, the second one to get this lock sees that none is left.
        await mitras.lock(tx, mitra_id)
        await tx.tell(MitraSignedOut(mitra_id=mitra_id))


async def revoke_others(tx: Tx, actor: Actor) -> None:
    """Revoke all of the caller's devices except the calling one.

    The caller of this function must hold their auth sessions' locks.
    """
    for device in await logins.living(tx, actor.user_id):
        if device != actor.auth_session_id:
            await revoke(tx, auth_session_id=device)


@attrs.frozen(kw_only=True)
class Devices:
    """A device of a user, or all of them without an `auth_session_id`."""

    user_type: UserType
    user_id: str
    auth_session_id: str | None = None


async def by_operator(runtime: Runtime, actor: Actor, which: Devices, *, confirm: bool) -> None:
    """Revoke devices of a user. A mitra without another device goes offline.

    Raises NotFound for an unknown user, and for a device that is not theirs or has ended; LastSignInMethod if an
    anonymous customer would have no device left and `confirm` is not set.
    """
    async with runtime.transaction() as tx:
        await _lock(tx, which)
        if not confirm and await logins.would_lock_out(
            tx, which.user_id, auth_session_id=which.auth_session_id, now=tx.now
        ):
            raise LastSignInMethod
        user_id = which.user_id if which.auth_session_id is None else None
        if not await revoke(tx, auth_session_id=which.auth_session_id, user_id=user_id):
            if which.auth_session_id is not None:
                raise NotFound
            return
        kind = which.user_type.value
        after = {"auth_session_id": which.auth_session_id}  # null: all
        await operators.audit(tx, actor.user_id, f"{kind}.signed_out", kind, which.user_id, after=after)


async def _lock(tx: Tx, which: Devices) -> None:
    """Lock the devices of a user. A mitra's sign-ins wait, so that none is left out. Raises NotFound."""
    if not await logins.user_exists(tx, which.user_type, which.user_id):
        raise NotFound
    if which.user_type is UserType.MITRA:
        await mitras.hold_logins(tx, which.user_id)
    await logins.lock_all(tx, which.user_id)
    if which.auth_session_id is not None:
        found = await logins.lock_auth_session(tx, which.auth_session_id)
        if found is None or (found.user_type, found.user_id) != (which.user_type.value, which.user_id):
            raise NotFound
