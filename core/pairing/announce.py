"""Decide who receives the events of a search and of a mitra's presence, store and send them (docs/events.md)."""

from collections.abc import Sequence
from typing import Any

from core.accounts.mitras.rules import StatusReason
from core.base.actor import UserType
from core.base.field_types import Person
from core.deliveries import events
from core.deliveries import store as deliveries
from core.events.notices import Notice, OwnStatusChanged, SearchProgress
from core.pairing import trace_parents
from core.pairing import views as requests
from core.sessions.store import Session
from core.storage.transaction import Tx


async def pairing_status(
    tx: Tx,
    *,
    customer_id: str,
    payment_request_id: str | None,
    session_id: str | None,
    status: str,
    topic_sensitivity: str = "regular",
    asked: int | None = None,
    cause_tag: str | None = None,
    mitra: Person | None = None,
) -> None:
    """Send the customer the state of their search: `searching`, `paired`, `failed` or `cancelled`.

    `asked` is the number of mitras asked so far.
    """
    frame: dict[str, Any] = {
        "type": "pairing_status",
        "payment_request_id": payment_request_id,
        "session_id": session_id,
        "status": status,
        "topic_sensitivity": topic_sensitivity,
    }
    if asked is not None:
        frame["asked"] = asked
    if cause_tag is not None:
        frame["cause_tag"] = cause_tag
    if mitra is not None:
        frame["mitra"] = mitra
    await deliveries.add(tx, [events.notice(await tx.event_time(), customer_id, UserType.CUSTOMER, session_id, frame)])


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
    frame = {"type": "chat_request", "request": request}
    parent = await trace_parents.of_session(tx, session_id)
    await deliveries.add(
        tx, events.notices(await tx.event_time(), mitra_ids, UserType.MITRA, session_id, frame, parent)
    )


async def requests_closed(
    tx: Tx, session_id: str, mitra_ids: list[str], reason: str, *, topic_sensitivity: str
) -> None:
    """Tell mitras that a chat request is closed.

    `reason` is `taken`, `cancelled`, `timeout`, `accepted` or `rejected`.
    """
    frame = {
        "type": "chat_request_closed",
        "session_id": session_id,
        "topic_sensitivity": topic_sensitivity,
        "reason": reason,
    }
    if mitra_ids:
        at = await tx.event_time()
        await deliveries.add(tx, events.notices(at, mitra_ids, UserType.MITRA, session_id, frame))


async def mitra_status_changed(
    tx: Tx, mitra_ids: Sequence[str], *, is_online: bool, reason: StatusReason
) -> list[Notice]:
    """Send mitras their new presence, to all devices. Only the newest unacknowledged report is kept.

    Returns the stored events; none for `StatusReason.SELF`, which is sent to connected devices only. The caller must
    hold the locks of the mitras' rows.
    """
    await deliveries.forget(tx, mitra_ids, "mitra_status_changed")
    if reason is StatusReason.SELF:
        tx.outgoing.own_statuses.extend(OwnStatusChanged(mitra_id=one, is_online=is_online) for one in mitra_ids)
        return []
    frame = {"type": "mitra_status_changed", "is_online": is_online, "reason": reason.value}
    await deliveries.add(tx, found := events.notices(await tx.event_time(), mitra_ids, UserType.MITRA, None, frame))
    return found
