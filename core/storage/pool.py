"""The pool of connections. Every connection has its own timeouts, so that a frozen server, a held lock or a killed process
blocks others only briefly (docs/architecture.md#transactions).
"""

import asyncio
import contextlib
from typing import Any

import asyncpg
import msgspec

from core.storage.errors import TRANSIENT_ERRORS, lost_as_such

GIVE_BACK_S = 1.0
ROLLBACK_S = 1.0
COMMAND_TIMEOUT_S = 4.5  # above statement_timeout, so that the server's own error comes first
SERVER_SETTINGS = {
    "application_name": "sesi",
    "timezone": "UTC",
    "statement_timeout": "4000",
    "lock_timeout": "3000",
    "idle_in_transaction_session_timeout": "8000",
    "jit": "off",
}


def _encode_json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


async def set_up(connection: asyncpg.Connection) -> None:
    """Make asyncpg convert jsonb columns to and from Python values."""
    await connection.set_type_codec("jsonb", encoder=_encode_json, decoder=msgspec.json.decode, schema="pg_catalog")


async def _reset(connection: asyncpg.Connection) -> None:
    """Clean a connection for the pool. We change no session settings, so only an open transaction can be left over."""
    if connection.is_in_transaction():
        await connection.execute("ROLLBACK")


def drop(connection: Any) -> None:
    """Close a connection at once, without waiting for the server. Ignore one that is closed already."""
    with contextlib.suppress(asyncpg.InterfaceError):
        connection.terminate()


async def open_pool(connect: Any, *, size: int, least: int, settings: dict[str, str]) -> asyncpg.Pool:
    """Open a pool of `least` to `size` connections, which `connect` makes, with the server's `settings`."""
    with lost_as_such():
        return await asyncpg.create_pool(
            connect=connect,
            min_size=least,
            max_size=size,
            init=set_up,
            reset=_reset,
            command_timeout=COMMAND_TIMEOUT_S,
            server_settings=settings,
            max_inactive_connection_lifetime=60,
        )


async def give_back(pool: asyncpg.Pool, connection: Any) -> None:
    """Return a connection to the pool. Ignore errors: the pool replaces a broken one, and its work is done."""
    with contextlib.suppress(Exception):
        await asyncio.shield(pool.release(connection, timeout=GIVE_BACK_S))


async def roll_back(connection: Any) -> None:
    """Roll back.

    If the server does not answer within ROLLBACK_S, drop the connection: the server then rolls back.
    """
    try:
        with lost_as_such():
            await connection.execute("ROLLBACK", timeout=ROLLBACK_S)
    except (TimeoutError, asyncio.CancelledError) as error:
        drop(connection)
        if isinstance(error, asyncio.CancelledError):
            raise
    except TRANSIENT_ERRORS:
        pass
