"""The configured limits that decide which mitras are eligible (docs/product.md#eligible-mitras)."""

from core.base.freedom import Freedom
from core.config.cache import Config


def freedom(config: Config) -> Freedom:
    """Return the availability policy as it is configured now."""
    return Freedom(
        require_ping=config.flag("require_mitra_ping"),
        stale_after_seconds=config.seconds("mitra_stale_after_seconds").total_seconds(),
        capacity=config.number("max_customers_per_mitra"),
    )
