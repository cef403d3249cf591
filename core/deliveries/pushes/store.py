"""Writes of pushes.

A process claims a push while it sends it, and deletes it when the provider has taken or refused it.
"""

import datetime as dt
from typing import Any

import attrs

from core.base import ids
from core.storage import sql_files
from core.storage.database import Database
from core.storage.records import many
from core.storage.transaction import Tx

HOLD_S = 20.0  # real time of a claim, longer than a try can take: after it, the process that claimed the push is dead


@attrs.frozen(kw_only=True)
class Push:
    """A push that this process has claimed. It is useless after `expires_real_at`.

    `is_wanted` is False once the user has signed out on the device, or another user has registered its push token. The
    push about the end of the device's auth session (a farewell) is wanted until its token is registered again.
    """

    id: str
    auth_session_id: str
    push_token: str = attrs.field(repr=False)
    content: dict[str, str]
    urgent: bool
    attempts: int
    is_wanted: bool
    expires_real_at: dt.datetime


@attrs.frozen(kw_only=True)
class Planned:
    """A new push for one device. `ttl` is in real time."""

    auth_session_id: str
    push_token: str = attrs.field(repr=False)
    content: dict[str, Any]
    urgent: bool
    ttl: dt.timedelta
    is_farewell: bool = False


SQL = sql_files.load(__file__)


async def add(tx: Tx, planned: list[Planned]) -> None:
    """Store pushes that are due now."""
    if not planned:
        return
    await tx.execute(
        SQL["add"],
        [ids.new_id() for _ in planned],
        [one.auth_session_id for one in planned],
        [one.push_token for one in planned],
        [one.content for one in planned],
        [one.urgent for one in planned],
        [one.ttl for one in planned],
        [one.is_farewell for one in planned],
    )


async def claim(db: Database, *, limit: int) -> list[Push]:
    """Claim due pushes for HOLD_S, so that no other process sends them. Claim only as many as can be sent at once."""
    return many(Push, await db.fetch(SQL["claim"], limit, HOLD_S))


async def done(tx: Tx, push_ids: list[str]) -> None:
    """Delete pushes, because the provider has taken them or will never take them."""
    await tx.execute(SQL["done"], push_ids)


async def again(tx: Tx, push_id: str, *, after_s: float) -> bool:
    """Retry a push after `after_s` seconds of real time. If it is useless by then, delete it and return False."""
    if await tx.execute(SQL["drop_useless"], push_id, after_s):
        return False
    await tx.execute(SQL["again"], push_id, after_s)
    return True
