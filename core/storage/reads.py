"""What a read needs: a transaction or the database, it is all the same to it."""

from typing import Any, Protocol


class Reader(Protocol):
    """Runs reading statements."""

    async def fetch(self, sql: str, *args: Any) -> list[Any]: ...
    async def fetchrow(self, sql: str, *args: Any) -> Any: ...
    async def fetchval(self, sql: str, *args: Any) -> Any: ...
