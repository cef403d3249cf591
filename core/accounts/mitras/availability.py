"""Whether one mitra, or any, is available for a session, by the configured limits (docs/product.md#eligible-mitras)."""

from core.accounts.mitras import store as mitras
from core.accounts.mitras.rules import AvailabilityPolicy, NoMitraAvailable, check_available
from core.storage.transaction import Tx


async def check_mitra(tx: Tx, mitra_id: str, policy: AvailabilityPolicy) -> None:
    """Check that a mitra can take a session now. Raises MitraOffline, MitraAtCapacity."""
    check_available(await mitras.presence(tx, mitra_id, now=tx.now), policy, now=tx.now)


async def check_any(tx: Tx, policy: AvailabilityPolicy) -> None:
    """Check that a mitra can take a session now. Raises NoMitraAvailable."""
    if not await mitras.any_free(tx, policy, now=tx.now):
        raise NoMitraAvailable
