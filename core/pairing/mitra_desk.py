"""Reads for a mitra at work: the chat requests that are open to them, their presence and their load."""

import datetime as dt

import attrs

from core.accounts.mitras.rules import MitraOffline
from core.base.actor import Actor
from core.pairing import chat_requests as requests
from core.pairing.chat_requests import ChatRequest
from core.runtime.container import Runtime
from core.runtime.transactions import translate_db_errors
from core.storage import sql_files

SQL = sql_files.load(__file__)


async def chat_requests(runtime: Runtime, actor: Actor) -> list[ChatRequest]:
    """List the chat requests that are open to the calling mitra, newest first."""
    with translate_db_errors():
        return await requests.open_to(runtime.db, actor.user_id)


@attrs.frozen(kw_only=True)
class MitraStatus:
    """The calling mitra's presence, and how many sessions they have and may have.

    `reachable_at` is when the mitra's last heartbeat within the time of a presence check came; null before the first
    one.
    """

    is_online: bool
    last_online_at: dt.datetime | None
    last_heartbeat_at: dt.datetime | None
    reachable_at: dt.datetime | None
    heartbeat_cadence_seconds: int
    active_session_count: int
    max_sessions: int


async def mitra_status(runtime: Runtime, actor: Actor) -> MitraStatus:
    """Return the calling mitra's presence and load."""
    with translate_db_errors():
        row = await runtime.db.fetchrow(SQL["mitra_status"], actor.user_id)
    if row is None:
        raise MitraOffline
    return MitraStatus(
        **dict(row),
        heartbeat_cadence_seconds=runtime.settings.mitra_heartbeat_cadence_seconds,
        max_sessions=runtime.config.number("max_customers_per_mitra"),
    )
