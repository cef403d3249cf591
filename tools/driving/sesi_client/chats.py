"""The sessions and messages of a device (docs/protocol.md#chat)."""

import asyncio
import contextlib
import json
import uuid
from collections.abc import Callable, Coroutine
from typing import Any

from .chat_view import HELD, RUNNING, Chat, Details, ShownMessage, check_content, is_later, rank
from .connection import Connection
from .errors import Refused, SesiError
from .outbox import Outbox
from .rest import Rest
from .sync import Sync
from .transcripts import Transcripts, own_message
from .wire import Frame, Json

LARGEST_FRAME = 16 * 1024  # bytes; a larger message is sent over REST
TYPING_S = 5.0  # how long the other party's typing is shown
TYPING_EVERY_S = 3.0  # how often the user's typing is sent
PAGE = 50
SESSIONS = "/api/shared/chat/sessions"


class Chats:
    """What a device on `/ws/chat` shows, and its outbox."""

    def __init__(self, rest: Rest, connection: Connection, *, changed: Callable[[], None]) -> None:
        """`changed` is called when the service's database was replaced."""
        self.sessions: dict[str, Json] = {}
        self.transcripts = Transcripts()
        self.said: dict[str, Frame] = {}  # own acknowledged messages, by client_message_id
        self._rest = rest
        self._connection = connection
        self._details: dict[str, Details] = {}
        self.sync = Sync(rest, connection, self.transcripts, keep=self._keep, missing=self._send_lost, changed=changed)
        self.outbox = Outbox(self._transmit, rest.storage)
        self.hidden = False  # whether the user can see nothing of what comes
        self._unshown: set[str] = set()  # sessions with messages that came then
        self._tasks: set[asyncio.Task[None]] = set()

    def stop(self) -> None:
        """Stop everything that waits; unsent messages stay in the storage."""
        for task in self._tasks:
            task.cancel()
        self.sync.stop()
        self.outbox.stop()

    def clear(self) -> None:
        """Forget everything: the user has signed out."""
        self.stop()
        self.sync.clear()
        self.outbox.clear()
        self.transcripts.clear()
        self.sessions.clear()
        self.said.clear()
        self._details.clear()
        self._unshown.clear()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- what is shown

    def chat(self, session_id: str) -> Chat:
        """Return a chat. Raises KeyError for a session that this device does not know."""
        session, more, own_id = self.sessions[session_id], self._of(session_id), self._rest.user.get("id")
        return Chat(
            session=session,
            messages=self.messages(session_id),
            extension=more.extension,
            typing=asyncio.get_running_loop().time() < more.typing_until,
            peer_absent=more.absent_since if session["status"] in HELD else None,
            credit=more.credit,
            warned=more.warned_for is not None and more.warned_for == session.get("expires_at"),
            digest={"equal": "equal", "different": "different"}.get(self.sync.digests.get(session_id, ""), "unchecked"),
            unread=self.transcripts.unread(session_id, more.read_up_to, own_id),
        )

    def messages(self, session_id: str) -> list[ShownMessage]:
        """Return the messages in order, up to the first gap, then the unsent ones."""
        own_id = self._rest.user.get("id")
        stored = [
            ShownMessage(
                client_message_id=message["client_message_id"],
                own=message["sender_id"] == own_id,
                content=message["content"],
                metadata=message["metadata"],
                state=message["status"],
                id=message["id"],
                seq=message["seq"],
                created_at=message["created_at"],
                blanked=message["blanked"],
            )
            for message in self.transcripts.shown(session_id)
        ]
        unsent = [
            ShownMessage(
                client_message_id=entry.id,
                own=True,
                content=entry.frame["content"],
                metadata=entry.frame.get("metadata"),
                state="sending" if entry.refusal is None else "refused",
                error=None if entry.refusal is None else entry.refusal["code"],
            )
            for entry in self.outbox.entries(session_id)
        ]
        return [*stored, *unsent]

    def _of(self, session_id: str) -> Details:
        return self._details.setdefault(session_id, Details())

    # -- sessions

    def learn(self, session: Json, *, anyway: bool = False) -> None:
        """Keep a view of a session, unless a later one is known; `anyway`: an earlier view counts, too."""
        known = self.sessions.get(session["id"])
        if anyway or known is None or is_later(session, known):
            self.sessions[session["id"]] = session

    async def take_session(self, session: Json) -> None:
        """Keep a session of an event or an answer, and request the messages that are missing."""
        self.learn(session)
        if session["last_seq"] > self.transcripts.whole(session["id"]):
            await self.sync.ask(session["id"])

    async def refresh(self, session_id: str) -> None:
        """Read a session; a failure is left to the next snapshot."""
        with contextlib.suppress(SesiError):
            await self.take_session(await self.read(session_id))

    async def read(self, session_id: str) -> Json:
        """Read a session. Raises SesiError."""
        return await self._rest.ask("GET", f"{SESSIONS}/{session_id}", fields=("id", "status"))

    async def act(self, method: str, path: str, session_id: str, body: Any = None) -> Json:
        """Change a session and return it. Raises SesiError; most refusals mean that it has changed."""
        try:
            session = await self._rest.ask(method, f"{SESSIONS}/{session_id}{path}", body, fields=("id", "status"))
        except Refused:
            self._spawn(self.refresh(session_id))
            raise
        self.learn(session)
        return session

    # -- frames

    async def take(self, frame: Frame, *, first: bool) -> None:
        """Handle a frame of `/ws/chat` that is not an event of a session."""
        kind = frame["type"]
        is_other = "epoch" in frame and self.sync.see_epoch(frame["epoch"], lambda: set(self.sessions))
        if kind == "auth_ok":
            await self._take_snapshot(frame, first=first, is_other=is_other)
        elif kind == "message":
            await self.take_message(frame["message"])
        elif kind == "sync" and not is_other:
            await self.sync.take_page(frame)
        elif kind == "message_status":
            self._take_mark(frame["session_id"], frame["status"], frame["up_to"])
        elif kind == "message_ack":
            await self._store_own(frame)
        elif kind == "typing":
            until = asyncio.get_running_loop().time() + TYPING_S if frame["is_typing"] else 0.0
            self._of(frame["session_id"]).typing_until = until

    def take_refusal(self, frame: Frame, refused: Refused) -> None:
        """Handle an `error` frame that answers a `sync` or a message."""
        if not self.sync.take_refusal(frame, refused):
            self.outbox.take_answer(frame.get("ref"), refused)

    async def take_event(self, event: Frame) -> None:
        """Handle an event that is the latest of its order key."""
        kind, session_id = event["type"], event.get("session_id", "")
        if kind == "session_warning":
            self._of(session_id).warned_for = event["expires_at"]
        elif kind in ("peer_absent", "peer_returned"):
            self._of(session_id).absent_since = event.get("since")
        elif kind in ("extension_requested", "extension_resolved"):
            self._of(event["extension"]["session_id"]).extension = event["extension"]
        elif kind in ("peer_renamed", "session_topic_updated"):
            self._change(session_id, event)
        elif "session" in event:
            if kind == "session_clock_adjusted":
                self._of(event["session"]["id"]).credit = event
            session = event["session"]
            known = self.sessions.get(session["id"])
            # The latest event counts, although an end that it brings may be an earlier one than was known.
            self.learn(session, anyway=known is not None and rank(session) > rank(known))
            await self.take_session(session)

    def _change(self, session_id: str, event: Frame) -> None:
        session = self.sessions.get(session_id)
        if session is None:
            return
        if event["type"] == "session_topic_updated":
            change = {"topic_sensitivity": event["topic_sensitivity"]}
        else:
            other = "customer" if self._rest.role == "mitra" else "mitra"
            change = {other: {**(session[other] or {}), "display_name": event["display_name"]}}
        self.sessions[session_id] = session | change

    async def _take_snapshot(self, frame: Frame, *, first: bool, is_other: bool) -> None:
        """After `auth_ok`, request missed messages; after the `first` one of a socket, send unsent messages, too.

        `is_other`: it is the first snapshot of another database.
        """
        running = {session["id"] for session in frame["sessions"]}
        ended = {one for one, known in self.sessions.items() if one not in running and known["status"] in RUNNING}
        for session in frame["sessions"]:
            self.learn(session, anyway=is_other)
            await self._take_view(session)
        for session_id in sorted(ended):
            self._spawn(self.refresh(session_id))
        last_seqs = {session_id: session["last_seq"] for session_id, session in self.sessions.items()}
        await self.sync.compare(last_seqs, ended)
        if first:
            self.outbox.resume()

    async def _take_view(self, session: Json) -> None:
        """Take what only a snapshot says of a session, and repeat a read mark that was lost."""
        more = self._of(session["id"])
        more.extension, more.absent_since = session.get("extension"), session.get("peer_absent_since")
        for status in ("delivered", "read"):  # marks may have moved while this device was away
            up_to = session.get(f"peer_{status}_up_to") or 0
            self.transcripts.mark(session["id"], status, up_to, self._rest.user.get("id"))
        if session.get("unread_count", 0) > 0 and more.read_up_to > 0:
            await self._connection.send({"type": "read", "session_id": session["id"], "up_to": more.read_up_to})

    async def _keep(self, session_id: str, messages: list[Frame]) -> None:
        """Store messages, and mark the other party's as delivered."""
        own_id = self._rest.user.get("id")
        for message in messages:
            if message["sender_id"] == own_id:  # `sync` may return a message before its acknowledgement
                message_id = message["client_message_id"]
                self.outbox.take_answer(message_id, {**message, "type": "message_ack", "ref": message_id})
        new = self.transcripts.add(session_id, messages)
        if any(message["sender_id"] != own_id for message in new):
            self._of(session_id).typing_until = 0.0
            await self._deliver(session_id)

    async def _deliver(self, session_id: str) -> None:
        frame = {"type": "delivered", "session_id": session_id, "up_to": self.transcripts.whole(session_id)}
        if self.hidden:
            self._unshown.add(session_id)
        await self._connection.send(frame | ({"shown": False} if self.hidden else {}))

    async def show(self) -> None:
        """Mark as delivered what came while the user could see nothing."""
        self.hidden, sessions = False, sorted(self._unshown)
        self._unshown.clear()
        for session_id in sessions:
            await self._deliver(session_id)

    async def take_message(self, message: Frame) -> None:
        """Store one message, and request those that are missing before it."""
        session_id = message["session_id"]
        self.sync.note(message)
        await self._keep(session_id, [message])
        if session_id not in self.sessions:
            self._spawn(self.refresh(session_id))
        if self.transcripts.has_gap(session_id):
            await self.sync.ask(session_id)

    async def _store_own(self, ack: Frame) -> None:
        """Add a sent message to the transcript: the service does not send it back."""
        frame = self.outbox.take_answer(ack["client_message_id"], ack)
        if frame is not None:
            self.said[frame["client_message_id"]] = frame
            await self.take_message(own_message(frame, ack, self._rest.user))

    def _take_mark(self, session_id: str, status: str, up_to: int) -> None:
        own_id, read_up_to = self._rest.user.get("id"), self._of(session_id).read_up_to
        if status == "read" and self.transcripts.unread(session_id, read_up_to, own_id) > 0:
            # It may be from another device of this user: only the service knows whose it was.
            self._spawn(self._read_marks(session_id))
        else:
            self.transcripts.mark(session_id, status, up_to, own_id)

    async def _read_marks(self, session_id: str) -> None:
        with contextlib.suppress(SesiError):  # marks come again with the next
            page = await self._rest.ask("GET", f"{SESSIONS}/{session_id}/messages", params={"limit": PAGE})
            await self._keep(session_id, page["items"])

    # -- messages and marks of this device

    def send(self, session_id: str, content: str, metadata: Json | None) -> tuple[str, asyncio.Future[Frame]]:
        """Store a message and begin to send it; return its id, and the future of its answer. Raises Refused."""
        check_content(content)
        message_id = str(uuid.uuid4())
        frame = {
            "type": "send_message",
            "ref": message_id,
            "session_id": session_id,
            "client_message_id": message_id,
            "content": content,
        }
        return message_id, self.outbox.add(frame | ({} if metadata is None else {"metadata": metadata}))

    async def mark_read(self, session_id: str) -> None:
        """Mark everything that is shown as read. Without a socket, the next snapshot repeats it."""
        up_to = self.transcripts.whole(session_id)
        self._of(session_id).read_up_to = up_to
        await self._connection.send({"type": "read", "session_id": session_id, "up_to": up_to})

    async def send_typing(self, session_id: str) -> None:
        """Let the other party see that the user types, once in TYPING_EVERY_S."""
        more, now = self._of(session_id), asyncio.get_running_loop().time()
        if more.typed_at is None or now - more.typed_at >= TYPING_EVERY_S:
            more.typed_at = now
            await self._connection.send({"type": "typing", "session_id": session_id, "is_typing": True})

    def _send_lost(self, session_id: str, stored: set[str]) -> None:
        """Send the acknowledged messages of a session again that the service has lost."""
        for message_id, frame in self.said.items():
            if frame["session_id"] == session_id and message_id not in stored:
                self.outbox.add(frame)

    async def _transmit(self, frame: Frame) -> Frame | Refused | None:
        """Send a message over the socket, or over REST if no frame can hold it; return the answer of REST."""
        if len(json.dumps(frame).encode()) <= LARGEST_FRAME:
            await self._connection.send(frame)
            return None
        body = {key: frame[key] for key in ("client_message_id", "content", "metadata") if key in frame}
        path = f"{SESSIONS}/{frame['session_id']}/messages"
        try:
            message = await self._rest.call("POST", path, body, fields=("client_message_id", "seq"))
        except Refused as refused:
            return refused if refused.code is not None else None
        except SesiError:
            return None
        await self.take_message(message)
        return {**message, "type": "message_ack"}


async def settled(future: asyncio.Future[Frame], life: Coroutine[Any, Any, None]) -> Frame:
    """Return the acknowledgement of a message, unless `life` ends before. Raises Refused."""
    ending = asyncio.ensure_future(life)
    try:
        await asyncio.wait([future, ending], return_when=asyncio.FIRST_COMPLETED)
        if not future.done() or future.cancelled():
            await ending
        return await future
    finally:
        ending.cancel()
