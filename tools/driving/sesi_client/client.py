"""One device of one user, with both sockets (docs/python-client.md)."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Self, Unpack

from .account import Account
from .chat_requests import ChatRequests
from .chat_view import Chat, ShownMessage
from .chats import Chats, settled
from .connection import Connection
from .errors import SesiError, SignedOut
from .events import EventLog
from .outbox import refusal_of
from .payments import REQUESTS, Payments, Search
from .presence import Presence
from .rest import Options
from .wire import Frame, Json

PATHS = CHAT, PAIRING = "chat", "pairing"
ACK = "ack "  # prefix of the `ref` of an acknowledgement; the event id follows
ACK_AGAIN_S = 1.0
CHAT_PATH = "/api/client/chat"


class Client(Account):
    """One device of one user: it stays connected, repeats what is safe to repeat, and knows what an app shows.

    `start` connects it. Calls raise Refused, Unreached without an answer, SignedOut.
    """

    def __init__(self, *, heartbeats: bool = True, **options: Unpack[Options]) -> None:
        """With `heartbeats`, a mitra who is online stays so."""
        super().__init__(**options)
        self._log = EventLog(self._check)
        self._chat = Connection(self, CHAT, self._take_chat, self._end)
        self._pairing = Connection(self, PAIRING, self._take_pairing, self._end)
        self.connections = {CHAT: self._chat, PAIRING: self._pairing}
        self.chats = Chats(self, self._chat, changed=self._log.forget_order)
        self.requests = ChatRequests(self)
        self.presence = Presence(self, self._pairing, heartbeats=heartbeats)
        self.payments = Payments(self, self._pairing)
        self.search = Search(self, self.payments, self.chats.read, spawn=self._spawn)
        self._paths: tuple[str, ...] = ()  # those that `start` was asked for
        self._is_started = False
        self._returned: dict[str, int] = {}  # seq of the last message that `next_message` has returned, by session
        self._unshown: dict[str, str] = {}  # events that came while the app was hidden, with their paths
        self._tasks: set[asyncio.Task[Any]] = set()

    # -- connection

    async def start(self, *paths: str) -> Self:
        """Connect, and stay connected until `stop`; continue as the user in the storage, if there is one.

        Messages that a former run left in the storage are sent. `paths`: `chat` or `pairing`, for one socket only.
        """
        before = self._paths if self._is_started else ()
        self._paths, self._is_started = tuple(dict.fromkeys((*before, *(paths or PATHS)))), True
        if self.access_token is not None or self.restore():
            self._connect()
        return self

    def _connect(self) -> None:
        for path in self._paths:
            self.connections[path].start()
        if CHAT in self._paths:
            self.chats.outbox.restore()
            self.chats.outbox.start()

    async def stop(self) -> None:
        """Disconnect; the sign-in and unsent messages stay in the storage."""
        self._is_started = False
        await self._disconnect()

    async def _disconnect(self) -> None:
        self.presence.stop()
        self.payments.stop()
        self.chats.stop()
        for task in self._tasks:
            if task is not asyncio.current_task():
                task.cancel()
        for connection in self.connections.values():
            await connection.stop()
        await self._log.notify()

    async def close(self) -> None:
        """Disconnect, and close the HTTP connections."""
        await self.stop()
        await super().close()

    async def cut(self) -> None:
        """Abort the sockets without a close frame, as when the network is lost; they are opened again."""
        for connection in self.connections.values():
            if connection.socket is not None:
                connection.socket.abort()

    def hide(self) -> None:
        """Take note that the user sees nothing: pushes go to their other devices, and a customer opens no socket."""
        self.chats.hidden = True
        if self.role == "customer":
            for connection in self.connections.values():
                connection.hide()

    def wake(self, *, online: bool = False) -> None:
        """Look at once whether the sockets live: the app is in front, or (`online`) the system has found a network."""
        for connection in self.connections.values():
            connection.wake(online=online)
        if not online and self.chats.hidden:
            self._spawn(self._show())
        self._spawn(self.payments.refresh_pending())

    async def _show(self) -> None:
        """Acknowledge what the user sees now."""
        await self.chats.show()
        unshown, self._unshown = self._unshown, {}
        for event_id, path in unshown.items():
            await self._acknowledge(self.connections[path], event_id)

    @property
    def connection(self) -> str:
        """Return `open`, `connecting` or `stopped`."""
        running = [self.connections[path] for path in self._paths]
        if not running or not all(one.is_running for one in running):
            return "stopped"
        return "open" if all(one.open is not None for one in running) else "connecting"

    def connection_log(self) -> str:
        """Describe the latest connections, for error messages."""
        pending = len(self.chats.outbox.pending())
        logs = [f"{path}: {self.connections[path].log()}" for path in self._paths]
        return "; ".join([*logs, *([f"{pending} messages pending"] if pending else [])])

    async def _begin(self, answer: Json, before: Json) -> None:
        await self._disconnect()
        await super()._begin(answer, before)
        if before.get("id") != self.user["id"] and not before.get("is_anonymous"):
            self.chats.clear()
        if self._is_started:
            self._connect()

    async def _end(self, reason: str) -> None:
        if reason == "replaced":
            await self._log.notify()
            return
        await super()._end(reason)
        if self.access_token is None:
            for part in (self.chats, self.requests, self.presence, self.payments, self.search):
                part.clear()
            self._unshown.clear()
            self._returned.clear()
            await self._disconnect()

    def _check(self) -> None:
        """Raise SignedOut if nothing will come."""
        if self.access_token is None:
            raise SignedOut(self.signed_out or "self")
        for connection in self.connections.values():
            if connection.is_replaced:
                raise SignedOut("replaced")
            if connection.failure is not None:
                raise connection.failure

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- frames

    async def _take_chat(self, frame: Frame, first: bool) -> None:
        await self._take(self._chat, frame, lambda: self.chats.take(frame, first=first), self.chats.take_event)

    async def _take_pairing(self, frame: Frame, first: bool) -> None:
        async def take_frame() -> None:
            if frame["type"] == "auth_ok" and self.role == "mitra":
                self.requests.replace(frame.get("requests", []))
                if first:
                    self._spawn(self.presence.read())
            elif frame["type"] == "auth_ok":
                self.search.take_snapshot(frame)
            elif "event_id" not in frame:
                await self._take_pairing_event(frame)

        await self._take(self._pairing, frame, take_frame, self._take_pairing_event)

    async def _take_pairing_event(self, event: Frame) -> None:
        for part in (self.requests, self.presence, self.search):
            part.take(event)
        if event["type"] == "account_updated":
            self._spawn(self._read_user())

    async def _read_user(self) -> None:
        with contextlib.suppress(SesiError):
            await self.refresh_user()

    async def _take(
        self,
        connection: Connection,
        frame: Frame,
        take_frame: Callable[[], Awaitable[None]],
        take_event: Callable[[Frame], Awaitable[None]],
    ) -> None:
        """Handle a frame, once if it is an event, and acknowledge an event whenever it comes."""
        is_event = "event_id" in frame and frame["type"] != "message"  # messages are acknowledged by `delivered`
        if frame["type"] == "error":
            self._take_error(connection, frame)
        elif not is_event:
            await take_frame()
        elif self._log.add(frame) and self._log.is_newest(frame):
            await take_event(frame)
        if is_event:
            await self._acknowledge(connection, frame["event_id"])
        await self._log.notify()

    async def _acknowledge(self, connection: Connection, event_id: str) -> None:
        frame = {"type": "ack", "ref": ACK + event_id, "event_id": event_id}
        if self.chats.hidden:
            self._unshown[event_id] = connection.path
        await connection.send(frame | ({"shown": False} if self.chats.hidden else {}))

    def _take_error(self, connection: Connection, frame: Frame) -> None:
        refused, ref = refusal_of(frame), str(frame.get("ref"))
        if ref.startswith(ACK):
            if refused.is_temporary:
                self._spawn(self._acknowledge_later(connection, ref.removeprefix(ACK), refused.retry_after_s))
        elif connection is self._chat:
            self.chats.take_refusal(frame, refused)
        else:
            self.presence.take_refusal(refused)

    async def _acknowledge_later(self, connection: Connection, event_id: str, after_s: float | None) -> None:
        await asyncio.sleep(ACK_AGAIN_S if after_s is None else float(after_s))
        await self._acknowledge(connection, event_id)

    # -- what is known

    @property
    def saved(self) -> bool:
        """Return whether the storage works; else the client goes on in memory."""
        return self.storage.saved

    @property
    def sessions(self) -> dict[str, Json]:
        """Return the sessions that this device knows, by id."""
        return self.chats.sessions

    @property
    def events(self) -> list[Frame]:
        """Return the newest events in the order of their arrival, each once."""
        return self._log.events

    def chat(self, session_id: str) -> Chat:
        """Return a chat as an app shows it. Raises KeyError for a session that this device does not know."""
        return self.chats.chat(session_id)

    def messages(self, session_id: str) -> list[ShownMessage]:
        """Return the messages as an app shows them: in order, up to the first gap, then the unsent ones."""
        return self.chats.messages(session_id)

    def transcript(self, session_id: str) -> list[Json]:
        """Return the stored messages as the service has sent them: in order, up to the first gap."""
        return self.chats.transcripts.shown(session_id)

    async def wait(
        self,
        *events: str,
        where: Callable[[Frame], bool] = lambda _: True,
        timeout: float | None = 60,
    ) -> Frame:
        """Return the first of these events for which `where` is true and that was not returned before.

        A device that connects later does not get an event that another one has acknowledged: then what it was about is
        in the snapshot. Raises TimeoutError, SignedOut.
        """
        return await self._log.wait(events, where, timeout)

    def take_event(self, *events: str, where: Callable[[Frame], bool] = lambda _: True) -> Frame | None:
        """Return what `wait` would return now, or None."""
        return self._log.take(events, where)

    async def until(self, good: Callable[[], bool], *, timeout: float | None = 60) -> None:
        """Wait until `good` returns True; it is called after each frame. Raises TimeoutError, SignedOut."""
        await self._log.until(good, timeout)

    # -- chats

    async def next_message(self, session_id: str, *, timeout: float | None = 60) -> ShownMessage:
        """Return the other party's first message that was not returned before. Raises TimeoutError, SignedOut."""
        after = self._returned.get(session_id, 0)

        def coming() -> list[ShownMessage]:
            return [one for one in self.messages(session_id) if not one.own and (one.seq or 0) > after]

        await self.until(lambda: bool(coming()), timeout=timeout)
        found = coming()[0]
        self._returned[session_id] = found.seq or 0
        return found

    def send(self, session_id: str, content: str, metadata: Json | None = None) -> str:
        """Send a message, now or as soon as there is a connection; return its `client_message_id`. Raises Refused.

        It is stored first, repeated over new sockets as needed, and stored once by the service.
        """
        return self.chats.send(session_id, content, metadata)[0]

    async def say(self, session_id: str, content: str, *, metadata: Json | None = None, timeout: float = 60) -> Frame:
        """Send a message and return its acknowledgement. One that is refused, or not acknowledged in time, is dropped.

        Raises Refused, TimeoutError, SignedOut.
        """
        self._check()
        message_id, answer = self.chats.send(session_id, content, metadata)
        try:
            async with asyncio.timeout(timeout):
                return await settled(answer, self._signed_out())
        finally:
            self.chats.outbox.remove(message_id)

    async def _signed_out(self) -> None:
        """Wait until nothing will come, then raise SignedOut."""
        await self._log.until(lambda: False, timeout=None)

    def resend(self, client_message_id: str) -> None:
        """Send a refused message again."""
        self.chats.outbox.retry(client_message_id)

    def discard(self, client_message_id: str) -> None:
        """Give a refused message up."""
        self.chats.outbox.remove(client_message_id)

    async def mark_read(self, session_id: str) -> None:
        """Mark everything that is shown as read."""
        await self.chats.mark_read(session_id)

    async def typing(self, session_id: str) -> None:
        """Let the other party see that the user types. Call it on each key; it is sent once in 3 s."""
        await self.chats.send_typing(session_id)

    async def open_chat(self, session_id: str) -> Json:
        """Read a session, also one that has ended, and request its messages; return it."""
        session = await self.chats.read(session_id)
        await self.chats.take_session(session)
        return session

    async def end(self, session_id: str) -> Json:
        """End a session."""
        return await self.chats.act("POST", "/end", session_id)

    async def say_goodbye(self, session_id: str, message: str) -> Json:
        """Write the goodbye."""
        return await self.chats.act("POST", "/closure", session_id, {"message": message})

    async def set_topic(self, session_id: str, sensitivity: str) -> Json:
        """Set whether the topic is `sensitive` or `regular`."""
        return await self.chats.act("PATCH", "/topic", session_id, {"topic_sensitivity": sensitivity})

    async def answer_extension(self, session_id: str, extension_id: str, *, accept: bool) -> Json:
        """Answer a customer who asks for more minutes; return the extension."""
        path = f"/api/shared/chat/sessions/{session_id}/extensions/{extension_id}/answer"
        return await self.ask("POST", path, {"accept": accept})

    # -- a customer's payments and searches

    async def pay(self, **wish: Any) -> Json:
        """Make a payment request. Repeated with the same wish until there is an answer, it is made once."""
        return await self.payments.make(REQUESTS, wish)

    async def pay_returning(self, **wish: Any) -> Json:
        """Make a payment request for the mitra of an earlier session."""
        return await self.payments.make(f"{CHAT_PATH}/returning", wish)

    async def extend(self, session_id: str, duration_minutes: int, expected_amount: int | None = None) -> Json:
        """Make a payment request for more minutes. `expected_amount`: the price shown; another one is refused."""
        shown = {} if expected_amount is None else {"expected_amount": expected_amount}
        return await self.pay(is_extension=True, session_id=session_id, duration_minutes=duration_minutes, **shown)

    async def read_payment(self, payment_request_id: str) -> Json:
        """Read a payment request."""
        return await self.payments.read(payment_request_id)

    async def abandon_payment(self, payment_request_id: str) -> Json:
        """Give a payment request up that was not paid."""
        return await self.payments.ask("POST", f"{REQUESTS}/{payment_request_id}/abandon")

    async def cancel_search(self, payment_request_id: str) -> Json:
        """End the search for a mitra."""
        return await self.payments.ask("POST", f"{CHAT_PATH}/cancel", {"payment_request_id": payment_request_id})

    async def fall_back_to_blast(self, payment_request_id: str) -> Json:
        """Ask all mitras in place of the one who was chosen."""
        body = {"payment_request_id": payment_request_id}
        return await self.payments.ask("POST", f"{CHAT_PATH}/fallback-to-blast", body)

    async def retarget(self, payment_request_id: str, mitra_id: str) -> Json:
        """Ask another mitra of the history, with the money of a request that the chosen one did not accept."""
        body = {"payment_request_id": payment_request_id, "mitra_id": mitra_id}
        return await self.payments.make(f"{CHAT_PATH}/retarget", body)

    # -- a mitra's desk

    async def go_online(self) -> Json:
        """Let chat requests come, and send heartbeats; return the status."""
        return await self.presence.change(online=True)

    async def go_offline(self) -> Json:
        """Let no more chat requests come; return the status."""
        return await self.presence.change(online=False)

    async def accept(self, session_id: str) -> Json:
        """Accept a chat request and return its session. The first mitra to accept has it."""
        session = await self.requests.accept(session_id)
        self.chats.learn(session)
        return session

    async def reject(self, session_id: str) -> None:
        """Reject a chat request."""
        await self.requests.reject(session_id)

    async def receive_push(self, push: Json) -> bool:
        """Give the client a push that has arrived, also without `start`. Return whether it needs nothing of the app."""
        if self.access_token is None:
            self.restore()
        return self.access_token is not None and await self.presence.receive_push(push)
