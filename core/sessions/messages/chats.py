"""Reads of sessions and messages, as their parties see them."""

from typing import Any, Literal

import attrs

from core.base.actor import Actor, UserType
from core.base.errors import NotFound, ValidationFailed
from core.base.field_types import ClientMessageId, CustomerId, Id, MessageId, MitraId, Positive, SessionId, Time
from core.base.languages import Text
from core.runtime.container import Runtime
from core.sessions import views
from core.sessions.absences import store as absences
from core.sessions.extensions import store as extensions
from core.sessions.extensions.views import ExtensionView, view_of
from core.sessions.messages import digests
from core.sessions.messages.rules import Marker, MessageStatus, ReadMarkers, SenderType
from core.sessions.own_session import session_of
from core.sessions.states import OPEN, SessionStatus
from core.sessions.views import SessionView
from core.storage import sql_files
from core.storage.records import as_dict, many

SQL = sql_files.load(__file__)
OPEN_STATES = sorted(status.value for status in OPEN)
MESSAGE = f"""{SQL["messages"]}
WHERE m.session_id = $1 AND m.id = $2"""
MESSAGES_AFTER = f"""{SQL["messages"]}
WHERE m.session_id = $1 AND m.seq > $2
ORDER BY m.seq
LIMIT $3"""
MESSAGES_BEFORE = f"""{SQL["messages"]}
WHERE m.session_id = $1 AND ($2::int IS NULL OR m.seq < $2)
ORDER BY m.seq DESC
LIMIT $3"""
PROGRESS_OF_SESSIONS = f"""{SQL["progress"]}
  AND id = ANY($1::uuid[])"""
PROGRESS_OF_CUSTOMERS = f"""{SQL["progress"]}
  AND customer_id = ANY($1::uuid[])
  AND status = ANY($2)"""
PROGRESS_OF_MITRAS = f"""{SQL["progress"]}
  AND mitra_id = ANY($1::uuid[])
  AND status = ANY($2)"""


@attrs.frozen(kw_only=True)
class MessageView:
    """A chat message. `seq` counts the messages of its session: 1, 2, 3 … without gaps.

    `blanked`: the text was removed for good, so `content` is empty and `metadata` null.
    """

    id: MessageId
    session_id: SessionId
    seq: Positive
    sender_type: SenderType
    sender_id: Id
    client_message_id: ClientMessageId
    type: Literal["text"]
    content: str
    metadata: dict[str, Any] | None
    status: MessageStatus
    created_at: Time
    delivered_at: Time | None
    read_at: Time | None
    blanked: bool


async def session(runtime: Runtime, actor: Actor, session_id: str) -> SessionView:
    """Return a session of the caller.

    Raises NotFound if it is not theirs.
    """
    view = await session_of(runtime, actor, session_id)
    if view is None:
        raise NotFound
    return view


async def messages_after(runtime: Runtime, session_id: str, *, after: int, limit: int) -> list[MessageView]:
    """Return messages with a `seq` above `after`, in order. The caller has checked access to the session."""
    return many(MessageView, await runtime.db.fetch(MESSAGES_AFTER, session_id, after, limit))


async def digest(runtime: Runtime, session_id: str, *, up_to: int) -> tuple[str | None, bool]:
    """Return (the digest of a chat up to a seq, whether the session is blanked).

    The digest is None if the session is blanked, if it has no such messages, and if too many must be read to compute
    it: the next calls then get further. The caller has checked access to the session.
    """
    found = await digests.for_reader(runtime.db, session_id, up_to=up_to)
    if found is None:
        return None, False
    return (found.digest if found.seq == up_to else None), found.blanked


async def messages(
    runtime: Runtime, actor: Actor, session_id: str, *, after: int | None, before: int | None, limit: int
) -> list[MessageView]:
    """Return a part of a session's messages by ascending `seq`: those above `after`, or the last ones below `before`.

    Raises NotFound, and ValidationFailed for both bounds.
    """
    if after is not None and before is not None:
        raise ValidationFailed.of(
            "before", Text(en="must be absent when `after` is given", id="tidak dapat dipakai bersama `after`")
        )
    await session(runtime, actor, session_id)
    if after is not None:
        return await messages_after(runtime, session_id, after=after, limit=limit)
    rows = await runtime.db.fetch(MESSAGES_BEFORE, session_id, before, limit)
    return many(MessageView, reversed(rows))


async def message(runtime: Runtime, message_id: str, session_id: str) -> MessageView:
    """Return a message that was just stored. Raises NotFound for an unknown id."""
    row = await runtime.db.fetchrow(MESSAGE, session_id, message_id)
    if row is None:
        raise NotFound
    return MessageView(**as_dict(row))


async def open_sessions(runtime: Runtime, actor: Actor) -> list[SessionView]:
    """Return the caller's sessions in `active`, `expired` and `closing`, newest first."""
    return await views.open_of(runtime.db, list(actor.ids), actor.user_type, OPEN_STATES)


