"""A running search as an invited mitra sees it: a chat request."""

from typing import Any, Literal

import attrs

from core.base.field_types import Mode, SessionId, Time
from core.sessions.sensitivity import Sensitivity
from core.storage.fragments import ACCOUNT, NAME
from core.storage.records import as_dict
from core.storage.transaction import Reader

# The open invitations of running searches.
_REQUESTS = f"""SELECT
  n.mitra_id,
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
ORDER BY n.notified_at DESC"""
OF_SESSION = f"""{_REQUESTS}
  AND n.session_id = $1
  AND n.mitra_id = ANY($2)"""


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


def _request(row: Any) -> tuple[str, ChatRequest]:
    """Return (mitra id, chat request) of a row."""
    values = as_dict(row)
    return values.pop("mitra_id"), ChatRequest(**values)


async def open_to(reader: Reader, mitra_id: str) -> list[ChatRequest]:
    """Return the chat requests that are open to a mitra, newest first."""
    return [_request(row)[1] for row in await reader.fetch(OF_MITRA, mitra_id)]


async def of_session(reader: Reader, session_id: str, mitra_ids: list[str]) -> dict[str, ChatRequest]:
    """Return mitra id -> the chat request of a session. A mitra without an open invitation is left out."""
    return dict(map(_request, await reader.fetch(OF_SESSION, session_id, mitra_ids)))
