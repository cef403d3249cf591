"""Open a write transaction, and publish what it brings after its commit (docs/architecture.md#transactions)."""

import contextlib
import datetime as dt
from collections.abc import AsyncIterator, Callable

from core.runtime.publishing import Publisher
from core.storage.database import Database
from core.storage.transaction import Port, Tx
from core.telemetry import traces


@contextlib.asynccontextmanager
async def open_transaction(
    db: Database, clock: Callable[[], dt.datetime], publisher: Publisher, port: Port
) -> AsyncIterator[Tx]:
    """Open a write transaction. After its commit, count its changes and publish its frames and signals.

    `clock` returns service time; `port` is what the domains above do in it. Raises Unavailable if the database does not
    answer, is overloaded, or keeps the transaction waiting for a lock too long.
    """
    with traces.span_below("transaction"):
        async with db.transaction(clock) as tx:
            tx.port = port
            yield tx
    for count in tx.counts:
        count()
    publisher.publish_frames(tx.outgoing)
    for emitted in tx.signals:
        publisher.publish_signal(emitted)
