"""A customer sets their display name, and marks the introduction as seen (docs/product.md#onboarding)."""

from core.accounts.customers import store as customers
from core.accounts.customers.store import Customer
from core.base import names
from core.base.actor import Actor, UserType
from core.base.errors import Unauthenticated
from core.events.changes import Renaming
from core.runtime.container import Runtime


async def set_display_name(runtime: Runtime, actor: Actor, *, display_name: str) -> Customer:
    """Set the name that mitras see: 1 to 100 characters after trimming. The mitras of open chats get it.

    Raises ValidationFailed, and Unauthenticated for a customer who was erased at the same moment.
    """
    name = names.checked(display_name)
    async with runtime.transaction() as tx:
        account = await customers.lock_account(tx, actor.user_id)
        async with tx.during(Renaming(party_ids=account, side=UserType.CUSTOMER)):
            customer = await customers.set_display_name(tx, actor.user_id, name)
    if customer is None:
        raise Unauthenticated
    return customer


async def mark_usp_seen(runtime: Runtime, actor: Actor) -> None:
    """Record that the caller has seen the introduction. Repeating this changes nothing."""
    async with runtime.transaction() as tx:
        await customers.set_usp_seen(tx, actor.user_id)
