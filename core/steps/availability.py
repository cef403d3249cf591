"""The configured limits that decide which mitras are eligible (docs/product.md#eligible-mitras)."""

from core.base.availability import AvailabilityPolicy
from core.config.cache import Config


def availability_policy(config: Config) -> AvailabilityPolicy:
    """Return the availability policy as it is configured now."""
    return AvailabilityPolicy(
        require_ping=config.flag("require_mitra_ping"),
        stale_after_seconds=config.seconds("mitra_stale_after_seconds").total_seconds(),
        capacity=config.number("max_customers_per_mitra"),
    )
