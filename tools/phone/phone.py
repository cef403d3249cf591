"""A reference app for both roles, which the demo and the tests use (docs/protocol.md#websockets).

A phone keeps one socket open and reconnects with jitter. After each `auth_ok` it syncs missed messages. It acknowledges
events, marks messages as delivered, renews its token before it expires, and repeats a message with the same id until it
is acknowledged. Messages over the rate limit are sent in order, one at a time. The transcript is what the user sees.
When the epoch of the service's database changes, the phone reads its chats again and repeats those of its messages that
the service has lost.
"""

import asyncio
import collections
import contextlib
import random
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, ClassVar

import aiohttp

from core.base import ids
from tools.client import Client, Closed, Refused, Socket

# The longest wait before each attempt to reconnect; the last is used for all later ones.
PAUSES_S = (1.0, 2.0, 4.0, 8.0, 10.0, 30.0)
GOING_AWAY_S, TRY_LATER_S = 5.0, 10.0  # the longest waits after these close codes
STABLE_S = 10.0  # a socket that was open this long was a success: the next attempt counts as a first one
RESEND_S = 2.0  # repeat a message that is not acknowledged within this time
SYNC_AGAIN_S = 1.0  # repeat a `sync` that the service could not answer
CONNECTIONS_KEPT = 20  # latest ended connections, for error messages
LATE_S = 3.0  # how much later than its cause an event may arrive
GOING_AWAY, TRY_LATER, NOT_AUTHENTICATED, REVOKED, TOO_MANY = 1012, 1013, 4401, 4403, 4409
SYNC = "sync "  # prefix of the `ref` of a sync; the session id follows
REREAD = "reread "  # prefix of the `ref` of a page that is read again after a change of epoch
Frame = dict[str, Any]


class Outbox:
    """A session in which the phone was over the rate limit: when it may send again, and an event for answers."""

    def __init__(self) -> None:
        self.resumes_at = 0.0  # on the loop's clock
        self.news = asyncio.Event()


def _retry_after(error: aiohttp.WSServerHandshakeError) -> float | None:
    """Return the seconds in the `Retry-After` of a refused upgrade, or None."""
    said = error.headers.get("Retry-After", "") if error.headers is not None else ""
    return float(said) if said.isdecimal() else None


class SignedOut(Exception):
    """The user must sign in again: this device was revoked, or replaced by newer sockets."""


class Reconnection:
    """The reconnection policy of an app: random waits, so that thousands of apps do not return together."""

    # Factor for every wait; tests of outages make it smaller.
    pace: ClassVar[float] = 1.0

    def __init__(self, dice: random.Random | None = None) -> None:
        self._dice = dice or random.Random()
        self._failures = 0

    def wait(self, code: int | None, *, lived_s: float = 0.0, retry_after_s: float | None = None) -> float:
        """Return the seconds to wait after a socket that was authenticated for `lived_s` and closed with `code`.

        `code` is None for a lost connection. `retry_after_s` comes from an upgrade that was refused with 503.
        """
        if lived_s >= STABLE_S * self.pace:
            self._failures = 0
        if retry_after_s is not None:
            return retry_after_s + self._dice.random() * self.pace
        longest = PAUSES_S[min(self._failures, len(PAUSES_S) - 1)]
        self._failures += 1
        if code in (GOING_AWAY, TRY_LATER):
            longest = max(GOING_AWAY_S if code == GOING_AWAY else TRY_LATER_S, longest)
        return self._dice.random() * longest * self.pace


