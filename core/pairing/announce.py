"""Announce the events of core/pairing/events.py to customers and mitras (docs/events.md)."""

from collections.abc import Sequence

from msgspec import UNSET, UnsetType

from core.accounts.mitras.rules import StatusReason
from core.base.field_types import Person
from core.deliveries import events
from core.deliveries import store as deliveries
from core.events.notices import Notice, OwnStatusChanged, SearchProgress
from core.pairing import trace_parents
from core.pairing import views as requests
from core.pairing.events import (
    ChatRequestClosed,
    ChatRequestMade,
    CloseReason,
    MitraStatusChanged,
    PairingStatus,
    SearchState,
)
from core.payments.failures.causes import CauseTag
from core.sessions.store import Session
from core.storage.transaction import Tx


async def search_status(
    tx: Tx,
    search: Session,
    status: SearchState,
    *,
    asked: int | UnsetType = UNSET,
    cause_tag: CauseTag | UnsetType = UNSET,
    mitra: Person | UnsetType = UNSET,
) -> None:
    """Send the customer the state of their search. `asked` is the number of mitras asked so far."""
    assert search.payment_request_id is not None  # each search has a payment
    event = PairingStatus(
        payment_request_id=search.payment_request_id,
        session_id=search.id,
        status=status,
        topic_sensitivity=search.topic_sensitivity,
        asked=asked,
        cause_tag=cause_tag,
        mitra=mitra,
    )
    await events.announce(tx, event, [search.customer_id], session_id=search.id)


def search_progress(searches: list[Session], asked: dict[str, int]) -> list[SearchProgress]:
    """Return the present number of asked mitras of searches. `asked` has a number for the id of each search."""
    return [
        SearchProgress(
            session_id=search.id,
            customer_id=search.customer_id,
            payment_request_id=search.payment_request_id,
            topic_sensitivity=search.topic_sensitivity,
            asked=asked[search.id],
        )
        for search in searches
    ]


async def chat_requests(tx: Tx, session_id: str, mitra_ids: list[str]) -> None:
    """Send the chat request of a session to the mitras who were asked in this transaction: all see the same one."""
    if not mitra_ids:
        return
    request = await requests.of_session(tx, session_id, mitra_ids[0])
    assert request is not None
    parent = await trace_parents.of_session(tx, session_id)
    await events.announce(tx, ChatRequestMade(request=request), mitra_ids, session_id=session_id, parent=parent)


async def requests_closed(tx: Tx, search: Session, mitra_ids: list[str], reason: CloseReason) -> None:
    """Tell mitras that a chat request is closed."""
    event = ChatRequestClosed(session_id=search.id, topic_sensitivity=search.topic_sensitivity, reason=reason)
    await events.announce(tx, event, mitra_ids, session_id=search.id)


async def mitra_status_changed(
    tx: Tx, mitra_ids: Sequence[str], *, is_online: bool, reason: StatusReason
) -> list[Notice]:
    """Send mitras their new presence, to all devices. Only the newest unacknowledged report is kept.

    Returns the stored events; none for `StatusReason.SELF`, which is sent to connected devices only. The caller must
    hold the locks of the mitras' rows.
    """
    await deliveries.forget(tx, mitra_ids, MitraStatusChanged.type_name())
    if reason is StatusReason.SELF:
        tx.outgoing.own_statuses.extend(OwnStatusChanged(mitra_id=one, is_online=is_online) for one in mitra_ids)
        return []
    return await events.announce(tx, MitraStatusChanged(is_online=is_online, reason=reason), mitra_ids)
