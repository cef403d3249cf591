"""A new anonymous customer signs in (specification, Endpoints: anonymous)."""

from typing import Any

from core.base import ids
from core.base.actor import UserType
from core.customers import store as customers
from core.customers.store import Customer
from core.logins.issued import Tokens
from core.runtime import Runtime
from core.steps import tokens


async def sign_in_anonymously(runtime: Runtime, *, device: dict[str, Any]) -> tuple[Tokens, Customer]:
    """Create a customer without a name and open an auth session for the device."""
    async with runtime.transaction() as tx:
        customer = await customers.create_anonymous(tx, ids.new_id())
        issued = await tokens.issue(runtime, tx, user_type=UserType.CUSTOMER, user_id=customer.id, device=device)
    return issued, customer
