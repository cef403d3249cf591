"""Reads of past sessions: a customer's by mitra, a mitra's one by one."""

import datetime as dt
from typing import Any

import attrs

from core.base.actor import Actor, UserType
from core.base.field_types import MitraId, SessionId
from core.base.pages import Items, Page, cut
from core.runtime.container import Runtime
from core.sessions import views
from core.sessions.rules import Closure, closures_for
from core.sessions.states import SessionStatus
from core.storage.records import as_dict

# The mitras of a customer's sessions, each with the last session. $1 are the customer's ids, $5 is now, and $6 the
# customer: after a block the mitra looks offline.
MITRAS_OF_CUSTOMER = f"""SELECT
  h.mitra_id,
  m.display_name,
  s.id AS last_session_id,
  h.last_session_at,
  s.topics,
  m.is_active AND coalesce(o.is_online, false) AND EXISTS (
    SELECT 1 FROM signed_in_mitras($5) AS i WHERE i.mitra_id = h.mitra_id
  ) AND NOT EXISTS (
    SELECT 1 FROM blocked_mitras($6) AS b WHERE b.mitra_id = h.mitra_id
  ) AS mitra_is_online,
  h.sessions_count,
  s.status,
  {views.CLOSURES}
FROM (
  SELECT
    p.mitra_id,
    max(p.paired_at) AS last_session_at,
    count(*)::int AS sessions_count,
    (array_agg(p.id ORDER BY p.paired_at DESC))[1] AS last_id
  FROM chat_sessions AS p
  WHERE p.customer_id = ANY($1) AND p.mitra_id IS NOT NULL
  GROUP BY p.mitra_id
) AS h
JOIN chat_sessions AS s ON s.id = h.last_id
JOIN mitras AS m ON m.id = h.mitra_id
LEFT JOIN mitra_online_status AS o ON o.mitra_id = h.mitra_id
WHERE $2::timestamptz IS NULL OR (h.last_session_at, h.mitra_id) < ($2, $3::uuid)
ORDER BY h.last_session_at DESC, h.mitra_id DESC
LIMIT $4"""
SESSIONS_OF_MITRA = f"""{views.VIEW}
WHERE s.mitra_id = $1 AND ($2::timestamptz IS NULL OR (s.created_at, s.id) < ($2, $3::uuid))
ORDER BY s.created_at DESC, s.id DESC
LIMIT $4"""


@attrs.frozen(kw_only=True)
class ChatHistoryRow:
    """A mitra from the customer's history. `topics` and `closures` are those of the last session with them."""

    mitra_id: MitraId
    display_name: str
    last_session_id: SessionId
    last_session_at: dt.datetime
    topics: list[str] | None
    mitra_is_online: bool
    sessions_count: int
    closures: list[Closure]


async def customer_history(runtime: Runtime, actor: Actor, page: Page) -> Items:
    """List the mitras of the caller's past sessions, the most recent first."""
    rows = await runtime.db.fetch(
        MITRAS_OF_CUSTOMER,
        list(actor.ids),
        page.before_at,
        page.before_id,
        page.limit + 1,
        runtime.now(),
        actor.user_id,
    )
    return cut([_history_row(row) for row in rows], page, at="last_session_at", tiebreak="mitra_id")


def _history_row(row: Any) -> ChatHistoryRow:
    values = as_dict(row)
    status, closures = SessionStatus(values.pop("status")), views.closures_in(values)
    return ChatHistoryRow(**values, closures=closures_for(UserType.CUSTOMER, closures, status))


async def mitra_history(runtime: Runtime, actor: Actor, page: Page) -> Items:
    """List the calling mitra's sessions, newest first."""
    rows = await runtime.db.fetch(
        SESSIONS_OF_MITRA,
        actor.user_id,
        page.before_at,
        page.before_id,
        page.limit + 1,
    )
    return cut([views.two_sided(row).seen_by(UserType.MITRA) for row in rows], page, at="created_at")
