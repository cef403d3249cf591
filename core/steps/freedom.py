"""The configured limits that decide which mitra is free."""

from core.base.freedom import Freedom
from core.config.cache import Config


def freedom(config: Config) -> Freedom:
    """Return the limits as they are configured now."""
    return Freedom(
        require_ping=config.flag("require_mitra_ping"),
        stale_after_seconds=config.seconds("mitra_stale_after_seconds").total_seconds(),
        capacity=config.number("max_customers_per_mitra"),
    )
