"""Changes of an extension's status; core/steps/extend.py makes them, with their effects.

The callers have locked the session, so each extension is resolved once.
"""

import datetime as dt

from core.base import ids
from core.extensions.states import ExtensionStatus
from core.extensions.store import COLUMNS, Extension
from core.storage.database import Tx
from core.storage.records import one


async def create(
    tx: Tx, *, session_id: str, payment_request_id: str, minutes: int, price: int, status: ExtensionStatus, answer_by: dt.datetime
) -> Extension:  # fmt: skip
    """Insert an extension with the status pending or, if it can't be given, safeguard_tripped. `price` is in Rupiah."""
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
    """Move a pending extension to a final status; return None if it has been resolved before."""
    return one(
        Extension,
        await tx.fetchrow(
            f"""UPDATE session_extensions SET status = $2, responded_at = $3 WHERE id = $1 AND status = 'pending'
                RETURNING {COLUMNS}""",
            extension_id, status.value, tx.now,
        ),
    )  # fmt: skip
