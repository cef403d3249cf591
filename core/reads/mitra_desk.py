"""Reads for a mitra at work: the chat requests that are open to them, their presence and their load."""

import datetime as dt
from typing import Literal

import attrs

from core.base.actor import Actor
from core.base.field_types import Mode, SessionId, Time
from core.mitras.rules import MitraOffline
from core.runtime import Runtime
from core.sessions.sensitivity import Sensitivity
from core.steps.announce import REQUESTS
from core.storage import sql_files
from core.storage.records import as_dict
from core.transactions import translate_db_errors

SQL = sql_files.load(__file__)
REQUESTS_OF_MITRA = f"""{REQUESTS}
  AND n.mitra_id = $1
ORDER BY n.notified_at DESC"""


@attrs.frozen(kw_only=True)
class ChatRequest:
    """A chat request that is open to the calling mitra."""

    session_id: SessionId
    customer_display_name: str | None
    mode: Mode
    topics: list[str] | None
    topic_sensitivity: Sensitivity = attrs.field(converter=Sensitivity)
    duration_minutes: int
    kind: Literal["blast", "targeted"]
    notified_at: Time
    answer_by: Time


async def chat_requests(runtime: Runtime, actor: Actor) -> list[ChatRequest]:
    """List the chat requests that are open to the calling mitra, newest first."""
    with translate_db_errors():
        rows = await runtime.db.fetch(REQUESTS_OF_MITRA, actor.user_id)
    return [ChatRequest(**{k: v for k, v in as_dict(row).items() if k != "mitra_id"}) for row in rows]


@attrs.frozen(kw_only=True)
class MitraStatus:
    """The calling mitra's presence, and how many sessions they have and may have."""

    is_online: bool
    last_online_at: dt.datetime | None
    last_heartbeat_at: dt.datetime | None
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
