"""Writes and reads of extensions. Their session is locked by the caller, so each is resolved once."""

import datetime as dt

import attrs

from core.base import ids
from core.extensions.states import ExtensionStatus
from core.storage.database import Tx
from core.storage.reads import Reader
from core.storage.records import many, one

COLUMNS = """id, session_id, requested_duration_minutes, requested_price, status, requested_at, answer_by, responded_at,
  payment_request_id"""


@attrs.frozen(kw_only=True)
class Extension:
    """A row of session_extensions."""

    id: str
    session_id: str
    requested_duration_minutes: int
    requested_price: int
    status: ExtensionStatus = attrs.field(converter=ExtensionStatus)
    requested_at: dt.datetime
    answer_by: dt.datetime
    responded_at: dt.datetime | None
    payment_request_id: str


async def get(reader: Reader, extension_id: str) -> Extension | None:
    """Read an extension."""
    return one(
        Extension, await reader.fetchrow(f"SELECT {COLUMNS} FROM session_extensions WHERE id = $1", extension_id)
    )


async def of_payment(reader: Reader, payment_request_id: str) -> Extension | None:
    """Read the extension that a payment asked for."""
    sql = f"SELECT {COLUMNS} FROM session_extensions WHERE payment_request_id = $1"
    return one(Extension, await reader.fetchrow(sql, payment_request_id))


async def pending_of(reader: Reader, session_id: str) -> Extension | None:
    """Read the one pending extension of a session."""
    sql = f"SELECT {COLUMNS} FROM session_extensions WHERE session_id = $1 AND status = 'pending'"
    return one(Extension, await reader.fetchrow(sql, session_id))


async def pending_of_all(reader: Reader, session_ids: list[str]) -> list[Extension]:
    """Read the pending extensions of sessions."""
    if not session_ids:
        return []
    sql = f"SELECT {COLUMNS} FROM session_extensions WHERE session_id = ANY($1) AND status = 'pending'"
    return many(Extension, await reader.fetch(sql, session_ids))


async def count_agreed(reader: Reader, session_id: str) -> int:
    """Count the extensions of a session that were approved, by the mitra or by silence."""
    sql = (
        "SELECT count(*)::int FROM session_extensions WHERE session_id = $1 AND status IN ('approved', 'auto_approved')"
    )
    return await reader.fetchval(sql, session_id)


async def create(
    tx: Tx, *, session_id: str, payment_request_id: str, minutes: int, price: int, status: ExtensionStatus, answer_by: dt.datetime
) -> Extension:  # fmt: skip
    """Insert an extension: pending, or tripped at once."""
    row = await tx.fetchrow(
        f"""INSERT INTO session_extensions (id, session_id, requested_duration_minutes, requested_price, status, requested_at,
              answer_by, responded_at, payment_request_id) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) RETURNING {COLUMNS}""",
        ids.new_id(), session_id, minutes, price, status.value, tx.now, answer_by,
        None if status is ExtensionStatus.PENDING else tx.now, payment_request_id,
    )  # fmt: skip
    found = one(Extension, row)
    assert found is not None
    return found


async def resolve(tx: Tx, extension_id: str, status: ExtensionStatus) -> Extension | None:
    """pending -> one of the ends; None when it was resolved before."""
    return one(
        Extension,
        await tx.fetchrow(
            f"""UPDATE session_extensions SET status = $2, responded_at = $3 WHERE id = $1 AND status = 'pending'
                RETURNING {COLUMNS}""",
            extension_id, status.value, tx.now,
        ),
    )  # fmt: skip


async def due(reader: Reader, *, now: dt.datetime, limit: int) -> list[Extension]:
    """Pending extensions whose time to answer is over."""
    sql = f"SELECT {COLUMNS} FROM session_extensions WHERE status = 'pending' AND answer_by <= $1 ORDER BY answer_by LIMIT $2"
    return many(Extension, await reader.fetch(sql, now, limit))
