"""Sign in a new anonymous customer (docs/product.md#anonymous-customers)."""

from typing import Any

from core.accounts.customers import store as customers
from core.accounts.customers.store import Customer
from core.accounts.logins import tokens
from core.base import ids
from core.base.actor import UserType
from core.bus.buckets import charges_of_address, charges_of_budget, hourly_limit
from core.bus.rate_limit import RateLimited
from core.runtime.container import Runtime
from core.security.access import Tokens
from core.telemetry import metrics

EVERYBODY = 10  # times the limit of an address: so the share of an IPv4 /24 equals that limit


async def sign_in_anonymously(runtime: Runtime, *, device: dict[str, Any], ip_address: str) -> tuple[Tokens, Customer]:
    """Create a customer without a name and open an auth session for the device. Return (tokens, customer).

    Raises RateLimited above `anonymous_max_per_address_per_hour`, and above ten times as many from all addresses. The
    limits hold for any period of an hour, because each new account brings a new request bucket.
    """
    most = runtime.config.number("anonymous_max_per_address_per_hour")
    if most == 0:
        metrics.LIMITED.labels("anonymous").inc()
        raise RateLimited(retry_after_seconds=3_600)
    limit, wider = hourly_limit("anonymous", most), hourly_limit("anonymous_block", 10 * most)
    await runtime.charge(charges_of_address(limit, ip_address, wider=wider))
    await runtime.charge(*charges_of_budget(hourly_limit("anonymous_everybody", EVERYBODY * most), ip_address))
    async with runtime.transaction() as tx:
        customer = await customers.create_anonymous(tx, ids.new_id())
        issued = await tokens.issue(
            runtime, tx, user_type=UserType.CUSTOMER, user_id=customer.id, device=device, newcomer=True
        )
    return issued, customer
