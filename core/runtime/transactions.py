"""Open a write transaction, and turn errors of an unreachable database into Unavailable
(docs/architecture.md#transactions)."""

import contextlib
import datetime as dt
from collections.abc import AsyncIterator, Callable, Iterator

from core.base.errors import Unavailable
from core.runtime.publishing import Publisher
from core.storage.database import Database
from core.storage.errors import TRANSIENT_ERRORS
from core.storage.transaction import Port, Tx
from core.telemetry import logs, traces

log = logs.get("runtime")


@contextlib.contextmanager
def translate_db_errors() -> Iterator[None]:
    """Turn all errors of an unreachable or overloaded database into Unavailable (503)."""
    try:
        yield
    except TRANSIENT_ERRORS as error:
        log.warning("the database did not answer", error=type(error).__name__)
        raise Unavailable from error


@contextlib.asynccontextmanager
async def open_transaction(
    db: Database, clock: Callable[[], dt.datetime], publisher: Publisher, port: Port
) -> AsyncIterator[Tx]:
    """Open a write transaction. After its commit, count its changes and publish its frames and signals.

    `clock` returns service time; `port` is what the domains above do in it. Raises Unavailable if the database does not
    answer, is overloaded, or keeps the transaction waiting for a lock too long.
    """
    with traces.span_below("transaction"), translate_db_errors():
        async with db.transaction(clock) as tx:
            tx.port = port
            yield tx
    for count in tx.counts:
        count()
    publisher.publish_frames(tx.outgoing)
    for emitted in tx.signals:
        publisher.publish_signal(emitted)
