"""Lock the sessions of a party that have not ended."""

from collections.abc import Sequence

from core.base.actor import UserType
from core.sessions.states import UNENDED
from core.storage.transaction import Tx

# A search becomes a chat while its lock is awaited, so it is locked as well.
LOCK_UNENDED = """SELECT id::text
FROM chat_sessions
WHERE {} = ANY($1::uuid[]) AND status = ANY($2)
ORDER BY id
FOR NO KEY UPDATE"""
LOCK_UNENDED_OF_CUSTOMERS, LOCK_UNENDED_OF_MITRAS = (LOCK_UNENDED.format(side) for side in ("customer_id", "mitra_id"))


async def lock_unended(tx: Tx, party_ids: Sequence[str], side: UserType) -> list[str]:
    """Lock the sessions of customers or mitras that have not ended, searches included; return their ids."""
    query = LOCK_UNENDED_OF_MITRAS if side is UserType.MITRA else LOCK_UNENDED_OF_CUSTOMERS
    return [row["id"] for row in await tx.fetch(query, party_ids, sorted(UNENDED))]
