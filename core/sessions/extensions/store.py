"""Reads of extensions."""

import datetime as dt
from collections.abc import Sequence

import attrs

from core.base.field_types import ExtensionId, PaymentRequestId, SessionId
from core.sessions.extensions.states import ExtensionStatus
from core.sessions.extensions.tables import SessionExtension as Extensions
from core.storage.records import many
from core.storage.statements import columns_of, names_of, p, statement
from core.storage.transaction import Reader


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


COLUMNS = columns_of(Extensions, Extension)
GET = statement(Extensions.select(*COLUMNS).where(Extensions.id == p.id), Extension)
OF_PAYMENT = statement(
    Extensions.select(*COLUMNS).where(Extensions.payment_request_id == p.payment_request_id), Extension
)
PENDING_OF = statement(
    Extensions.select(*COLUMNS).where(
        Extensions.session_id == p.session_id, Extensions.status == ExtensionStatus.PENDING
    ),
    Extension,
)
NAMES = names_of(Extension)
PENDING_OF_ALL = f"""SELECT {NAMES}
FROM session_extensions
WHERE session_id = ANY($1) AND status = 'pending'"""
COUNT_AGREED = """SELECT count(*)::int
FROM session_extensions
WHERE session_id = $1 AND is_earning(status)"""
AGREED = """SELECT responded_at, requested_duration_minutes
FROM session_extensions
WHERE session_id = $1 AND is_earning(status)
ORDER BY responded_at"""
DUE = f"""SELECT {NAMES}
FROM session_extensions
WHERE id IN (SELECT id FROM timed_work WHERE kind = 'extension' AND due_at <= $1)
ORDER BY answer_by
LIMIT $2"""


async def get(reader: Reader, extension_id: str) -> Extension | None:
    """Read an extension."""
    return await GET.first(reader, id=extension_id)


async def of_payment(reader: Reader, payment_request_id: str) -> Extension | None:
    """Read the extension that a payment request pays for."""
    return await OF_PAYMENT.first(reader, payment_request_id=payment_request_id)


async def pending_of(reader: Reader, session_id: str) -> Extension | None:
    """Read a session's pending extension; there is at most one."""
    return await PENDING_OF.first(reader, session_id=session_id)


async def pending_of_all(reader: Reader, session_ids: Sequence[str]) -> list[Extension]:
    """Read the pending extensions of sessions."""
    return many(Extension, await reader.fetch(PENDING_OF_ALL, session_ids)) if session_ids else []


async def agreed(reader: Reader, session_id: str) -> list[tuple[dt.datetime, int]]:
    """Return (when it was approved, its minutes) for each of a session's approved extensions, in order."""
    rows = await reader.fetch(AGREED, session_id)
    return [(row["responded_at"], row["requested_duration_minutes"]) for row in rows]


async def count_agreed(reader: Reader, session_id: str) -> int:
    """Count a session's extensions that were approved, by the mitra or by the default action."""
    return await reader.fetchval(COUNT_AGREED, session_id)


async def due(reader: Reader, *, now: dt.datetime, limit: int) -> list[Extension]:
    """Return pending extensions whose answer time is over, oldest first."""
    return many(Extension, await reader.fetch(DUE, now, limit))
