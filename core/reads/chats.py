"""Reads of sessions, messages and histories, as their parties see them."""

import datetime as dt
from typing import Any, Literal

import attrs

from core.base.actor import Actor, UserType
from core.base.errors import NotFound, ValidationFailed
from core.base.field_types import ClientMessageId, CustomerId, Id, MessageId, MitraId, Mode, Positive, SessionId, Time
from core.base.languages import Text
from core.base.pages import Items, Page, cut
from core.extensions import store as extensions
from core.extensions.views import ExtensionView, view_of
from core.messages.rules import MessageStatus, SenderType
from core.mitras.rules import MitraOffline
from core.runtime import Runtime
from core.sessions import views
from core.sessions.rules import Closure, closures_for
from core.sessions.sensitivity import Sensitivity
from core.sessions.states import OPEN, SessionStatus
from core.sessions.views import SessionView
from core.steps.announce import REQUESTS
from core.storage.records import as_dict, many
from core.transactions import translate_db_errors

OPEN_STATES = sorted(status.value for status in OPEN)
# Messages with the status that the session's markers give them. The columns of single messages may be behind.
MESSAGES = """SELECT m.id, m.session_id, m.seq, m.sender_type, m.sender_id, m.client_message_id, m.type, m.content, m.metadata,
    CASE WHEN m.status = 'read' OR m.seq <= d.read_seq THEN 'read'
         WHEN m.status = 'delivered' OR m.seq <= d.delivered_seq THEN 'delivered' ELSE 'sent' END AS status,
    m.created_at,
    coalesce(m.delivered_at, CASE WHEN m.seq <= d.delivered_seq THEN d.delivered_at END) AS delivered_at,
    coalesce(m.read_at, CASE WHEN m.seq <= d.read_seq THEN d.read_at END) AS read_at
  FROM chat_messages m JOIN chat_sessions s ON s.id = m.session_id
  CROSS JOIN LATERAL (SELECT
    CASE m.sender_type WHEN 'customer' THEN s.mitra_delivered_seq ELSE s.customer_delivered_seq END AS delivered_seq,
    CASE m.sender_type WHEN 'customer' THEN s.mitra_read_seq ELSE s.customer_read_seq END AS read_seq,
    CASE m.sender_type WHEN 'customer' THEN s.mitra_delivered_at ELSE s.customer_delivered_at END AS delivered_at,
    CASE m.sender_type WHEN 'customer' THEN s.mitra_read_at ELSE s.customer_read_at END AS read_at) d"""


@attrs.frozen(kw_only=True)
class MessageView:
    """A chat message. `seq` counts the messages of its session: 1, 2, 3 … without gaps."""

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


async def session(runtime: Runtime, actor: Actor, session_id: str) -> SessionView:
    """Return a session of the caller.

    Raises NotFound if it is not theirs.
    """
    with translate_db_errors():
        view = await views.one_of(runtime.db, session_id, party_ids=list(actor.ids), side=actor.user_type)
    if view is None:
        raise NotFound
    return view


async def messages_after(runtime: Runtime, session_id: str, *, after: int, limit: int) -> list[MessageView]:
    """Return messages with a `seq` above `after`, in order. The caller has checked access to the session."""
    rows = await runtime.db.fetch(
        f"{MESSAGES} WHERE m.session_id = $1 AND m.seq > $2 ORDER BY m.seq LIMIT $3", session_id, after, limit
    )
    return many(MessageView, rows)


async def messages(
    runtime: Runtime, actor: Actor, session_id: str, *, after: int | None, before: int | None, limit: int
) -> list[MessageView]:
    """Return a part of a session's messages by ascending `seq`: those above `after`, or the last ones below
    `before`."""
    if after is not None and before is not None:
        raise ValidationFailed.of(
            "before", Text(en="must be absent when `after` is given", id="tidak dapat dipakai bersama `after`")
        )
    await session(runtime, actor, session_id)
    with translate_db_errors():
        if after is not None:
            return await messages_after(runtime, session_id, after=after, limit=limit)
        rows = await runtime.db.fetch(
            f"""{MESSAGES} WHERE m.session_id = $1 AND ($2::int IS NULL OR m.seq < $2) ORDER BY m.seq DESC LIMIT $3""",
            session_id, before, limit,
        )  # fmt: skip
    return many(MessageView, reversed(rows))


