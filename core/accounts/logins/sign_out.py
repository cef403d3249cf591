"""An operator signs a customer or a mitra out, on one device or on all (docs/product.md#devices)."""

import attrs

from core.accounts.customers.rules import LastSignInMethod
from core.accounts.logins import sign_off
from core.accounts.logins import store as logins
from core.accounts.mitras import store as mitras
from core.accounts.operators import store as operators
from core.base.actor import Actor, UserType
from core.base.errors import NotFound
from core.runtime.container import Runtime
from core.storage.transaction import Tx


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
        if not await sign_off.revoke(tx, auth_session_id=which.auth_session_id, user_id=user_id):
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
