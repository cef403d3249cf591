"""Store the answers to idempotent requests."""

import datetime as dt
from collections.abc import Sequence

import attrs

from core.base import ids
from core.idempotency.rules import KEEP, KeyedRequest
from core.idempotency.tables import IdempotencyKey as Keys
from core.storage import locks, sql_files
from core.storage.locks import AdvisoryLock
from core.storage.records import one
from core.storage.statements import insert, p, statement
from core.storage.transaction import Reader, Tx

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


SQL = sql_files.load(__file__)
FORGET = statement(
    Keys.delete().where(
        Keys.user_id == p.user_id, Keys.key == p.key, Keys.claimed_real_at == p.claimed_at, Keys.answer.is_null()
    )
)
KEEP_ANSWER = statement(
    insert(Keys, "id user_id key fingerprint http_status answer created_at").on_conflict(
        (Keys.user_id, Keys.key),
        "DO UPDATE",
        [Keys.fingerprint, Keys.http_status, Keys.answer, Keys.created_at],
    )
)


async def try_hold(tx: Tx, keyed: KeyedRequest) -> bool:
    """Lock the key for this transaction; return False while another transaction has it."""
    return await locks.try_hold_wide(tx, AdvisoryLock.IDEMPOTENCY_KEY, f"{keyed.user_id} {keyed.key}")


async def find(tx: Tx, keyed: KeyedRequest, *, now: dt.datetime) -> StoredAnswer | None:
    """Lock and read the key's row; None without one, or if it is older than KEEP. Waits for the row's lock."""
    return one(StoredAnswer, await tx.fetchrow(SQL["find"], keyed.user_id, keyed.key, now - KEEP))


async def claim(tx: Tx, keyed: KeyedRequest, *, resource_id: str) -> dt.datetime:
    """Claim a key and store what was made; the answer follows. Return the real time of the claim."""
    return await tx.fetchval(
        SQL["claim"], ids.new_id(), keyed.user_id, keyed.key, keyed.fingerprint, resource_id, tx.now
    )


async def forget(tx: Tx, keyed: KeyedRequest, *, claimed_at: dt.datetime | None) -> bool:
    """Release a claimed key so that the request can be retried.

    Return False if another process has taken over the claim since, or the answer is stored.
    """
    return bool(await FORGET.execute(tx, user_id=keyed.user_id, key=keyed.key, claimed_at=claimed_at))


async def keep(tx: Tx, keyed: KeyedRequest, *, http_status: int, answer: str) -> None:
    """Store the first answer to a request."""
    await KEEP_ANSWER.execute(
        tx,
        id=ids.new_id(),
        user_id=keyed.user_id,
        key=keyed.key,
        fingerprint=keyed.fingerprint,
        http_status=http_status,
        answer=answer,
        created_at=tx.now,
    )


async def purge(tx: Tx) -> int:
    """Delete up to AT_ONCE rows that are older than KEEP; return how many."""
    return await tx.execute(SQL["purge"], tx.now - KEEP, AT_ONCE)


async def forget_all(tx: Tx, user_ids: Sequence[str]) -> None:
    """Delete the keys and answers of users who are erased, except those that another transaction has locked."""
    await tx.execute(SQL["forget_all"], user_ids)


async def any_left(reader: Reader, user_ids: Sequence[str]) -> bool:
    """Return whether one of the users has a key."""
    return await reader.fetchval(SQL["any_left"], user_ids)