@attrs.frozen(kw_only=True)
class OpenSession(SessionView):
    """A session of the snapshot in `auth_ok`, with its pending extension, if any.

    `peer_absent_since`: since when the other party has given no sign of life; null if they are not absent.
    `peer_delivered_up_to` and `peer_read_up_to`: the last seq that the other party has received and read.
    """

    extension: ExtensionView | None
    # Processes of earlier releases don't send these.
    peer_absent_since: Time | None = None
    peer_delivered_up_to: int | None = None
    peer_read_up_to: int | None = None


async def snapshots(runtime: Runtime, side: UserType, party_ids: list[str]) -> dict[str, list[OpenSession]]:
    """Return party id -> their sessions in `active`, `expired` and `closing`, with pending extensions."""
    found = await views.open_of_all(runtime.db, party_ids, side, OPEN_STATES)
    ids = [session.id for sessions in found.values() for session in sessions]
    asked = {e.session_id: e for e in await extensions.pending_of_all(runtime.db, ids)}
    of_peer = {  # a session that has just ended is left out: marks only grow, so 0 changes nothing
        progress.id: progress.read_markers.of_other(side)
        for chats in (await progress_of_parties(runtime, side, list(found))).values()
        for progress in chats
    }
    is_watched = bool(runtime.config.number("peer_absent_seconds"))
    open_now = await absences.open_of(runtime.db, ids) if ids and is_watched else []
    away = {absence.session_id: absence.since for absence in open_now if absence.user_type != side}
    return {
        party: [
            OpenSession(
                **{field.name: getattr(session, field.name) for field in attrs.fields(SessionView)},
                extension=view_of(asked[session.id], topic_sensitivity=session.topic_sensitivity)
                if session.id in asked
                else None,
                peer_absent_since=away.get(session.id),
                peer_delivered_up_to=of_peer.get(session.id, (0, 0))[0],
                peer_read_up_to=of_peer.get(session.id, (0, 0))[1],
            )
            for session in sessions
        ]
        for party, sessions in found.items()
    }


async def open_and_searching(runtime: Runtime, actor: Actor) -> tuple[list[SessionView], SessionView | None]:
    """Return (the calling customer's sessions in `active`, `expired` and `closing`, their running search or None)."""
    found = await views.open_of(
        runtime.db, list(actor.ids), actor.user_type, [*OPEN_STATES, SessionStatus.SEARCHING.value]
    )
    running = [session for session in found if session.search is None]
    return running, next((session for session in found if session.search is not None), None)


async def searching(runtime: Runtime, actor: Actor) -> SessionView | None:
    """Return the caller's running search, or None."""
    found = await views.open_of(runtime.db, list(actor.ids), actor.user_type, ["searching"])
    return found[0] if found else None


@attrs.frozen(kw_only=True)
class ChatProgress:
    """A chat's progress, as a hub stores it: the parties, the last `seq` and the markers of both sides."""

    id: SessionId
    customer_id: CustomerId
    mitra_id: MitraId
    status: SessionStatus = attrs.field(converter=SessionStatus)
    last_seq: int
    customer_delivered_seq: int
    customer_read_seq: int
    mitra_delivered_seq: int
    mitra_read_seq: int

    @property
    def read_markers(self) -> ReadMarkers:
        """The markers of both sides."""
        return ReadMarkers(
            customer_delivered=self.customer_delivered_seq,
            customer_read=self.customer_read_seq,
            mitra_delivered=self.mitra_delivered_seq,
            mitra_read=self.mitra_read_seq,
        )


async def progress_of_parties(runtime: Runtime, side: UserType, party_ids: list[str]) -> dict[str, list[ChatProgress]]:
    """Return party id -> the progress of their chats in `active`, `expired` and `closing`."""
    of_mitra = side is UserType.MITRA
    statement = PROGRESS_OF_MITRAS if of_mitra else PROGRESS_OF_CUSTOMERS
    rows = await runtime.db.fetch(statement, party_ids, OPEN_STATES)
    found: dict[str, list[ChatProgress]] = {}
    for progress in many(ChatProgress, rows):
        found.setdefault(progress.mitra_id if of_mitra else progress.customer_id, []).append(progress)
    return found


async def progress_since(
    runtime: Runtime, session_ids: list[str], last_seqs: list[int], markers: list[ReadMarkers]
) -> list[ChatProgress]:
    """Return the progress of chats that differ from what the caller knows, and of completed ones.

    `last_seqs` and `markers` have the last seq and the markers that the caller knows of each session.
    """
    columns = [[known.of(marker) for known in markers] for marker in Marker]
    return many(ChatProgress, await runtime.db.fetch(SQL["progress_since"], session_ids, last_seqs, *columns))


async def progress_of_sessions(runtime: Runtime, session_ids: list[str]) -> list[ChatProgress]:
    """Return the progress of the chats with these session ids."""
    return many(ChatProgress, await runtime.db.fetch(PROGRESS_OF_SESSIONS, session_ids))
