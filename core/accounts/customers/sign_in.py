"""Sign a customer in after a phone or an identity was proven. docs/product.md#merging-accounts has the four cases."""

import math
from typing import Any

from core.accounts.blocks import store as blocks
from core.accounts.customers import block_account, erasing
from core.accounts.customers import store as customers
from core.accounts.customers.rules import Identity, resolve
from core.accounts.customers.store import Customer
from core.accounts.logins import push_tokens, repeated_sign_ins, sign_off, tokens
from core.accounts.logins import store as logins
from core.accounts.logins.store import AuthSession, EndedLogin, Replacement
from core.accounts.logins.tokens import Opening
from core.base import ids
from core.base.actor import Actor, UserType
from core.bus.rate_limit import RateLimited
from core.events.changes import Joined, Renaming
from core.events.signals import AccountJoined
from core.idempotency.rules import KeyedRequest
from core.runtime.container import Runtime
from core.security.access import Tokens
from core.storage.transaction import Tx
from core.telemetry import logs, metrics

log = logs.get("logins")


async def sign_in(
    runtime: Runtime,
    tx: Tx,
    *,
    identity: Identity,
    caller: Actor | None,
    device: dict[str, Any],
    opening: Opening | None = None,
    keyed: KeyedRequest | None = None,
) -> tuple[Tokens, Customer]:
    """Find or make the customer of a proven phone or identity, and open an auth session for the device.

    `caller` is the user of the request's Bearer token. It counts only if it is an anonymous customer whose auth session
    has not been revoked. If they join an account or are upgraded, all their auth sessions are revoked: an earlier token
    may have been copied, and must not become the account. The new auth session keeps the caller's push token. `keyed`
    is their request, for a repeat of its answer.

    Returns (tokens, customer). Raises RateLimited if too many anonymous customers have joined the account lately,
    because each one makes reads of the account slower. A sign-in without a Bearer token joins nothing and is never
    refused for this.
    """
    await customers.hold_identity(tx, identity)
    anonymous = await _anonymous(tx, caller)
    opening = opening or Opening()
    customer = await _resolve(runtime, tx, identity, anonymous)
    before = None
    if anonymous is not None:
        replaced = Replacement(old=anonymous.id, new=opening.auth_session_id)
        before = await sign_off.replace(tx, user_id=anonymous.user_id, replaced=replaced)
    issued = await tokens.issue(
        runtime, tx, user_type=UserType.CUSTOMER, user_id=customer.id, device=device, opening=opening
    )
    if before is not None:
        customer = await _inherit(tx, customer, opening.auth_session_id, before)
        if keyed is not None:
            await repeated_sign_ins.keep(tx, keyed, opening.auth_session_id)
    return issued, customer


async def _resolve(runtime: Runtime, tx: Tx, identity: Identity, anonymous: AuthSession | None) -> Customer:
    """Return the customer of a proven identity, by the case that applies. The caller holds the identity's lock."""
    known = await customers.by_identity(tx, identity)
    case = resolve(known=known is not None, anonymous=anonymous is not None)
    if known is not None:
        customer = known
        if identity.email is not None and identity.email != known.email:
            customer = await customers.set_email(tx, known.id, identity.email)
        if anonymous is not None:
            await _check_joins(runtime, tx, known.id)
            async with tx.during(Renaming(party_ids=[anonymous.user_id], side=UserType.CUSTOMER)):
                await customers.join(tx, anonymous.user_id, account_id=known.id)
            await blocks.move(tx, anonymous.user_id, account_id=known.id)
            await block_account.carry(tx, anonymous.user_id, account_id=known.id)
            await tx.tell(Joined(account_id=known.id))
            tx.emit(AccountJoined(customer_id=known.id, joined_id=anonymous.user_id))
    elif anonymous is not None:
        customer = await customers.upgrade(tx, anonymous.user_id, identity)
    else:
        customer = await customers.create_known(tx, ids.new_id(), identity)
    if known is None and await erasing.had_first_session(runtime, tx, identity):
        await erasing.set_had_first_session(tx, customer.id)
    log.info("customer resolved", case=case.value, by=identity.kind.value, user_id=customer.id)
    return customer


async def _inherit(tx: Tx, customer: Customer, auth_session_id: str, before: EndedLogin) -> Customer:
    """Give a new auth session the push token of the one that it replaces. Return the customer as changed since."""
    if before.push_token is not None:
        await push_tokens.inherit(tx, auth_session_id, before)
        await push_tokens.refresh_push_token(tx, UserType.CUSTOMER.value, customer.id)
    return await customers.get(tx, customer.id) or customer


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
