"""Changes of an extension's status; core/sessions/extensions/extend.py makes them, with their effects.

The callers have locked the session, so each extension is resolved once.
"""

import datetime as dt

from core.base import ids
from core.sessions.extensions.states import EDGES, ExtensionStatus
from core.sessions.extensions.store import COLUMNS, Extension
from core.sessions.extensions.tables import SessionExtension as Extensions
from core.storage.statements import insert, p, statement, transition
from core.storage.transaction import Tx

E = ExtensionStatus
CREATE = statement(
    insert(
        Extensions,
        "id session_id requested_duration_minutes requested_price status requested_at answer_by responded_at "
        "payment_request_id",
    ).returning(*COLUMNS),
    Extension,
)
RESOLVE = {
    after: statement(
        transition(Extensions, EDGES, [E.PENDING], after, responded_at=p.now).returning(*COLUMNS), Extension
    )
    for after in set(ExtensionStatus) - {E.PENDING}
}


async def create(
    tx: Tx,
    *,
    session_id: str,
    payment_request_id: str,
    minutes: int,
    price: int,
    status: ExtensionStatus,
    answer_by: dt.datetime,
) -> Extension:
    """Insert an extension with the status pending or, if it can't be given, safeguard_tripped. `price` is in Rupiah."""
    return await CREATE.one(
        tx,
        id=ids.new_id(),
        session_id=session_id,
        requested_duration_minutes=minutes,
        requested_price=price,
        status=status,
        requested_at=tx.now,
        answer_by=answer_by,
        responded_at=None if status is E.PENDING else tx.now,
        payment_request_id=payment_request_id,
    )


async def resolve(tx: Tx, extension_id: str, status: ExtensionStatus) -> Extension | None:
    """Move a pending extension to a final status; return None if it has been resolved before."""
    return await RESOLVE[status].first(tx, id=extension_id, now=tx.now)