class Phone:
    """One device of a signed-in user, on one path (`chat` or `pairing`)."""

    reread_within_s = 10.0  # longest random wait before chats are read again after a change of epoch

    def __init__(self, client: Client, path: str = "chat", *, heartbeat_s: float | None = None) -> None:
        """`heartbeat_s`: real seconds between heartbeats of a mitra's phone on the pairing path; None: no
        heartbeats."""
        self.client = client
        self.path = path
        self._heartbeat_s = heartbeat_s
        self.sessions: dict[str, Frame] = {}
        self.events: list[Frame] = []
        self._messages: dict[str, dict[int, Frame]] = {}
        self._seen: set[str] = set()
        self._newest: dict[str, str] = {}  # session id -> id of the event that `sessions` was last updated from
        self._claimed: set[int] = set()
        self._read_up_to: dict[str, int] = {}
        self._unsent: dict[str, Frame] = {}
        self._acks: dict[str, asyncio.Future[Frame]] = {}
        self._outboxes: dict[str, Outbox] = {}  # by session id, of sessions over the rate limit
        self._news = asyncio.Condition()
        self._token: str | None = None
        self._socket: Socket | None = None
        # Ended connections, oldest first: when each ended and the wait after it, for error messages.
        self._ended: collections.deque[str] = collections.deque(maxlen=CONNECTIONS_KEPT)
        self._connected_at = 0.0
        self._life: asyncio.Task[None] | None = None
        self._asking: set[asyncio.Task[None]] = set()
        self._epoch: str | None = None
        self._said: dict[str, Frame] = {}  # own acknowledged messages, by client_message_id
        self._again: dict[str, dict[int, Frame]] = {}  # messages read so far, of sessions that are being read again

    # -- connection

    async def start(self) -> "Phone":
        """Connect, and stay connected until `stop`."""
        self._life = asyncio.create_task(self._live())
        if self._heartbeat_s is not None:
            beats = asyncio.create_task(self._send_heartbeats(self._heartbeat_s))
            self._asking.add(beats)
            beats.add_done_callback(self._asking.discard)
        return self

    async def stop(self) -> None:
        """Disconnect and stop."""
        if self._life is not None:
            self._life.cancel()
            with contextlib.suppress(asyncio.CancelledError, SignedOut):
                await self._life
        for task in self._asking:
            task.cancel()
        if self._socket is not None:
            await self._socket.close()

    async def cut(self) -> None:
        """Abort the connection without a close frame, as when the network is lost; the phone reconnects."""
        if self._socket is not None:
            self._socket.abort()

    async def _send_heartbeats(self, every_s: float) -> None:
        while True:
            if self._socket is not None and not self._socket.closed:
                with contextlib.suppress(ConnectionError, RuntimeError):
                    await self._socket.send({"type": "heartbeat"})
            await asyncio.sleep(every_s)

    async def _live(self) -> None:
        try:
            await self._stay_connected()
        finally:
            await self._tell()

    async def _stay_connected(self) -> None:
        loop, reconnection = asyncio.get_running_loop(), Reconnection()
        while True:
            self._token = self.client.access_token
            socket: Socket | None = None
            connected_at, retry_after_s = loop.time(), None
            try:
                socket = self._socket = await self.client.open(self.path)
                connected_at = self._connected_at = loop.time()
                code = await self._hear(socket)
            except Closed as error:
                code = error.code
            except aiohttp.WSServerHandshakeError as error:
                code, retry_after_s = None, _retry_after(error)
            except (aiohttp.ClientError, ConnectionError, TimeoutError):
                code = socket.close_code if socket is not None else None
            if socket is not None:
                socket.abort()  # it may have failed in one direction only, and must not stay open
            if code in (REVOKED, TOO_MANY):
                raise SignedOut(code)
            if code == NOT_AUTHENTICATED:
                await self._new_token()
            lived_s = loop.time() - connected_at if socket is not None else 0.0
            wait_s = reconnection.wait(code, lived_s=lived_s, retry_after_s=retry_after_s)
            self._ended.append(f"{loop.time():.1f}: close code {code} after {lived_s:.1f} s, waits {wait_s:.1f} s")
            await asyncio.sleep(wait_s)

    def connection_log(self) -> str:
        """Describe the latest connections for error messages; times are seconds of the event loop's clock."""
        now = asyncio.get_running_loop().time()
        if self._socket is not None and not self._socket.closed:
            state = f"connected for {now - self._connected_at:.1f} s"
        else:
            state = "not connected"
        held = f", {len(self._outboxes)} sessions held back" if self._outboxes else ""
        return f"at {now:.1f} {state}{held}; {' | '.join(self._ended) or 'no connection ended yet'}"

    async def _new_token(self) -> None:
        try:
            await self.client.renew(self._token)
        except Refused as error:
            if error.status == 401:
                raise SignedOut(error.code) from error
        except (aiohttp.ClientError, TimeoutError):
            return

    async def _hear(self, socket: Socket) -> int | None:
        """Handle frames until the socket closes; return the close code."""
        place = 0
        while True:
            frames = await socket.more(place)
            if not frames:
                return socket.close_code
            for frame in frames:
                await self._take(socket, frame)
            place += len(frames)
            await self._tell()

    async def _tell(self) -> None:
        async with self._news:
            self._news.notify_all()

    # -- frames

    async def _take(self, socket: Socket, frame: Frame) -> None:
        kind = frame["type"]
        if "epoch" in frame:
            self._see_epoch(frame["epoch"])
        if kind == "auth_ok":
            await self._catch_up(socket, frame)
        elif kind == "message":
            await self._keep(socket, frame["message"]["session_id"], [frame["message"]])
        elif kind == "sync":
            await self._take_page(socket, frame)
        elif kind in ("message_ack", "error"):
            self._take_answer(socket, frame)
        elif kind == "auth_expiring":
            await self._new_token()
            self._token = self.client.access_token
            await socket.send({"type": "auth", "token": self._token})
        elif "event_id" in frame and frame["event_id"] not in self._seen:
            await self._keep_event(socket, frame)

    def _take_answer(self, socket: Socket, frame: Frame) -> None:
        """Handle the acknowledgement or the refusal of a message, or the refusal of a `sync`."""
        if frame.get("ref") in self._acks:
            self._answer(frame)
        elif frame["type"] == "error" and str(frame.get("ref")).startswith((SYNC, REREAD)):
            wait_s = float(frame.get("retry_after_seconds", SYNC_AGAIN_S * (0.5 + random.random())))
            self._ask_again(socket, frame["ref"], wait_s)

    async def _take_page(self, socket: Socket, frame: Frame) -> None:
        """Handle an answer to `sync`, and request the next page."""
        if str(frame.get("ref")).startswith(REREAD):
            await self._take_again(socket, frame)
            return
        await self._keep(socket, frame["session_id"], frame["messages"])
        if frame["more"]:
            await self._ask(socket, frame["session_id"])

    async def _keep_event(self, socket: Socket, frame: Frame) -> None:
        """Keep a new event, and update the session from it unless a later event has arrived already."""
        self._seen.add(frame["event_id"])
        self.events.append(frame)
        if "session" in frame:
            session_id = frame["session"]["id"]
            if frame["event_id"] > self._newest.get(session_id, ""):
                self._newest[session_id] = frame["event_id"]
                self.sessions[session_id] = frame["session"]
            if self.path == "chat":
                await self._ask(socket, session_id)

    async def _catch_up(self, socket: Socket, frame: Frame) -> None:
        """After a reconnection, request missed messages and repeat unacknowledged ones."""
        for session in frame.get("sessions", ()):
            self.sessions[session["id"]] = session
        if self.path != "chat":
            return
        last_seqs = {session["id"]: session["last_seq"] for session in frame["sessions"]}
        for session_id in {*self.sessions, *self._messages}:
            if last_seqs.get(session_id) != self._whole(session_id):
                await self._ask(socket, session_id)
        for session_id in list(self._again):
            await self._read_again(socket, session_id)
        for unsent in list(self._unsent.values()):
            if unsent["session_id"] not in self._outboxes:
                await socket.send(unsent)

    def _whole(self, session_id: str) -> int:
        """Return the seq up to which the transcript has no gap."""
        known = self._messages.setdefault(session_id, {})
        seq = self._read_up_to.get(session_id, 0)
        while seq + 1 in known:
            seq += 1
        self._read_up_to[session_id] = seq
        return seq

    async def _ask(self, socket: Socket, session_id: str) -> None:
        with contextlib.suppress(ConnectionError):
            after = self._whole(session_id)
            await socket.send({"type": "sync", "ref": SYNC + session_id, "session_id": session_id, "after": after})

    def _ask_again(self, socket: Socket, ref: str, wait_s: float) -> None:
        """Repeat a refused `sync` after `wait_s` seconds, if the socket is still open."""

        async def later() -> None:
            await asyncio.sleep(wait_s)
            if socket is not self._socket or socket.closed:
                return
            if ref.startswith(REREAD):
                await self._read_again(socket, ref.removeprefix(REREAD))
            else:
                await self._ask(socket, ref.removeprefix(SYNC))

        self._spawn(later())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    # -- change of epoch

    def _see_epoch(self, epoch: str) -> None:
        """Remember the epoch; if it has changed, read all chats again after a random wait."""
        before, self._epoch = self._epoch, epoch
        if before in (None, epoch) or self.path != "chat":
            return

        async def later() -> None:
            await asyncio.sleep(random.random() * self.reread_within_s)
            for session_id in {*self.sessions, *self._messages}:
                self._again[session_id] = {}
                if self._socket is not None and not self._socket.closed:
                    await self._read_again(self._socket, session_id)

        self._spawn(later())

    async def _read_again(self, socket: Socket, session_id: str) -> None:
        """Request the next page of a chat that is read again; the first page is after seq 0."""
        after = max(self._again.get(session_id, ()), default=0)
        with contextlib.suppress(ConnectionError):
            await socket.send({"type": "sync", "ref": REREAD + session_id, "session_id": session_id, "after": after})

    async def _take_again(self, socket: Socket, frame: Frame) -> None:
        """Handle a page of a chat that is read again.

        After the last page, replace the transcript by what the service has, and repeat our messages that it has lost.
        """
        session_id = frame["session_id"]
        found = self._again.get(session_id)
        if found is None:
            return
        found.update({message["seq"]: message for message in frame["messages"]})
        if frame["more"]:
            await self._read_again(socket, session_id)
            return
        del self._again[session_id]
        self._messages[session_id], self._read_up_to[session_id] = {}, 0
        await self._keep(socket, session_id, list(found.values()))
        stored = {message["client_message_id"] for message in found.values()}
        for message_id, said in list(self._said.items()):
            if said["session_id"] == session_id and message_id not in stored:
                self._spawn(self._say_again(said))

    async def _say_again(self, said: Frame) -> None:
        with contextlib.suppress(Refused, TimeoutError, SignedOut):  # the chat may have ended
            await self._deliver(said, timeout=60)

    async def _keep(self, socket: Socket, session_id: str, messages: list[Frame]) -> None:
        known = self._messages.setdefault(session_id, {})
        before = self._whole(session_id)
        for message in messages:
            known[message["seq"]] = message
        after = self._whole(session_id)
        with contextlib.suppress(ConnectionError):
            if after > before:
                await socket.send({"type": "delivered", "session_id": session_id, "up_to": after})
            if known and max(known) > after:
                await self._ask(socket, session_id)

    def _answer(self, frame: Frame) -> None:
        message_id = frame["ref"]
        session_id = self._unsent[message_id]["session_id"]
        if frame["type"] == "error" and frame["code"] == "TOO_FAST":
            self._hold(session_id, float(frame["retry_after_seconds"]))
            return
        again = frame["type"] == "error" and frame["code"] in ("UNAVAILABLE", "RATE_LIMITED")
        if not again and not self._acks[message_id].done():
            self._acks[message_id].set_result(frame)
            if session_id in self._outboxes:
                self._outboxes[session_id].news.set()

    def _hold(self, session_id: str, wait_s: float) -> None:
        """Stop sending a session's messages for `wait_s` seconds, then send the pending ones one at a time."""
        outbox = self._outboxes.get(session_id)
        if outbox is None:
            outbox = self._outboxes[session_id] = Outbox()
            self._spawn(self._empty(session_id, outbox))
        outbox.resumes_at = asyncio.get_running_loop().time() + wait_s
        outbox.news.set()

    async def _empty(self, session_id: str, outbox: "Outbox") -> None:
        """Send a session's pending messages in order, each after the answer to the one before."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                waiting = [unsent for unsent in self._unsent.values() if unsent["session_id"] == session_id]
                first = next((one for one in waiting if not self._acks[one["ref"]].done()), None)
                if first is None:
                    return
                outbox.news.clear()
                if (pause_s := outbox.resumes_at - loop.time()) > 0:
                    await asyncio.sleep(pause_s)
                    continue
                if self._socket is not None and not self._socket.closed:
                    with contextlib.suppress(ConnectionError, RuntimeError):
                        await self._socket.send(first)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(outbox.news.wait(), RESEND_S)
        finally:
            del self._outboxes[session_id]

    # -- actions of the user

    async def say(self, session_id: str, content: str, *, timeout: float = 60) -> Frame:
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
        return await self._deliver(frame, timeout=timeout)

    async def _deliver(self, frame: Frame, *, timeout: float) -> Frame:
        message_id, session_id = frame["client_message_id"], frame["session_id"]
        self._unsent[message_id] = frame
        self._acks[message_id] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(timeout):
                answer = await self._send_until_acknowledged(frame, self._acks[message_id])
        finally:
            del self._unsent[message_id], self._acks[message_id]
        if answer["type"] == "error":
            raise Refused(409, {"error": answer})
        self._said[message_id] = frame
        if self._socket is not None:  # the service does not send our own message back, so sync for the transcript
            await self._ask(self._socket, session_id)
        return answer

    async def _send_until_acknowledged(self, frame: Frame, acknowledged: asyncio.Future[Frame]) -> Frame:
        while True:
            held = frame["session_id"] in self._outboxes  # `_empty` sends it in order
            if self._socket is not None and not self._socket.closed and not held:
                with contextlib.suppress(ConnectionError, RuntimeError):
                    await self._socket.send(frame)
            self._check_signed_in()
            with contextlib.suppress(TimeoutError):
                return await asyncio.wait_for(asyncio.shield(acknowledged), RESEND_S)

    async def read(self, session_id: str) -> None:
        """Mark the transcript as read. Without a connection nothing is sent, and a later read covers it."""
        if self._socket is not None:
            with contextlib.suppress(ConnectionError, RuntimeError):
                await self._socket.send({"type": "read", "session_id": session_id, "up_to": self._whole(session_id)})

    def transcript(self, session_id: str) -> list[Frame]:
        """Return the messages that the user sees: in order, up to the first gap."""
        return [self._messages[session_id][seq] for seq in range(1, self._whole(session_id) + 1)]

    async def wait(
        self,
        *events: str,
        where: Callable[[Frame], bool] = lambda _: True,
        timeout: float = 60,
        truth: Callable[[], Awaitable[bool]] | None = None,
    ) -> Frame | None:
        """Return the first of these events for which `where` is true and that was not returned before.

        Return None if `truth` returns True but the event does not arrive within LATE_S seconds after that. Raises
        TimeoutError, SignedOut.
        """
        loop = asyncio.get_running_loop()
        happened_at: float | None = None
        async with asyncio.timeout(timeout):
            while True:
                found = self._take_event(events, where)
                if found is not None:
                    return found
                if happened_at is not None and loop.time() > happened_at + LATE_S:
                    return None
                await self._some_news(1.0)
                if truth is not None and happened_at is None and await truth():
                    happened_at = loop.time()

    def _take_event(self, events: tuple[str, ...], where: Callable[[Frame], bool]) -> Frame | None:
        for n, frame in enumerate(self.events):
            if n not in self._claimed and frame["type"] in events and where(frame):
                self._claimed.add(n)
                return frame
        return None

    async def _some_news(self, seconds: float) -> None:
        self._check_signed_in()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds), self._news:
                await self._news.wait()

    def _check_signed_in(self) -> None:
        """Raise the exception that ended the connection task, if any: SignedOut."""
        if self._life is not None and self._life.done() and not self._life.cancelled():
            error = self._life.exception()
            if error is not None:
                raise error

    async def until(self, good: Callable[[], bool], *, timeout: float = 60) -> None:
        """Wait until `good` returns True; it is called again after each batch of frames.

        Raises TimeoutError, SignedOut.
        """
        async with asyncio.timeout(timeout):
            while not good():
                await self._some_news(0.5)
