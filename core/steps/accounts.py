"""Sign a customer in after a phone or an identity was proven. docs/product.md#merging-accounts has the four cases."""

import math
from typing import Any

from core.base import ids, logs, metrics
from core.base.actor import Actor, UserType
from core.bus.rate_limit import RateLimited
from core.customers import erasing
from core.customers import store as customers
from core.customers.rules import Identity, resolve
from core.customers.store import Customer
from core.events.signals import AccountJoined
from core.logins import store as logins
from core.logins.access import Tokens
from core.logins.store import AuthSession
from core.runtime import Runtime
from core.steps import erased_identities, renames, sign_off, tokens
from core.steps.tokens import Opening
from core.storage.transaction import Tx

log = logs.get("logins")


async def sign_in(
    runtime: Runtime,
    tx: Tx,
    *,
    identity: Identity,
    caller: Actor | None,
    device: dict[str, Any],
    opening: Opening | None = None,
) -> tuple[Tokens, Customer]:
    """Find or make the customer of a proven phone or identity, and open an auth session for the device.

    `caller` is the user of the request's Bearer token. It counts only if it is an anonymous customer whose auth session
    has not been revoked. If they join an account, all their auth sessions are revoked; if they are upgraded, all except
    the caller's.

    Returns (tokens, customer). Raises RateLimited if too many anonymous customers have joined the account lately,
    because each one makes reads of the account slower. A sign-in without a Bearer token joins nothing and is never
    refused for this.
    """
    await customers.hold_identity(tx, identity)
    anonymous = await _anonymous(tx, caller)
    known = await customers.by_identity(tx, identity)
    case = resolve(known=known is not None, anonymous=anonymous is not None)
    if known is not None:
        customer = known
        if identity.email is not None and identity.email != known.email:
            customer = await customers.set_email(tx, known.id, identity.email)
        if anonymous is not None:
            await _check_joins(runtime, tx, known.id)
            async with renames.watched(tx, [anonymous.user_id], UserType.CUSTOMER):
                await customers.join(tx, anonymous.user_id, account_id=known.id)
            await sign_off.revoke(tx, user_id=anonymous.user_id)
            tx.emit(AccountJoined(customer_id=known.id, joined_id=anonymous.user_id))
    elif anonymous is not None:
        customer = await customers.upgrade(tx, anonymous.user_id, identity)
        await sign_off.revoke(tx, user_id=customer.id, but=anonymous.id)
    else:
        customer = await customers.create_known(tx, ids.new_id(), identity)
    if known is None and await erased_identities.had_first_session(runtime, tx, identity):
        await erasing.set_had_first_session(tx, customer.id)
    log.info("customer resolved", case=case.value, by=identity.kind.value, user_id=customer.id)
    issued = await tokens.issue(
        runtime, tx, user_type=UserType.CUSTOMER, user_id=customer.id, device=device, opening=opening
    )
    return issued, customer


async def _check_joins(runtime: Runtime, tx: Tx, account_id: str) -> None:
    again_at = await customers.may_join_at(tx, account_id)
    if again_at is not None:
        metrics.LIMITED.labels("account_joins").inc()
        wait = (again_at - runtime.clock.real_now()).total_seconds()
        raise RateLimited(retry_after_seconds=max(1, math.ceil(wait)))


async def _anonymous(tx: Tx, caller: Actor | None) -> AuthSession | None:
    """Return the caller's auth session if they are an anonymous customer and it is not revoked.

    Locks the customer and all their auth sessions.
    """
    if caller is None or caller.user_type is not UserType.CUSTOMER:
        return None
    await logins.lock_all(tx, caller.user_id)
    login = await logins.lock_auth_session(tx, caller.auth_session_id)
    if login is None or login.revoked_at is not None:
        return None
    return login if await customers.lock_anonymous(tx, caller.user_id) else None
