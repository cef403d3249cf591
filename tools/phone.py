"""An app as the specification asks the apps to be: the reference for both roles, and what the demo and the journeys hold.

A phone keeps one socket open. It reconnects with jitter; after each `auth_ok` it asks for what it missed; it acknowledges
events, marks what it has got, takes a new token before the old one ends, and sends a message again, under the same id, until it
is acknowledged. Messages over the rate go out in order, one after the other. What a phone holds is the transcript that its user
sees. When the service's database begins another epoch, the phone reads its chats again and sends those of its messages that the
service has lost.
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

PAUSES_S = (1.0, 2.0, 4.0, 8.0, 10.0, 30.0)  # the longest wait before each attempt to reconnect; the last one repeats
GOING_AWAY_S, TRY_LATER_S = 5.0, 10.0  # the longest waits after these close codes
STABLE_S = 10.0  # a socket that lived this long was a success: the next attempt is a first one
RESEND_S = 2.0  # without an acknowledgement
SYNC_AGAIN_S = 1.0  # after a `sync` that the service could not answer
CONNECTIONS_KEPT = 20  # the newest ones, for a message about what went wrong
LATE_S = 3.0  # an event may come so long after what it tells of is true
GOING_AWAY, TRY_LATER, NOT_AUTHENTICATED, REVOKED, TOO_MANY = 1012, 1013, 4401, 4403, 4409
SYNC = "sync "  # its ref says of which session
REREAD = "reread "  # likewise, of a page that is read again from the start
Frame = dict[str, Any]


class Outbox:
    """The messages of a session in which the phone was too fast: when it may go on, and whether there was an answer."""

    def __init__(self) -> None:
        self.resumes_at = 0.0  # on the loop's clock
        self.news = asyncio.Event()


def _retry_after(error: aiohttp.WSServerHandshakeError) -> float | None:
    """Return the seconds that a refused upgrade asks to wait."""
    said = error.headers.get("Retry-After", "") if error.headers is not None else ""
    return float(said) if said.isdecimal() else None


class SignedOut(Exception):
    """The user has to sign in again: this device was revoked, or replaced by newer ones."""


class Reconnection:
    """How long an app waits before it connects again: at random, so that thousands do not return together."""

    # Multiplies every wait of the policy: tests of outages make it shorter.
    pace: ClassVar[float] = 1.0

    def __init__(self, dice: random.Random | None = None) -> None:
        self._dice = dice or random.Random()
        self._failures = 0

    def wait(self, code: int | None, *, lived_s: float = 0.0, retry_after_s: float | None = None) -> float:
        """Return the seconds to wait after a socket that was authenticated for `lived_s` and closed with `code`.

        `retry_after_s` is the service's wish, from an upgrade that it refused with 503.
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
    """One device of a signed-in user, on one of the two paths (`chat` or `pairing`)."""

    reread_within_s = 10.0  # after a change of epoch, at random

    def __init__(self, client: Client, path: str = "chat", *, heartbeat_s: float | None = None) -> None:
        """Make a phone; a mitra's phone on the pairing path sends a heartbeat every `heartbeat_s` real seconds."""
        self.client = client
        self.path = path
        self._heartbeat_s = heartbeat_s
        self.sessions: dict[str, Frame] = {}
        self.events: list[Frame] = []
        self._messages: dict[str, dict[int, Frame]] = {}
        self._seen: set[str] = set()
        self._newest: dict[str, str] = {}  # session -> the event that `sessions` is of
        self._taken: set[int] = set()
        self._read_up_to: dict[str, int] = {}
        self._unsent: dict[str, Frame] = {}
        self._acks: dict[str, asyncio.Future[Frame]] = {}
        self._outboxes: dict[str, Outbox] = {}  # of the sessions in which this phone was too fast
        self._news = asyncio.Condition()
        self._token: str | None = None
        self._socket: Socket | None = None
        # Ended connections, oldest first: when each ended and the wait after it, for messages about failures.
        self._ended: collections.deque[str] = collections.deque(maxlen=CONNECTIONS_KEPT)
        self._connected_at = 0.0
        self._life: asyncio.Task[None] | None = None
        self._asking: set[asyncio.Task[None]] = set()
        self._epoch: str | None = None
        self._said: dict[str, Frame] = {}  # what was acknowledged, by client_message_id
        self._again: dict[str, dict[int, Frame]] = {}  # sessions that are being read again: what was read so far

    # -- life

    async def start(self) -> "Phone":
        """Connect, and stay connected until `stop`."""
        self._life = asyncio.create_task(self._live())
        if self._heartbeat_s is not None:
            beats = asyncio.create_task(self._send_heartbeats(self._heartbeat_s))
            self._asking.add(beats)
            beats.add_done_callback(self._asking.discard)
        return self

    async def stop(self) -> None:
        """Put the phone away."""
        if self._life is not None:
            self._life.cancel()
            with contextlib.suppress(asyncio.CancelledError, SignedOut):
                await self._life
        for task in self._asking:
            task.cancel()
        if self._socket is not None:
            await self._socket.close()

    async def cut(self) -> None:
        """Lose the network for a moment: the socket goes without a word."""
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
                socket.abort()  # a connection that failed in one direction only is not to live on beside the next one
            if code in (REVOKED, TOO_MANY):
                raise SignedOut(code)
            if code == NOT_AUTHENTICATED:
                await self._new_token()
            lived_s = loop.time() - connected_at if socket is not None else 0.0
            wait_s = reconnection.wait(code, lived_s=lived_s, retry_after_s=retry_after_s)
            self._ended.append(f"{loop.time():.1f}: close code {code} after {lived_s:.1f} s, waits {wait_s:.1f} s")
            await asyncio.sleep(wait_s)

    def connection_log(self) -> str:
        """Describe the last connections, with times of the event loop's clock in seconds; for messages about failures."""
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
        """Take frames until the socket closes; return its code."""
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
        elif kind in ("message_ack", "error") and frame.get("ref") in self._acks:
            self._answer(frame)
        elif kind == "error" and str(frame.get("ref")).startswith((SYNC, REREAD)):
            wait_s = float(frame.get("retry_after_seconds", SYNC_AGAIN_S * (0.5 + random.random())))
            self._ask_again(socket, frame["ref"], wait_s)
        elif kind == "auth_expiring":
            await self._new_token()
            self._token = self.client.access_token
            await socket.send({"type": "auth", "token": self._token})
        elif "event_id" in frame and frame["event_id"] not in self._seen:
            await self._keep_event(socket, frame)

    async def _take_page(self, socket: Socket, frame: Frame) -> None:
        """Take an answer to `sync`, and ask for the next page."""
        if str(frame.get("ref")).startswith(REREAD):
            await self._take_again(socket, frame)
            return
        await self._keep(socket, frame["session_id"], frame["messages"])
        if frame["more"]:
            await self._ask(socket, frame["session_id"])

    async def _keep_event(self, socket: Socket, frame: Frame) -> None:
        """Keep an event that is new here; one that comes late undoes nothing."""
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
        """What happened while we were away: ask for missed messages, send again what was not acknowledged."""
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
        """Up to where the transcript has no hole."""
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
        """Repeat a `sync` that the service refused: the hole stays until the phone asks again."""

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

    # -- another epoch

    def _see_epoch(self, epoch: str) -> None:
        """Read all chats again, after a random pause, when the database's history is another one than before."""
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
        """Ask for the next page of a chat that is read again; the first is behind 0."""
        after = max(self._again.get(session_id, ()), default=0)
        with contextlib.suppress(ConnectionError):
            await socket.send({"type": "sync", "ref": REREAD + session_id, "session_id": session_id, "after": after})

    async def _take_again(self, socket: Socket, frame: Frame) -> None:
        """Take a page; after the last one the chat is what the service has, and lost messages of ours are sent again."""
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
        """Stop sending a session's messages for a while; then they go one after the other until none is left."""
        outbox = self._outboxes.get(session_id)
        if outbox is None:
            outbox = self._outboxes[session_id] = Outbox()
            self._spawn(self._empty(session_id, outbox))
        outbox.resumes_at = asyncio.get_running_loop().time() + wait_s
        outbox.news.set()

    async def _empty(self, session_id: str, outbox: "Outbox") -> None:
        """Send a session's messages in order, each after the one before it was answered."""
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

    # -- what the user does

    async def say(self, session_id: str, content: str, *, timeout: float = 60) -> Frame:
        """Send a message and return its acknowledgement; over as many sockets as it takes, stored once.

        Raises Refused for what the service refuses, TimeoutError, SignedOut.
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
        if (
            self._socket is not None
        ):  # our own message comes as an acknowledgement: the transcript has it from the service
            await self._ask(self._socket, session_id)
        return answer

    async def _send_until_acknowledged(self, frame: Frame, acknowledged: asyncio.Future[Frame]) -> Frame:
        while True:
            held = frame["session_id"] in self._outboxes  # sent from there, in its turn
            if self._socket is not None and not self._socket.closed and not held:
                with contextlib.suppress(ConnectionError, RuntimeError):
                    await self._socket.send(frame)
            self._check_signed_in()
            with contextlib.suppress(TimeoutError):
                return await asyncio.wait_for(asyncio.shield(acknowledged), RESEND_S)

    async def read(self, session_id: str) -> None:
        """Mark everything as read, if there is a connection; the next read marks it too."""
        if self._socket is not None:
            with contextlib.suppress(ConnectionError, RuntimeError):
                await self._socket.send({"type": "read", "session_id": session_id, "up_to": self._whole(session_id)})

    def transcript(self, session_id: str) -> list[Frame]:
        """The messages that the user sees, in order, up to the first hole."""
        return [self._messages[session_id][seq] for seq in range(1, self._whole(session_id) + 1)]

    async def wait(
        self,
        *events: str,
        where: Callable[[Frame], bool] = lambda _: True,
        timeout: float = 60,
        truth: Callable[[], Awaitable[bool]] | None = None,
    ) -> Frame | None:
        """Return the first of these events that fits and was not returned before.

        With `truth`, None when it says that the thing has happened though its event never came. Raises TimeoutError,
        SignedOut.
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
            if n not in self._taken and frame["type"] in events and where(frame):
                self._taken.add(n)
                return frame
        return None

    async def _some_news(self, seconds: float) -> None:
        self._check_signed_in()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds), self._news:
                await self._news.wait()

    def _check_signed_in(self) -> None:
        """Raise what has ended the phone's life, if anything: SignedOut."""
        if self._life is not None and self._life.done() and not self._life.cancelled():
            error = self._life.exception()
            if error is not None:
                raise error

    async def until(self, good: Callable[[], bool], *, timeout: float = 60) -> None:
        """Wait until what the phone holds is good. Raises TimeoutError, SignedOut."""
        async with asyncio.timeout(timeout):
            while not good():
                await self._some_news(0.5)
