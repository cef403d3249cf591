"""The errors of a database that is lost, unreachable or overloaded (docs/architecture.md#transactions)."""

import contextlib
from collections.abc import Iterator

import asyncpg

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
