"""Advisory locks of PostgreSQL, which stand for things that have no row yet (docs/architecture.md#lock-order).

Each is held until its transaction ends. docs/decisions/0007-advisory-locks-and-one-lock-order.md says why they exist.
"""

import enum

from core.storage.transaction import Tx


class AdvisoryLock(enum.IntEnum):
    """The advisory locks of the service. The value is the lock's number in the database.

    Their order among each other and with row locks is the table in docs/architecture.md#lock-order. During an update
    processes of two versions work side by side, so a number never changes its meaning.
    """

    CODES_OF_PHONE = 1  # the limits of codes for a phone
    CODES_OF_ADDRESS = 2  # the limits of codes for an address
    IDENTITY = 3  # sign-ins with one phone or identity
    IDEMPOTENCY_KEY = 4  # one request for each Idempotency-Key; see `try_hold_wide`
    PUSH_TOKEN = 5  # devices that register one push token
    OPERATOR_RIGHTS = 6  # the rights of operators and roles, so that the last administrator stays
    CHAT_PUSHES = 7  # one process at a time looks for chats that need a push
    INVOICES_OF_ADDRESS = 8  # the limit of invoices for an address
    OUTAGES = 9  # one process at a time records outages
    MITRA_PHONE = 10  # one mitra for each phone
    CODE_BUDGET = 11  # the limit of codes for the whole service
    MITRA_LOGINS = 12  # a mitra's sign-ins, against the end of them all
    PARTITIONS = 13  # one transaction at a time makes a partition
    # In the space of locks with one bigint. A migration holds it exclusively. The ledger audit, whose table locks would
    # hold up a migration, takes it shared and is refused while a migration runs.
    MIGRATION = 5_351_001


async def hold(tx: Tx, lock: AdvisoryLock, key: str | None = None) -> None:
    """Wait for a lock and hold it until the transaction ends.

    Two transactions with different keys don't wait for each other, unless their keys have the same 32-bit hash.
    Without a key the whole service has one lock.
    """
    await tx.execute("SELECT pg_advisory_xact_lock($1, coalesce(hashtext($2), 0))", lock, key)


async def try_hold(tx: Tx, lock: AdvisoryLock) -> bool:
    """Hold the lock of the whole service until the transaction ends. Return False while another transaction has it."""
    return await tx.fetchval("SELECT pg_try_advisory_xact_lock($1, 0)", lock)


async def try_hold_wide(tx: Tx, lock: AdvisoryLock, key: str) -> bool:
    """Hold the lock of a key until the transaction ends. Return False while another transaction has it.

    The key's hash has 64 bits: two keys with one hash would refuse each other's requests, where `hold` only waits.
    """
    return await tx.fetchval("SELECT pg_try_advisory_xact_lock(hashtextextended($1, $2))", key, lock)
