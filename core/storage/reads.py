"""The interface that reads need; a transaction and the database both have it."""

from typing import Any, Protocol


class Reader(Protocol):
    """Runs SELECT statements."""

    async def fetch(self, sql: str, *args: Any) -> list[Any]: ...
    async def fetchrow(self, sql: str, *args: Any) -> Any: ...
    async def fetchval(self, sql: str, *args: Any) -> Any: ...
