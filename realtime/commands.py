"""Dispatch of client frames to flows: the route table of the sockets."""

from typing import Any, assert_never, get_args

import msgspec

from core.accounts.mitras.rules import MitraOffline
from core.base.actor import Actor, UserType
from core.base.clock import monotonic
from core.base.errors import DomainError, Forbidden, NotFound
from core.events.notices import Envelope, TypingChanged
from core.pairing import answer as pairing_answer
from core.sessions.absences.signs_of_life import SignsOfLife
from core.sessions.messages import chats
from core.sessions.messages.rules import TooFast
from core.telemetry import metrics
from realtime import budgets, frames
from realtime.acks import Acks
from realtime.budgets import STRANGE_COST
from realtime.connection import Connection, encode
from realtime.feeds import Feed
from realtime.heartbeats import Heartbeats
from realtime.hub import Hub
from realtime.message_queue import Item
from realtime.message_schedule import MessageSchedule

SYNC_LIMIT = 200
SYNC_BYTES = 256 * 1024  # of one page: one of long messages must not get its reader closed (see connection.MAX_BYTES)
Queued = frames.SendMessage | frames.Delivered | frames.Read
AT_ONCE = frozenset(get_args(Queued))  # need no waiting if the session has a feed
ChatCommand = Queued | frames.Typing | frames.Sync  # each names a session
Command = ChatCommand | frames.Accept | frames.Reject | frames.Heartbeat | frames.Ack | frames.Ping


