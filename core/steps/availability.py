"""Whether one mitra is available for a session, by the configured limits (docs/product.md#eligible-mitras)."""

from core.config.cache import Config
from core.mitras import store as mitras
from core.mitras.rules import AvailabilityPolicy, check_available
from core.storage.database import Tx


def availability_policy(config: Config) -> AvailabilityPolicy:
    """Return the availability policy as it is configured now."""
    return AvailabilityPolicy(
        require_ping=config.flag("require_mitra_ping"),
        stale_after_seconds=config.seconds("mitra_stale_after_seconds").total_seconds(),
        capacity=config.number("max_customers_per_mitra"),
    )


async def check_mitra(tx: Tx, mitra_id: str, policy: AvailabilityPolicy) -> None:
    """Check that a mitra can take a session now. Raises MitraOffline, MitraAtCapacity."""
    check_available(await mitras.presence(tx, mitra_id, now=tx.now), policy, now=tx.now)
