"""A request that happens once for its key: the first answer is committed with what it tells of (contract 2).

So no death between the two is possible: either the work and its answer are there, or neither.
"""

import contextlib
from collections.abc import AsyncIterator
from typing import TypeVar

import attrs
import msgspec

from core.base.clock import monotonic, real_sleep
from core.idempotency import store
from core.idempotency.rules import WAIT_S, IdempotencyInFlight, IdempotencyMismatch, Once
from core.runtime import Runtime
from core.storage.database import Tx

T = TypeVar("T")
POLL_S = 0.05


@attrs.define
class Turn:
    """The transaction of a request; `kept` is the first answer's JSON when this is a repeat."""

    tx: Tx
    once: Once | None
    kept: str | None

    def repeated(self, cls: type[T]) -> T | None:
        """The first answer, None when this is the first request."""
        return None if self.kept is None else msgspec.json.decode(self.kept, type=cls)

    async def keep(self, answer: object, *, http_status: int) -> None:
        """Keep the first answer, in the same transaction."""
        if self.once is not None:
            await store.keep(self.tx, self.once, http_status=http_status, answer=msgspec.json.encode(answer).decode())


@contextlib.asynccontextmanager
async def transaction(runtime: Runtime, once: Once | None) -> AsyncIterator[Turn]:
    """Open a write transaction that holds the key.

    Raises IdempotencyMismatch, and IdempotencyInFlight when the first request still runs after 5 s.
    """
    until = monotonic() + WAIT_S
    while True:
        async with runtime.transaction() as tx:
            if once is None or await store.try_hold(tx, once):
                found = None if once is None else await store.find(tx, once)
                if found is not None and once is not None and found.fingerprint != once.fingerprint:
                    raise IdempotencyMismatch
                yield Turn(tx, once, found.answer if found else None)
                return
        if monotonic() >= until:
            raise IdempotencyInFlight
        await real_sleep(POLL_S)
