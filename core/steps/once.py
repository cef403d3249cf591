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
from core.idempotency.rules import CLAIM_S, WAIT_S, IdempotencyInFlight, IdempotencyMismatch, Once
from core.idempotency.store import Kept
from core.runtime import Runtime
from core.storage.database import Tx

T = TypeVar("T")
POLL_S = 0.05


@attrs.define
class Turn:
    """The transaction of an idempotent request, and what is stored for its key.

    Without a key `once` is None. `kept` is the stored row, None for the first request. `claimed_at` is set by `claim`.
    """

    tx: Tx
    once: Once | None
    kept: Kept | None
    claimed_at: dt.datetime | None = None

    def repeated(self, cls: type[T]) -> T | None:
        """Return the stored answer of the first request; None without one."""
        if self.kept is None or self.kept.answer is None:
            return None
        return msgspec.json.decode(self.kept.answer, type=cls)

    @property
    def unfinished(self) -> str | None:
        """The id of the resource that an earlier request created before its process died; None otherwise."""
        return self.kept.resource_id if self.kept is not None and self.kept.answer is None else None

    async def keep(self, answer: object, *, http_status: int) -> None:
        """Store the first answer, in the same transaction."""
        await kept(self.tx, self.once, answer, http_status=http_status)

    async def claim(self, resource_id: str) -> None:
        """Store the id of the resource that was created, in the same transaction. The answer follows later."""
        if self.once is not None:
            self.claimed_at = await store.claim(self.tx, self.once, resource_id=resource_id)


async def kept(tx: Tx, once: Once | None, answer: object, *, http_status: int) -> None:
    """Store the answer for a key. Without a key nothing is stored."""
    if once is not None:
        await store.keep(tx, once, http_status=http_status, answer=msgspec.json.encode(answer).decode())


async def forget(tx: Tx, turn: Turn) -> bool:
    """Release a claimed key so that the request can be retried.

    Return False if another process has taken over the claim since, because this one was too slow.
    """
    return turn.once is None or await store.forget(tx, turn.once, claimed_at=turn.claimed_at)


@contextlib.asynccontextmanager
async def transaction(runtime: Runtime, once: Once | None) -> AsyncIterator[Turn]:
    """Open a write transaction that holds the key.

    Raises IdempotencyMismatch if the key was used with another body, and IdempotencyInFlight if the first request is
    still running after WAIT_S.
    """
    if once is None:
        async with runtime.transaction() as tx:
            yield Turn(tx, None, None)
        return
    until = monotonic() + WAIT_S
    async with _first_in_line(runtime, once):
        while True:
            async with runtime.transaction() as tx:
                if await store.try_hold(tx, once):
                    found = await store.find(tx, once, now=runtime.now())
                    if found is not None and found.fingerprint != once.fingerprint:
                        raise IdempotencyMismatch
                    if found is None or found.answer is not None or found.claim_age_s > CLAIM_S:
                        yield Turn(tx, once, found)
                        return
            if monotonic() >= until:
                raise IdempotencyInFlight
            await real_sleep(POLL_S)


@contextlib.asynccontextmanager
async def _first_in_line(runtime: Runtime, once: Once) -> AsyncIterator[None]:
    """Let only one of this process's requests with the same key query the database at a time.

    Raises IdempotencyInFlight after WAIT_S.
    """
    lock = runtime.lines.setdefault((once.user_id, once.key), asyncio.Lock())
    try:
        async with asyncio.timeout(WAIT_S):
            await lock.acquire()
    except TimeoutError as error:
        raise IdempotencyInFlight from error
    try:
        yield
    finally:
        lock.release()
