"""A running search as an invited mitra sees it: a chat request."""

from typing import Literal

import attrs

from core.base.field_types import Mode, SessionId, Time
from core.sessions.sensitivity import Sensitivity
from core.storage.fragments import ACCOUNT, NAME, OLDEST_SEARCH
from core.storage.records import many, one
from core.storage.transaction import Reader

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