async def message(runtime: Runtime, message_id: str, session_id: str) -> MessageView:
    """Return a message that was just stored."""
    with translate_db_errors():
        row = await runtime.db.fetchrow(f"{MESSAGES} WHERE m.session_id = $1 AND m.id = $2", session_id, message_id)
    if row is None:
        raise NotFound
    return MessageView(**as_dict(row))


async def open_sessions(runtime: Runtime, actor: Actor) -> list[SessionView]:
    """Return the caller's sessions in `active`, `expired` and `closing`, newest first."""
    with translate_db_errors():
        return await views.open_of(runtime.db, list(actor.ids), actor.user_type, OPEN_STATES)


@attrs.frozen(kw_only=True)
class OpenSession(SessionView):
    """A session of the snapshot in `auth_ok`, with its pending extension, if any."""

    extension: ExtensionView | None


async def snapshots(runtime: Runtime, side: UserType, party_ids: list[str]) -> dict[str, list[OpenSession]]:
    """Return party id -> their sessions in `active`, `expired` and `closing`, with pending extensions."""
    with translate_db_errors():
        found = await views.open_of_all(runtime.db, party_ids, side, OPEN_STATES)
        ids = [session.id for sessions in found.values() for session in sessions]
        asked = {e.session_id: e for e in await extensions.pending_of_all(runtime.db, ids)}
    return {
        party: [
            OpenSession(
                **{field.name: getattr(session, field.name) for field in attrs.fields(SessionView)},
                extension=view_of(asked[session.id], topic_sensitivity=session.topic_sensitivity)
                if session.id in asked
                else None,
            )
            for session in sessions
        ]
        for party, sessions in found.items()
    }


async def open_and_searching(runtime: Runtime, actor: Actor) -> tuple[list[SessionView], SessionView | None]:
    """Return (the calling customer's sessions in `active`, `expired` and `closing`, their running search or None)."""
    with translate_db_errors():
        found = await views.open_of(
            runtime.db, list(actor.ids), actor.user_type, [*OPEN_STATES, SessionStatus.SEARCHING.value]
        )
    running = [session for session in found if session.search is None]
    return running, next((session for session in found if session.search is not None), None)


async def searching(runtime: Runtime, actor: Actor) -> SessionView | None:
    """Return the caller's running search, or None."""
    with translate_db_errors():
        found = await views.open_of(runtime.db, list(actor.ids), actor.user_type, ["searching"])
    return found[0] if found else None


@attrs.frozen(kw_only=True)
class ChatRequest:
    """A chat request that is open to the calling mitra."""

    session_id: SessionId
    customer_display_name: str | None
    mode: Mode
    topics: list[str] | None
    topic_sensitivity: Sensitivity = attrs.field(converter=Sensitivity)
    duration_minutes: int
    kind: Literal["blast", "targeted"]
    notified_at: Time
    answer_by: Time


async def chat_requests(runtime: Runtime, actor: Actor) -> list[ChatRequest]:
    """List the chat requests that are open to the calling mitra, newest first."""
    with translate_db_errors():
        rows = await runtime.db.fetch(f"{REQUESTS} AND n.mitra_id = $1 ORDER BY n.notified_at DESC", actor.user_id)
    return [ChatRequest(**{k: v for k, v in as_dict(row).items() if k != "mitra_id"}) for row in rows]


@attrs.frozen(kw_only=True)
class MitraStatus:
    """The calling mitra's presence, and how many sessions they have and may have."""

    is_online: bool
    last_online_at: dt.datetime | None
    last_heartbeat_at: dt.datetime | None
    heartbeat_cadence_seconds: int
    active_session_count: int
    max_sessions: int


async def mitra_status(runtime: Runtime, actor: Actor) -> MitraStatus:
    """Return the calling mitra's presence and load."""
    with translate_db_errors():
        row = await runtime.db.fetchrow(
            """SELECT o.is_online, o.last_online_at, o.last_heartbeat_at,
                 (SELECT count(*)::int FROM chat_sessions s WHERE s.mitra_id = o.mitra_id AND s.status IN ('active', 'expired'))
                   AS active_session_count
               FROM mitra_online_status o WHERE o.mitra_id = $1""",
            actor.user_id,
        )
    if row is None:
        raise MitraOffline
    return MitraStatus(
        **dict(row),
        heartbeat_cadence_seconds=runtime.settings.mitra_heartbeat_cadence_seconds,
        max_sessions=runtime.config.number("max_customers_per_mitra"),
    )


