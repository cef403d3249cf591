"""What a mitra at work sees: the chat requests that are open to them, their presence and their load."""

import datetime as dt
from typing import Literal

import attrs

from core.accounts.mitras.rules import MitraOffline
from core.base.actor import Actor
from core.base.field_types import Mode, SessionId, Time
from core.runtime.container import Runtime
from core.sessions.sensitivity import Sensitivity
from core.storage import sql_files
from core.storage.fragments import ACCOUNT, NAME, OLDEST_SEARCH
from core.storage.records import many, one
from core.storage.transaction import Reader

SQL = sql_files.load(__file__)
# The open invitations of running searches.
_REQUESTS = f"""SELECT
  s.id AS session_id,
  {NAME} AS customer_display_name,
  s.mode,
  s.topics,
  s.topic_sensitivity,
  s.duration_minutes,
  CASE WHEN s.targeted_mitra_id IS NULL THEN 'blast' ELSE 'targeted' END AS kind,
  n.notified_at,
  n.answer_by
FROM chat_request_notifications AS n
JOIN chat_sessions AS s ON s.id = n.session_id
JOIN customers AS c ON c.id = s.customer_id
{ACCOUNT}
WHERE
  n.response IS NULL
  AND s.status = 'searching'"""
OF_MITRA = f"""{_REQUESTS}
  AND n.mitra_id = $1
  AND n.session_id >= {OLDEST_SEARCH}
ORDER BY n.notified_at DESC"""
OF_SESSION = f"""{_REQUESTS}
  AND n.session_id = $1
  AND n.mitra_id = $2"""


@attrs.frozen(kw_only=True)
class ChatRequest:
    """A chat request that is open to a mitra."""

    session_id: SessionId
    customer_display_name: str | None
    mode: Mode
    topics: list[str] | None
    topic_sensitivity: Sensitivity = attrs.field(converter=Sensitivity)
    duration_minutes: int
    kind: Literal["blast", "targeted"]
    notified_at: Time
    answer_by: Time


async def open_to(reader: Reader, mitra_id: str) -> list[ChatRequest]:
    """Return the chat requests that are open to a mitra, newest first."""
    return many(ChatRequest, await reader.fetch(OF_MITRA, mitra_id))


async def of_session(reader: Reader, session_id: str, mitra_id: str) -> ChatRequest | None:
    """Return the chat request of a running search; None if it is not open to the mitra."""
    return one(ChatRequest, await reader.fetchrow(OF_SESSION, session_id, mitra_id))


async def chat_requests(runtime: Runtime, actor: Actor) -> list[ChatRequest]:
    """List the chat requests that are open to the calling mitra, newest first."""
    return await open_to(runtime.db, actor.user_id)


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
    """Return the calling mitra's presence and load. Raises MitraOffline for a mitra without a row of presence."""
    row = await runtime.db.fetchrow(SQL["mitra_status"], actor.user_id)
    if row is None:
        raise MitraOffline
    return MitraStatus(
        **dict(row),
        heartbeat_cadence_seconds=runtime.settings.mitra_heartbeat_cadence_seconds,
        max_sessions=runtime.config.number("max_customers_per_mitra"),
    )
