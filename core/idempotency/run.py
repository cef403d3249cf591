"""Run a request once for each idempotency key (docs/protocol.md#idempotency).

The first answer is committed in the same transaction as the work, so either both are stored or neither. If a third
party must be called in between, the key holds a claim on the resource that was created: a retry waits for the process
that works on it, and continues the work if that process has died.
"""

import asyncio
import contextlib
import datetime as dt
from collections.abc import AsyncIterator
from typing import TypeVar

import attrs
import msgspec

from core.base.clock import monotonic, real_sleep
from core.idempotency import store
from core.idempotency.rules import CLAIM_S, WAIT_S, IdempotencyInFlight, IdempotencyMismatch, KeyedRequest
from core.idempotency.store import StoredAnswer
from core.runtime.container import Runtime
from core.storage.transaction import Tx

T = TypeVar("T")
POLL_S = 0.05


@attrs.define
class IdempotentRequest:
    """The transaction of an idempotent request, and what is stored for its key.

    Without a key `keyed` is None. `stored` is the stored row, None for the first request. `claimed_at` is set by
    `claim`.
    """

    tx: Tx
    keyed: KeyedRequest | None
    stored: StoredAnswer | None
    claimed_at: dt.datetime | None = None

    def repeated(self, cls: type[T]) -> T | None:
        """Return the stored answer of the first request; None without one."""
        if self.stored is None or self.stored.answer is None:
            return None
        return msgspec.json.decode(self.stored.answer, type=cls)

    @property
    def unfinished(self) -> str | None:
        """The id of the resource that an earlier request created before its process died; None otherwise."""
        return self.stored.resource_id if self.stored is not None and self.stored.answer is None else None

    async def keep(self, answer: object, *, http_status: int) -> None:
        """Store the first answer, in the same transaction."""
        await store_answer(self.tx, self.keyed, answer, http_status=http_status)

    async def claim(self, resource_id: str) -> None:
        """Store the id of the resource that was created, in the same transaction. The answer follows later."""
        if self.keyed is not None:
            self.claimed_at = await store.claim(self.tx, self.keyed, resource_id=resource_id)


async def store_answer(tx: Tx, keyed: KeyedRequest | None, answer: object, *, http_status: int) -> None:
    """Store the answer for a key. Without a key nothing is stored."""
    if keyed is not None:
        await store.keep(tx, keyed, http_status=http_status, answer=msgspec.json.encode(answer).decode())


async def forget(tx: Tx, idempotent: IdempotentRequest) -> bool:
    """Release a claimed key so that the request can be retried.

    Return False if another process has taken over the claim since, because this one was too slow.
    """
    return idempotent.keyed is None or await store.forget(tx, idempotent.keyed, claimed_at=idempotent.claimed_at)


@contextlib.asynccontextmanager
async def transaction(runtime: Runtime, keyed: KeyedRequest | None) -> AsyncIterator[IdempotentRequest]:
    """Open a write transaction that holds the key.

    Raises IdempotencyMismatch if the key was used with another body, and IdempotencyInFlight if the first request is
    still running after WAIT_S.
    """
    if keyed is None:
        async with runtime.transaction() as tx:
            yield IdempotentRequest(tx, None, None)
        return
    until = monotonic() + WAIT_S
    async with _first_with_key(runtime, keyed):
        while True:
            async with runtime.transaction() as tx:
                if await store.try_hold(tx, keyed):
                    found = await store.find(tx, keyed, now=runtime.now())
                    if found is not None and found.fingerprint != keyed.fingerprint:
                        raise IdempotencyMismatch
                    if found is None or found.answer is not None or found.claim_age_s > CLAIM_S:
                        yield IdempotentRequest(tx, keyed, found)
                        return
            if monotonic() >= until:
                raise IdempotencyInFlight
            await real_sleep(POLL_S)


@contextlib.asynccontextmanager
async def _first_with_key(runtime: Runtime, keyed: KeyedRequest) -> AsyncIterator[None]:
    """Let only one of this process's requests with the same key query the database at a time.

    Raises IdempotencyInFlight after WAIT_S.
    """
    lock = runtime.key_locks.setdefault((keyed.user_id, keyed.key), asyncio.Lock())
    try:
        async with asyncio.timeout(WAIT_S):
            await lock.acquire()
    except TimeoutError as error:
        raise IdempotencyInFlight from error
    try:
        yield
    finally:
        lock.release()


async def purge(runtime: Runtime) -> None:
    """Sweep: delete idempotency keys whose answers are too old to be repeated."""
    await runtime.in_batches(store.purge, at_once=store.AT_ONCE)
