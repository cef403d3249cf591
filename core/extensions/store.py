"""Reads of extensions."""

import datetime as dt
from collections.abc import Sequence

import attrs

from core.base.field_types import ExtensionId, PaymentRequestId, SessionId
from core.extensions.states import ExtensionStatus
from core.storage.reads import Reader
from core.storage.records import many, one

COLUMNS = """id, session_id, requested_duration_minutes, requested_price, status, requested_at, answer_by, responded_at,
  payment_request_id"""


@attrs.frozen(kw_only=True)
class Extension:
    """A row of session_extensions."""

    id: ExtensionId
    session_id: SessionId
    requested_duration_minutes: int
    requested_price: int
    status: ExtensionStatus = attrs.field(converter=ExtensionStatus)
    requested_at: dt.datetime
    answer_by: dt.datetime
    responded_at: dt.datetime | None
    payment_request_id: PaymentRequestId | None


async def get(reader: Reader, extension_id: str) -> Extension | None:
    """Read an extension."""
    return one(
        Extension, await reader.fetchrow(f"SELECT {COLUMNS} FROM session_extensions WHERE id = $1", extension_id)
    )


async def of_payment(reader: Reader, payment_request_id: str) -> Extension | None:
    """Read the extension that a payment request pays for."""
    sql = f"SELECT {COLUMNS} FROM session_extensions WHERE payment_request_id = $1"
    return one(Extension, await reader.fetchrow(sql, payment_request_id))


async def pending_of(reader: Reader, session_id: str) -> Extension | None:
    """Read a session's pending extension; there is at most one."""
    sql = f"SELECT {COLUMNS} FROM session_extensions WHERE session_id = $1 AND status = 'pending'"
    return one(Extension, await reader.fetchrow(sql, session_id))


async def pending_of_all(reader: Reader, session_ids: Sequence[str]) -> list[Extension]:
    """Read the pending extensions of sessions."""
    if not session_ids:
        return []
    sql = f"SELECT {COLUMNS} FROM session_extensions WHERE session_id = ANY($1) AND status = 'pending'"
    return many(Extension, await reader.fetch(sql, session_ids))


async def count_agreed(reader: Reader, session_id: str) -> int:
    """Count a session's extensions that were approved, by the mitra or by the default action."""
    sql = (
        "SELECT count(*)::int FROM session_extensions WHERE session_id = $1 AND status IN ('approved', 'auto_approved')"
    )
    return await reader.fetchval(sql, session_id)


async def due(reader: Reader, *, now: dt.datetime, limit: int) -> list[Extension]:
    """Return pending extensions whose answer time is over, oldest first."""
    sql = f"SELECT {COLUMNS} FROM session_extensions WHERE status = 'pending' AND answer_by <= $1 ORDER BY answer_by LIMIT $2"
    return many(Extension, await reader.fetch(sql, now, limit))