class Commands:
    """Handle the frames of authenticated clients."""

    def __init__(self, hub: Hub, messages: MessageSchedule, acks: Acks) -> None:
        self._hub = hub
        self._messages = messages
        self._acks = acks
        self.signs = SignsOfLife(hub.runtime, present=hub.connections.answering)
        self.heartbeats = Heartbeats(hub.runtime, is_here=lambda mitra_id: any(hub.connections.of_user(mitra_id)))

    def handle_now(self, connection: Connection, frame: Any, now: float) -> bool:
        """Handle a frame if that needs no waiting, and return whether it was handled. `now` is monotonic."""
        kind = type(frame)
        if kind is frames.Ack:
            self._acknowledge(connection, frame, now)
            return True
        if kind not in AT_ONCE:
            return False
        actor = connection.actor
        feed = self._hub.feeds.get(frame.session_id)
        if feed is None or actor is None:
            return False
        party = feed.party(connection)
        if party is None:
            return False
        if actor.user_type is UserType.MITRA:
            self.heartbeats.note_frame(actor.user_id, now)
        try:
            self._queue(connection, feed, party, frame, now)
        except DomainError as error:
            self._refuse(connection, frame, error)
        return True

    def arrived(self, connection: Connection) -> None:
        """Count the `auth` frame as a sign of life, and that of a mitra as a heartbeat."""
        actor = connection.actor
        if actor is None:
            return
        self.signs.note(actor.ids)
        if actor.user_type is UserType.MITRA:
            self.heartbeats.arrived(actor.user_id)

    def _acknowledge(self, connection: Connection, frame: frames.Ack, now: float) -> None:
        if connection.actor is not None and connection.actor.user_type is UserType.MITRA:
            self.heartbeats.note_frame(connection.actor.user_id, now)
        self._acks.add(connection, frame)

    def _queue(self, connection: Connection, feed: Feed, party: str, frame: Queued, now: float) -> None:
        """Queue a message or read markers for storing. Raises TooFast, ValidationFailed."""
        match frame:
            case frames.SendMessage():
                self._send(connection, feed, party, frame, now)
            case frames.Delivered(shown=False):
                self._acks.add_unshown(connection, feed.id, min(frame.up_to, feed.last_seq))
            case frames.Delivered():
                self._messages.mark(connection, feed, read=False, up_to=frame.up_to)
            case frames.Read():
                self._messages.mark(connection, feed, read=True, up_to=frame.up_to)
            case _:
                assert_never(frame)

    def _send(self, connection: Connection, feed: Feed, party: str, frame: frames.SendMessage, now: float) -> None:
        """Queue a message for storing. Raises TooFast, ValidationFailed."""
        assert connection.budget is not None
        wait = budgets.wait_of(connection.budget, connection.refused_messages, feed.id, frame.client_message_id, now)
        if wait:
            metrics.LIMITED.labels("messages").inc()
            raise TooFast(retry_after_seconds=wait)
        self._messages.send(Item.of(connection, feed, party, frame))

    async def handle(self, connection: Connection, frame: Command) -> None:
        """Handle a frame; a refusal is answered by an error frame."""
        assert connection.actor is not None
        try:
            if connection.actor.user_type is UserType.MITRA:
                await self._note_heartbeat(connection.actor, frame)
            await self._carry_out(connection, connection.actor, frame)
        except DomainError as error:
            self._refuse(connection, frame, error)

    async def _carry_out(self, connection: Connection, actor: Actor, frame: Command) -> None:
        match frame:
            case frames.Accept() | frames.Reject():
                await self._answer(connection, actor, frame)
            case frames.Ping():
                connection.answer("pong", frame.ref)
            case frames.Heartbeat():
                pass  # it has been recorded, as every frame of a mitra is
            case frames.Ack():
                self._acks.add(connection, frame)
            case _:
                await self._chat(connection, frame)

    async def _note_heartbeat(self, actor: Actor, frame: Any) -> None:
        """Record a heartbeat, since any frame of a mitra is one.

        Raises MitraOffline if the frame is `heartbeat` itself.
        """
        if not isinstance(frame, frames.Heartbeat | frames.Accept):
            self.heartbeats.note_frame(actor.user_id, monotonic())
        elif not await self.heartbeats.note(actor) and isinstance(frame, frames.Heartbeat):
            raise MitraOffline

    def _refuse(self, connection: Connection, frame: Any, error: DomainError) -> None:
        more: dict[str, Any] = {}
        if error.details is not None:
            more["details"] = error.details_in(connection.language)
        if error.retry_after_seconds is not None:
            more["retry_after_seconds"] = error.retry_after_seconds
        connection.error(error.code, error.text, frame.ref, **more)

    async def _chat(self, connection: Connection, frame: ChatCommand) -> None:
        feed = await self._feed_of(connection, frame.session_id.lower())
        party = feed.party(connection) if feed is not None else None
        if feed is None or party is None:
            raise NotFound
        match frame:
            case frames.SendMessage() | frames.Delivered() | frames.Read():
                self._queue(connection, feed, party, frame, monotonic())
            case frames.Typing():
                self._typing(feed, party, is_typing=frame.is_typing)
            case frames.Sync():
                await self._sync(connection, feed, frame)
            case _:
                assert_never(frame)

    async def _feed_of(self, connection: Connection, session_id: str) -> Feed | None:
        """Return the feed of a session of this connection's user.

        For any other session, charge STRANGE_COST and return None.
        """
        feed = self._hub.feeds.get(session_id)
        budget, actor = connection.budget, connection.actor
        if budget is None or actor is None:
            return None
        if feed is None and not budget.is_strange(session_id, monotonic()):
            found = await chats.progress_of_sessions(self._hub.runtime, [session_id])
            feed = self._hub.feeds.get(session_id)
            if feed is None and found and (actor.owns(found[0].customer_id) or actor.owns(found[0].mitra_id)):
                feed = self._hub.feeds.remember(found[0])
        if feed is not None and feed.party(connection) is not None:
            return feed
        now = monotonic()
        if feed is None:
            budget.remember_strange(session_id, now)
        connection.pay(STRANGE_COST, now)
        return None

    async def _sync(self, connection: Connection, feed: Feed, frame: frames.Sync) -> None:
        epoch = self._hub.runtime.db.epoch
        found = await chats.messages_after(self._hub.runtime, feed.id, after=frame.after, limit=SYNC_LIMIT + 1)
        page: list[msgspec.Raw] = []
        size = 0
        for view in found[:SYNC_LIMIT]:
            text = encode(view)
            size += len(text)
            if page and size > SYNC_BYTES:
                break
            page.append(msgspec.Raw(text))
        feed.note_committed(found[-1].seq if found else 0)
        last = found[len(page) - 1].seq if page else frame.after
        digest, blanked = await chats.digest(self._hub.runtime, feed.id, up_to=last)
        connection.answer(
            "sync",
            frame.ref,
            session_id=feed.id,
            messages=page,
            last_seq=feed.last_seq,
            more=len(found) > len(page),
            epoch=epoch,
            digest=digest,
            blanked=blanked,
        )

    def _typing(self, feed: Feed, party: str, *, is_typing: bool) -> None:
        other = feed.mitra_id if party == feed.customer_id else feed.customer_id
        changed = TypingChanged(session_id=feed.id, recipient_id=other, is_typing=is_typing)
        self._hub.runtime.publisher.publish_frames(Envelope(typing=[changed]))

    async def _answer(self, connection: Connection, actor: Actor, frame: frames.Accept | frames.Reject) -> None:
        if actor.user_type is not UserType.MITRA:
            raise Forbidden
        session_id = frame.session_id.lower()
        try:
            if isinstance(frame, frames.Accept):
                view = await pairing_answer.accept(self._hub.runtime, actor, session_id=session_id)
                connection.answer("accepted", frame.ref, session=view)
            else:
                await pairing_answer.reject(self._hub.runtime, actor, session_id=session_id)
        except NotFound:
            connection.pay(STRANGE_COST, monotonic())
            raise
