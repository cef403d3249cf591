"""Send a changed name to the other party of each open chat (docs/product.md#names-and-privacy)."""

import contextlib
from collections.abc import AsyncIterator, Sequence

from core.base.actor import UserType
from core.base.field_types import SessionId
from core.deliveries import events
from core.deliveries import store as deliveries
from core.sessions import views
from core.sessions.events import PeerRenamed
from core.sessions.states import OPEN, UNENDED
from core.storage.transaction import Tx

# A search becomes a chat while its lock is awaited, so it is locked as well.
LOCK_UNENDED = """SELECT id::text
FROM chat_sessions
WHERE {} = ANY($1::uuid[]) AND status = ANY($2)
ORDER BY id
FOR NO KEY UPDATE"""
LOCK_UNENDED_OF_CUSTOMERS, LOCK_UNENDED_OF_MITRAS = (LOCK_UNENDED.format(side) for side in ("customer_id", "mitra_id"))


async def _lock_unended(tx: Tx, party_ids: Sequence[str], side: UserType) -> list[str]:
    """Lock the sessions of customers or mitras that have not ended, searches included; return their ids."""
    query = LOCK_UNENDED_OF_MITRAS if side is UserType.MITRA else LOCK_UNENDED_OF_CUSTOMERS
    return [row["id"] for row in await tx.fetch(query, party_ids, sorted(UNENDED))]


@contextlib.asynccontextmanager
async def watched(tx: Tx, party_ids: Sequence[str], side: UserType) -> AsyncIterator[None]:
    """Compare the names of customers or mitras in their chats before and after a change, and send those that differ.

    The sessions are locked, so that a chat that begins at the same moment shows the new name. The caller must hold the
    locks of the customers' or mitras' rows, and none of a later rank.
    """
    locked = await _lock_unended(tx, party_ids, side)
    before = await _names(tx, locked, side)
    yield
    after = await _names(tx, locked, side)
    changed = {one: (name, other) for one, (name, other) in after.items() if name not in (None, before[one][0])}
    if changed:
        await _send(tx, changed, _opposite(side))


async def _names(tx: Tx, session_ids: list[str], side: UserType) -> dict[SessionId, tuple[str | None, str]]:
    """Return open session -> (the party's name as the other one sees it, the other one's id)."""
    found = {}
    for two in await views.by_ids(tx, session_ids) if session_ids else []:
        view = two.seen_by(_opposite(side))
        if view.mitra is not None and view.status in OPEN:
            mitra_named = side is UserType.MITRA
            own, other = (view.mitra, view.customer) if mitra_named else (view.customer, view.mitra)
            found[view.id] = own.display_name, other.id
    return found


async def _send(tx: Tx, changed: dict[SessionId, tuple[str, str]], recipient_type: UserType) -> None:
    """Send the other parties of sessions the new names. Only the newest unacknowledged name of a session is kept."""
    await deliveries.forget(
        tx, sorted({other for _, other in changed.values()}), PeerRenamed.type_name(), session_ids=list(changed)
    )
    notices = []
    for session_id, (name, other) in changed.items():
        event = PeerRenamed(session_id=session_id, display_name=name)
        notices += await events.notices(tx, event, [other], recipient_type, session_id=session_id)
    await deliveries.add(tx, notices)


def _opposite(side: UserType) -> UserType:
    return UserType.CUSTOMER if side is UserType.MITRA else UserType.MITRA