@attrs.frozen(kw_only=True)
class HistoryRow:
    """A mitra from the customer's history. `topics` and `closures` are those of the last session with them."""

    mitra_id: MitraId
    display_name: str
    last_session_id: SessionId
    last_session_at: dt.datetime
    topics: list[str] | None
    mitra_is_online: bool
    sessions_count: int
    closures: list[Closure]


async def customer_history(runtime: Runtime, actor: Actor, page: Page) -> Items:
    """List the mitras of the caller's past sessions, the most recent first."""
    with translate_db_errors():
        rows = await runtime.db.fetch(
            f"""SELECT h.mitra_id, m.display_name, s.id AS last_session_id, h.last_session_at, s.topics,
                 coalesce(o.is_online, false) AS mitra_is_online, h.sessions_count, s.status, {views.CLOSURES}
               FROM (SELECT p.mitra_id, max(p.paired_at) AS last_session_at, count(*)::int AS sessions_count,
                       (array_agg(p.id ORDER BY p.paired_at DESC))[1] AS last_id
                     FROM chat_sessions p WHERE p.customer_id = ANY($1) AND p.mitra_id IS NOT NULL GROUP BY p.mitra_id) h
               JOIN chat_sessions s ON s.id = h.last_id
               JOIN mitras m ON m.id = h.mitra_id LEFT JOIN mitra_online_status o ON o.mitra_id = h.mitra_id
               WHERE $2::timestamptz IS NULL OR (h.last_session_at, h.mitra_id) < ($2, $3::uuid)
               ORDER BY h.last_session_at DESC, h.mitra_id DESC LIMIT $4""",
            list(actor.ids), page.before_at, page.before_id, page.limit + 1,
        )  # fmt: skip
    return cut([_history_row(row) for row in rows], page, at="last_session_at", tiebreak="mitra_id")


def _history_row(row: Any) -> HistoryRow:
    values = as_dict(row)
    status, closures = SessionStatus(values.pop("status")), views.closures_in(values)
    return HistoryRow(**values, closures=closures_for(UserType.CUSTOMER, closures, status))


async def mitra_history(runtime: Runtime, actor: Actor, page: Page) -> Items:
    """List the calling mitra's sessions, newest first."""
    with translate_db_errors():
        rows = await runtime.db.fetch(
            f"""{views.VIEW} WHERE s.mitra_id = $1 AND ($2::timestamptz IS NULL OR (s.created_at, s.id) < ($2, $3::uuid))
                ORDER BY s.created_at DESC, s.id DESC LIMIT $4""",
            actor.user_id, page.before_at, page.before_id, page.limit + 1,
        )  # fmt: skip
    return cut([views.two_sided(row).seen_by(UserType.MITRA) for row in rows], page, at="created_at")


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
    def read_markers(self) -> list[int]:
        """The markers in the order of `realtime.read_markers`."""
        return [self.customer_delivered_seq, self.customer_read_seq, self.mitra_delivered_seq, self.mitra_read_seq]


PROGRESS = """SELECT id, customer_id, mitra_id, status, last_seq, customer_delivered_seq, customer_read_seq, mitra_delivered_seq, mitra_read_seq
  FROM chat_sessions WHERE mitra_id IS NOT NULL AND"""


async def progress_of_parties(runtime: Runtime, side: UserType, party_ids: list[str]) -> dict[str, list[ChatProgress]]:
    """Return party id -> the progress of their chats in `active`, `expired` and `closing`."""
    column = "mitra_id" if side is UserType.MITRA else "customer_id"
    with translate_db_errors():
        rows = await runtime.db.fetch(
            f"{PROGRESS} {column} = ANY($1::uuid[]) AND status = ANY($2)", party_ids, OPEN_STATES
        )
    found: dict[str, list[ChatProgress]] = {}
    for progress in many(ChatProgress, rows):
        found.setdefault(getattr(progress, column), []).append(progress)
    return found


async def progress_of_sessions(runtime: Runtime, session_ids: list[str]) -> list[ChatProgress]:
    """Return the progress of the chats with these session ids."""
    return many(ChatProgress, await runtime.db.fetch(f"{PROGRESS} id = ANY($1::uuid[])", session_ids))
