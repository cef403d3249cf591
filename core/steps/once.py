"""A request that happens once for its key: the first answer is committed with what it tells of (contract 2).

So no death between the two is possible: either the work and its answer are there, or neither. Where something outside
must be asked in between, the key keeps a claim on what was made: a repeat waits for whoever works on it, and takes the
work up when that one is dead.
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
    """The transaction of a request, and what its key has so far."""

    tx: Tx
    once: Once | None
    kept: Kept | None
    claimed_at: dt.datetime | None = None

    def repeated(self, cls: type[T]) -> T | None:
        """The first answer; None when there is none yet."""
        if self.kept is None or self.kept.answer is None:
            return None
        return msgspec.json.decode(self.kept.answer, type=cls)

    @property
    def unfinished(self) -> str | None:
        """What a request made whose process died before it had an answer."""
        return self.kept.resource_id if self.kept is not None and self.kept.answer is None else None

    async def keep(self, answer: object, *, http_status: int) -> None:
        """Keep the first answer, in the same transaction."""
        await kept(self.tx, self.once, answer, http_status=http_status)

    async def claim(self, resource_id: str) -> None:
        """Note what was made, in the same transaction; the answer follows."""
        if self.once is not None:
            self.claimed_at = await store.claim(self.tx, self.once, resource_id=resource_id)


async def kept(tx: Tx, once: Once | None, answer: object, *, http_status: int) -> None:
    """Keep the answer of a claimed key."""
    if once is not None:
        await store.keep(tx, once, http_status=http_status, answer=msgspec.json.encode(answer).decode())


async def forget(tx: Tx, turn: Turn) -> bool:
    """Give a claimed key free: refusals are not repeated. False when it is somebody else's by now: we stood still too long."""
    return turn.once is None or await store.forget(tx, turn.once, claimed_at=turn.claimed_at)


@contextlib.asynccontextmanager
async def transaction(runtime: Runtime, once: Once | None) -> AsyncIterator[Turn]:
    """Open a write transaction that holds the key.

    Raises IdempotencyMismatch, and IdempotencyInFlight when the first request still runs after 5 s.
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
    """Let one of this process's requests with the same key ask the database at a time; the others wait here.

    Raises IdempotencyInFlight after 5 s.
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
