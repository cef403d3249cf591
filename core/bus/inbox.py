"""The development inbox: a list in Redis of what the service sends to people and exchanges with the gateway.

It holds codes and tokens in the clear, so it does not exist in production.
"""

import asyncio
import datetime as dt
import enum
from collections.abc import Callable, Coroutine
from typing import Any

import attrs
import msgspec
import redis.asyncio as redis_asyncio
from redis.exceptions import RedisError

from core.base import ids
from core.base.clock import as_text
from core.base.errors import Unavailable
from core.telemetry import logs

LIST = "sesi:inbox"
KEPT = 200  # items
KEPT_S = 86_400  # real seconds after the newest item
DEADLINE_S = 1.0
LOST = (RedisError, OSError, TimeoutError)
log = logs.get("inbox")


class InboxKind(enum.StrEnum):
    """What an item is."""

    CODE = "code"
    PUSH = "push"
    INVOICE = "invoice"
    WEBHOOK = "webhook"


@attrs.frozen(kw_only=True)
class InboxItem:
    """Something that the service sent or received.

    `to` is the phone number of a code, the push token of a push, the customer's id of an invoice, and the external id
    of a webhook call.
    """

    id: str
    at: str
    kind: InboxKind
    to: str
    text: str
    data: dict[str, Any]


class DevelopmentInbox:
    """Adds items to the list that all processes share, and reads it."""

    def __init__(
        self,
        client_of: Callable[[str], redis_asyncio.Redis],
        *,
        now: Callable[[], dt.datetime],
        follow: Callable[[Coroutine[Any, Any, None]], Any],
    ) -> None:
        """`client_of` returns the client for a key; `follow` starts work that no request waits for."""
        self._client_of = client_of
        self._now = now
        self._follow = follow
        self._unwritten: list[bytes] = []

    def add(self, kind: InboxKind, *, to: str, text: str, **data: Any) -> None:
        """Add an item without waiting. It is lost if Redis does not answer."""
        item = InboxItem(id=ids.new_id(), at=as_text(self._now()), kind=kind, to=to, text=text, data=data)
        self._unwritten.append(msgspec.json.encode(item))
        if len(self._unwritten) == 1:
            self._follow(self._write())

    async def _write(self) -> None:
        """Write the items of this event loop iteration in one call."""
        items, self._unwritten = self._unwritten, []
        try:
            async with asyncio.timeout(DEADLINE_S):
                pipeline = self._client_of(LIST).pipeline(transaction=True)
                pipeline.lpush(LIST, *items)
                pipeline.ltrim(LIST, 0, KEPT - 1)
                pipeline.expire(LIST, KEPT_S)
                await pipeline.execute()
        except LOST as error:
            log.warning("the development inbox lost items", items=len(items), error=type(error).__name__)

    async def newest(self) -> list[InboxItem]:
        """Return the newest KEPT items, newest first. Raises Unavailable if Redis does not answer."""
        try:
            async with asyncio.timeout(DEADLINE_S):
                found = await self._client_of(LIST).lrange(LIST, 0, -1)
        except LOST as error:
            raise Unavailable from error
        return sorted((msgspec.json.decode(item, type=InboxItem) for item in found), key=lambda i: i.at, reverse=True)
