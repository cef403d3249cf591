"""Kept connections for statements of tests: a connection costs PostgreSQL a process, 10 ms of CPU.

They live in a thread with an event loop, because each test has another loop. A connection runs one statement at a time;
a concurrent one opens another connection.
"""

import asyncio
import re
import threading
from typing import Any

import asyncpg

LEAVES_STATE = (
    r"\b(?:pg_\w*advisory\w*|set_config|pg_sleep|nextval|pg_reload_conf|pg_\w+_backend|pg_switch_wal|pg_logical\w*)\b"
)
READ = re.compile(rf"\s*SELECT\b(?!.*{LEAVES_STATE})", re.I | re.S)  # changes nothing, and leaves no state behind
WRITE = re.compile(rf"\s*(?:INSERT|UPDATE|DELETE)\b(?!.*{LEAVES_STATE})(?!.*;\s*\S)", re.I | re.S)  # one, without state
LOST = (asyncpg.InterfaceError, asyncpg.PostgresConnectionError, asyncpg.AdminShutdownError, asyncpg.CrashShutdownError)


class Looks:
    """The connection of one service's tests to its database."""

    _loop: asyncio.AbstractEventLoop | None = None  # of all

    def __init__(self, url: str) -> None:
        self.url = url
        self._kept: asyncpg.Connection | None = None
        self._is_closed = False

    @classmethod
    def _running(cls) -> asyncio.AbstractEventLoop:
        if cls._loop is None:
            cls._loop = asyncio.new_event_loop()
            threading.Thread(target=cls._loop.run_forever, name="looks", daemon=True).start()
        return cls._loop

    async def fetch(self, statement: str, *args: Any) -> list[Any]:
        """Run a READ or a WRITE, and return its rows. A READ may run twice if its connection was lost."""
        return await asyncio.wrap_future(
            asyncio.run_coroutine_threadsafe(self._fetch(statement, args), self._running())
        )

    async def _fetch(self, statement: str, args: tuple[Any, ...]) -> list[Any]:
        kept, self._kept = self._kept, None
        if kept is not None and not kept.is_closed():
            try:
                return await self._run(kept, statement, args)
            except (*LOST, OSError):  # the server was stopped or killed since
                if not READ.match(statement):
                    raise
        return await self._run(await asyncpg.connect(self.url), statement, args)

    async def _run(self, connection: asyncpg.Connection, statement: str, args: tuple[Any, ...]) -> list[Any]:
        """Run a statement and keep the connection if it is still good and no other one is kept."""
        is_good = False
        try:
            rows = await connection.fetch(statement, *args)
            is_good = True
            return rows
        finally:
            if is_good and self._kept is None and not self._is_closed:
                self._kept = connection
            else:
                connection.terminate()

    def close(self) -> None:
        """Close the connection."""

        def end() -> None:
            self._is_closed = True
            if self._kept is not None:
                self._kept.terminate()

        if self._loop is not None:
            self._loop.call_soon_threadsafe(end)
