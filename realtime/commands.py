"""Dispatch of client frames to flows: the route table of the sockets."""

from typing import Any

import msgspec

from core.base import metrics
from core.base.actor import Actor, UserType
from core.base.clock import monotonic
from core.base.errors import DomainError, Forbidden, NotFound, Unavailable
from core.events.notices import Envelope, TypingChanged
from core.flows import pairing_answer
from core.messages.rules import TooFast
from core.mitras.rules import MitraOffline
from core.reads import chats
from core.transactions import TRANSIENT_ERRORS
from realtime import frames, message_rate
from realtime.acks import Acks
from realtime.connection import Connection, encode
from realtime.heartbeats import Heartbeats
from realtime.hub import STRANGE_COST, Feed, Hub
from realtime.message_batch import MessageBatch

SYNC_LIMIT = 200
SYNC_BYTES = 256 * 1024  # of one page: one of long messages must not get its reader closed (see connection.MAX_BYTES)
AT_ONCE = frozenset({frames.SendMessage, frames.Delivered, frames.Read})  # and `ack`, which names no session


class Commands:
    """Handle the frames of authenticated clients."""

    def __init__(self, hub: Hub, batch: MessageBatch, acks: Acks) -> None:
        self._hub = hub
        self._batch = batch
        self._acks = acks
        self.heartbeats = Heartbeats(hub.runtime, is_here=lambda mitra_id: any(hub.of_user(mitra_id)))

    def handle_now(self, connection: Connection, frame: Any, now: float) -> bool:
        """Handle a frame if that needs no waiting, and return whether it was handled. `now` is monotonic."""
        kind = type(frame)
        if kind not in AT_ONCE:
            return kind is frames.Ack and self._acknowledge(connection, frame, now)
        actor = connection.actor
        feed = self._hub.feeds.get(frame.session_id)
        if feed is None or actor is None:
            return False
        party = feed.party(connection)
        if party is None:
            return False
        if actor.user_type is UserType.MITRA:
            self.heartbeats.note_frame(actor.user_id, now)
        if kind is frames.SendMessage:
            try:
                self._send(connection, feed, party, frame, now)
            except DomainError as error:
                self._refuse(connection, frame, error)
        else:
            self._batch.mark(connection, feed, read=kind is frames.Read, up_to=frame.up_to)
        return True

    def arrived(self, connection: Connection) -> None:
        """Count the `auth` frame of a mitra as a heartbeat."""
        actor = connection.actor
        if actor is not None and actor.user_type is UserType.MITRA:
            self.heartbeats.arrived(actor.user_id)

    def _acknowledge(self, connection: Connection, frame: frames.Ack, now: float) -> bool:
        if connection.actor is not None and connection.actor.user_type is UserType.MITRA:
            self.heartbeats.note_frame(connection.actor.user_id, now)
        self._acks.add(connection, frame)
        return True

    def _send(self, connection: Connection, feed: Feed, party: str, frame: frames.SendMessage, now: float) -> None:
        """Queue a message for storing. Raises TooFast, ValidationFailed."""
        assert connection.budget is not None
        wait = message_rate.wait_of(
            connection.budget, connection.refused_messages, feed.id, frame.client_message_id, now
        )
        if wait:
            metrics.LIMITED.labels("messages").inc()
            raise TooFast(retry_after_seconds=wait)
        self._batch.send(connection, feed, party, frame)

    async def handle(self, connection: Connection, frame: Any) -> None:
        """Handle a frame; a refusal is answered by an error frame."""
        assert connection.actor is not None
        try:
            if connection.actor.user_type is UserType.MITRA:
                await self._note_heartbeat(connection.actor, frame)
            if isinstance(frame, frames.SendMessage | frames.Delivered | frames.Read | frames.Typing | frames.Sync):
                await self._chat(connection, frame)
            elif isinstance(frame, frames.Accept | frames.Reject):
                await self._answer(connection, connection.actor, frame)
            elif isinstance(frame, frames.Ping):
                connection.answer("pong", frame.ref)
        except DomainError as error:
            self._refuse(connection, frame, error)
        except TRANSIENT_ERRORS:
            connection.error(
                "UNAVAILABLE",
                Unavailable.message,
                frame.ref,
            )

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

    async def _chat(self, connection: Connection, frame: Any) -> None:
        feed = await self._hub.feed_of(connection, frame.session_id.lower())
        party = feed.party(connection) if feed is not None else None
        if feed is None or party is None:
            raise NotFound
        if isinstance(frame, frames.SendMessage):
            self._send(connection, feed, party, frame, monotonic())
        elif isinstance(frame, frames.Sync):
            await self._sync(connection, feed, frame)
        elif isinstance(frame, frames.Typing):
            self._typing(feed, party, is_typing=frame.is_typing)
        else:
            self._batch.mark(connection, feed, read=isinstance(frame, frames.Read), up_to=frame.up_to)

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
        feed.last_seq = max(feed.last_seq, found[-1].seq if found else 0)
        connection.answer(
            "sync",
            frame.ref,
            session_id=feed.id,
            messages=page,
            last_seq=feed.last_seq,
            more=len(found) > len(page),
            epoch=epoch,
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
