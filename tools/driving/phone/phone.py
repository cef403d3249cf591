"""The reference client: one device of a user on one socket path (docs/clients.md).

A phone keeps one socket open and reconnects with jitter. After each `auth_ok` it syncs missed messages. It acknowledges
events, marks messages as delivered, renews its token before it expires, and repeats a message with the same id until it
is acknowledged. The transcript is what the user sees. When the epoch of the service's database changes, the phone reads
its chats again and repeats those of its messages that the service has lost.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from core.base import ids
from tools.driving.client import Client, Refused, Socket
from tools.driving.phone.chat import Chat
from tools.driving.phone.chat_requests import ChatRequests
from tools.driving.phone.connection import PhoneConnection
from tools.driving.phone.event_log import EventLog
from tools.driving.phone.presence import PhonePresence
from tools.driving.phone.reconnection import SignedOut

REQUEST_EVENTS = ("chat_request", "chat_request_closed")
Frame = dict[str, Any]


class Phone:
    """One device of a signed-in user, on one path (`chat` or `pairing`)."""

    def __init__(self, client: Client, path: str = "chat", *, heartbeat_s: float | None = None) -> None:
        """`heartbeat_s`: real seconds between heartbeats of a mitra's phone on the pairing path; None: no
        heartbeats."""
        self.client = client
        self.path = path
        self._heartbeat_s = heartbeat_s
        self.requests = ChatRequests()
        self._log = EventLog(self._check_signed_in)
        self._connection = PhoneConnection(client, path, self._take, self._log.notify)
        self.chat = Chat(client, self._connection)
        self.presence = PhonePresence(client, self._connection)
        self._life: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def sessions(self) -> dict[str, Frame]:
        """Return the sessions that the phone knows, by id."""
        return self.chat.sessions

    @property
    def events(self) -> list[Frame]:
        """Return the events in the order of their arrival, each once."""
        return self._log.events

    @property
    def connected(self) -> bool:
        """Return whether the socket is authenticated and open."""
        return self._connection.open is not None

    @property
    def _socket(self) -> Socket | None:
        return self._connection.socket

    # -- connection

    async def start(self) -> "Phone":
        """Connect, and stay connected until `stop`. Messages that a former run left in the storage are sent."""
        if self.path == "chat":
            self.chat.outbox.restore()
        self._life = asyncio.create_task(self._live())
        if self._heartbeat_s is not None:
            self.send_heartbeats(self._heartbeat_s)
        return self

    def send_heartbeats(self, every_s: float) -> None:
        """Send a mitra's heartbeat every `every_s` real seconds, until `stop`."""
        self._heartbeat_s = every_s
        self._spawn(self.presence.send_heartbeats(every_s))

    async def stop(self) -> None:
        """Disconnect and stop; pending messages stay in the storage."""
        if self._life is not None:
            self._life.cancel()
            with contextlib.suppress(asyncio.CancelledError, SignedOut):
                await self._life
        for task in self._tasks:
            task.cancel()
        self.chat.stop()
        await self._connection.close()

    async def cut(self) -> None:
        """Abort the connection without a close frame, as when the network is lost; the phone reconnects."""
        if self._socket is not None:
            self._socket.abort()

    async def _live(self) -> None:
        try:
            await self._connection.live()
        finally:
            await self._log.notify()

    def connection_log(self) -> str:
        """Describe the latest connections for error messages; times are seconds of the event loop's clock."""
        pending = self.chat.outbox.pending()
        return self._connection.log() + (f"; {len(pending)} messages pending" if pending else "")

    def ended(self) -> BaseException | None:
        """Return the exception that ended the connection task, if any: SignedOut."""
        if self._life is None or not self._life.done() or self._life.cancelled():
            return None
        return self._life.exception()

    def _check_signed_in(self) -> None:
        error = self.ended()
        if error is not None:
            raise error

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- frames

    async def _take(self, socket: Socket, frame: Frame) -> None:
        if self.path == "chat":
            await self.chat.take(socket, frame)
        elif frame["type"] == "auth_ok":
            self.requests.replace(frame.get("requests", []))
            if self._heartbeat_s is not None:
                self._spawn(self.presence.read())
        if frame["type"] != "message" and ("event_id" not in frame or self._log.add(frame)):
            await self._take_new(frame)

    async def _take_new(self, frame: Frame) -> None:
        """Handle an event that was not here before, or a frame that is not repeated."""
        session_id = frame.get("request", frame).get("session_id")
        if frame["type"] in REQUEST_EVENTS and self._log.is_newest(frame, f"request {session_id}"):
            self.requests.take_event(frame)
        self.presence.take(frame)
        if "session" in frame and "event_id" in frame:
            newest = self._log.is_newest(frame, frame["session"]["id"])
            await self.chat.take_session(frame["session"], newest=newest)

    # -- actions of the user

    async def say(self, session_id: str, content: str, *, metadata: Frame | None = None, timeout: float = 60) -> Frame:
        """Send a message and return its acknowledgement. It is repeated over new sockets as needed, and stored once.

        Raises Refused if the service refuses it, TimeoutError, SignedOut.
        """
        message_id = ids.new_id()
        frame = {
            "type": "send_message",
            "ref": message_id,
            "session_id": session_id,
            "client_message_id": message_id,
            "content": content,
        }
        self._check_signed_in()
        async with asyncio.timeout(timeout):
            return await self.chat.deliver(frame | ({} if metadata is None else {"metadata": metadata}), self._life)

    async def accept(self, session_id: str) -> Frame:
        """Accept a chat request and return its session. Raises Refused, also after noting why the request is gone."""
        try:
            session = await self.client.post(f"/api/mitra/chat-requests/{session_id}/accept")
        except Refused as refused:
            self.requests.take_refusal(session_id, refused.code)
            raise
        self.requests.close(session_id, "accepted")
        return session

    async def read(self, session_id: str) -> None:
        """Mark the transcript as read. Without a connection nothing is sent, and a later read covers it."""
        up_to = self.chat.transcripts.whole(session_id)
        await self._connection.send({"type": "read", "session_id": session_id, "up_to": up_to})

    def transcript(self, session_id: str) -> list[Frame]:
        """Return the messages that the user sees: in order, up to the first gap."""
        return self.chat.transcripts.shown(session_id)

    async def wait(
        self,
        *events: str,
        where: Callable[[Frame], bool] = lambda _: True,
        timeout: float = 60,
        truth: Callable[[], Awaitable[bool]] | None = None,
    ) -> Frame | None:
        """Return the first of these events for which `where` is true and that was not returned before.

        Return None if `truth` returns True but the event does not arrive within some seconds after that. Raises
        TimeoutError, SignedOut.
        """
        return await self._log.wait(events, where, timeout, truth)

    def _take_event(self, events: tuple[str, ...], where: Callable[[Frame], bool]) -> Frame | None:
        return self._log.take(events, where)

    async def until(self, good: Callable[[], bool], *, timeout: float = 60) -> None:
        """Wait until `good` returns True; it is called again after each batch of frames.

        Raises TimeoutError, SignedOut.
        """
        await self._log.until(good, timeout)
