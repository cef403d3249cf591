"""Store the answers to idempotent requests."""

import datetime as dt

import attrs

from core.base import ids
from core.idempotency.rules import KEEP, KeyedRequest
from core.storage import locks
from core.storage.database import Tx
from core.storage.locks import AdvisoryLock
from core.storage.records import one

AT_ONCE = 1_000  # rows per statement


@attrs.frozen(kw_only=True)
class StoredAnswer:
    """The row of a key.

    `answer` is JSON; None while a process works on the request, which has made `resource_id` so far. `claim_age_s` is
    in real seconds, 0 without a claim.
    """

    fingerprint: str
    answer: str | None
    resource_id: str | None
    claim_age_s: float


async def try_hold(tx: Tx, keyed: KeyedRequest) -> bool:
    """Lock the key for this transaction; return False while another transaction has it."""
    return await locks.try_hold_wide(tx, AdvisoryLock.IDEMPOTENCY_KEY, f"{keyed.user_id} {keyed.key}")


async def find(tx: Tx, keyed: KeyedRequest, *, now: dt.datetime) -> StoredAnswer | None:
    """Lock and read the key's row; None without one, or if it is older than KEEP. Waits for the row's lock."""
    return one(
        StoredAnswer,
        await tx.fetchrow(
            """SELECT fingerprint, answer, resource_id,
                 coalesce(extract(epoch FROM clock_timestamp() - claimed_real_at), 0)::float AS claim_age_s
               FROM idempotency_keys WHERE user_id = $1 AND key = $2 AND created_at > $3 FOR UPDATE""",
            keyed.user_id, keyed.key, now - KEEP,
        ),
    )  # fmt: skip


async def claim(tx: Tx, keyed: KeyedRequest, *, resource_id: str) -> dt.datetime:
    """Claim a key and store what was made; the answer follows. Return the real time of the claim."""
    return await tx.fetchval(
        """INSERT INTO idempotency_keys (id, user_id, key, fingerprint, resource_id, claimed_real_at, created_at)
           VALUES ($1, $2, $3, $4, $5, clock_timestamp(), $6) ON CONFLICT (user_id, key) DO UPDATE SET
             fingerprint = excluded.fingerprint, http_status = NULL, answer = NULL, resource_id = excluded.resource_id,
             claimed_real_at = excluded.claimed_real_at, created_at = excluded.created_at
           RETURNING claimed_real_at""",
        ids.new_id(), keyed.user_id, keyed.key, keyed.fingerprint, resource_id, tx.now,
    )  # fmt: skip


async def forget(tx: Tx, keyed: KeyedRequest, *, claimed_at: dt.datetime | None) -> bool:
    """Release a claimed key so that the request can be retried.

    Return False if another process has taken over the claim since, or the answer is stored.
    """
    return bool(
        await tx.execute(
            """DELETE FROM idempotency_keys WHERE user_id = $1 AND key = $2 AND claimed_real_at = $3 AND answer IS NULL""",
            keyed.user_id, keyed.key, claimed_at,
        )
    )  # fmt: skip


async def keep(tx: Tx, keyed: KeyedRequest, *, http_status: int, answer: str) -> None:
    """Store the first answer to a request."""
    await tx.execute(
        """INSERT INTO idempotency_keys (id, user_id, key, fingerprint, http_status, answer, created_at)
           VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (user_id, key) DO UPDATE SET fingerprint = excluded.fingerprint,
             http_status = excluded.http_status, answer = excluded.answer, created_at = excluded.created_at""",
        ids.new_id(), keyed.user_id, keyed.key, keyed.fingerprint, http_status, answer, tx.now,
    )  # fmt: skip


async def purge(tx: Tx) -> int:
    """Delete up to AT_ONCE rows that are older than KEEP; return how many."""
    return await tx.execute(
        """DELETE FROM idempotency_keys WHERE created_at <= $1 AND id = ANY (ARRAY(
             SELECT id FROM idempotency_keys WHERE created_at <= $1 LIMIT $2))""",
        tx.now - KEEP, AT_ONCE,
    )  # fmt: skip
