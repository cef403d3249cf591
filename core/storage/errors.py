"""The errors of a database that is lost, unreachable or overloaded (docs/architecture.md#transactions).

The pools of a process raise Unavailable for all of them, so no reader of rows has to know them.
"""

import contextlib
from collections.abc import Iterator

import asyncpg

from core.base.errors import Unavailable
from core.telemetry import logs, metrics

log = logs.get("database")

# The connection is lost, or no server accepts one. A read, or the start of a transaction, may be retried.
CONNECTION_ERRORS = (
    OSError,
    asyncpg.PostgresConnectionError,
    asyncpg.InternalClientError,  # the server closed the connection just as the statement was sent
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
)
# All errors of a database that is unreachable or overloaded.
TRANSIENT_ERRORS = (
    *CONNECTION_ERRORS,
    TimeoutError,
    asyncpg.QueryCanceledError,
    asyncpg.LockNotAvailableError,
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
    asyncpg.InsufficientResourcesError,  # disk full, out of memory, too many connections, or a configured limit
    asyncpg.PostgresSystemError,  # its disk fails
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.ReadOnlySQLTransactionError,
)
# Errors of a host that is dead, silent, starting or stopping. Other errors, such as a wrong password, are answers.
UNREACHABLE = (*CONNECTION_ERRORS, TimeoutError, asyncpg.InterfaceError)
# asyncpg raises InterfaceError for mistakes of the caller, such as a wrong number of arguments. With these texts it
# means that the connection was lost before the statement was sent.
CLOSED = ("connection is closed", "pool is closing", "pool is closed", "connection has been released back to the pool")


@contextlib.contextmanager
def lost_as_such() -> Iterator[None]:
    """Turn the InterfaceError of a closed connection into ConnectionDoesNotExistError, one of CONNECTION_ERRORS."""
    try:
        yield
    except asyncpg.InterfaceError as error:
        if any(words in str(error) for words in CLOSED):
            raise asyncpg.ConnectionDoesNotExistError(str(error)) from error
        raise


@contextlib.contextmanager
def as_unavailable() -> Iterator[None]:
    """Turn every error of an unreachable or overloaded database into Unavailable, which has it as its cause."""
    try:
        yield
    except TRANSIENT_ERRORS as error:
        log.warning("the database did not answer", error=type(error).__name__)
        metrics.DATABASE_REFUSALS.labels(getattr(error, "sqlstate", None) or "none").inc()
        raise Unavailable from error
