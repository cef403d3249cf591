"""One socket: its bounded outbox and its close handshake.

Queued frames are written together, once for each iteration of the event loop, so a batch costs a socket one write. They
are written to the transport directly, each frame whole; there are no tasks that wait in a `send`.
"""

import asyncio
import contextlib
from collections.abc import Coroutine, Iterable
from typing import Any, Protocol

import msgspec

from core.base import ids
from core.base.actor import Actor
from core.base.clock import monotonic
from core.base.errors import DomainError
from core.base.languages import DEFAULT, Language, Text
from core.telemetry import metrics
from realtime import close_codes
from realtime.budgets import Budget, RefusedMessages
from realtime.websocket import PING, close_frame, pong_frame, text_frame

# A client that has more than this to read is closed with 4408 (docs/security.md#limits).
MAX_FRAMES = 256
MAX_BYTES = 1 << 20
PING_S = 25  # of silence, after which the service sends a ping
ANSWER_S = 5  # after a ping; a client that needs longer gives no sign of life until then
LOOK_AGAIN_S = 0.25  # after which the service looks again whether the kernel has taken events
CLOSE_S = 2.0  # after this many seconds, the connection of a peer that has not answered the close frame is aborted

SEND_AGAIN = Text(en="The service is busy. Send the frame again.", id="Layanan sedang sibuk. Silakan kirim lagi.")

encode = msgspec.json.encode


class ConnectionHost(Protocol):
    """What a connection needs of its process (realtime/connections.py)."""

    def server_time(self) -> str:
        """Return the service time as text."""
        ...

    def wake(self, connection: "Connection") -> None:
        """Call `flush` of the connection soon."""
        ...

    def note_sent(self, connection: "Connection", event_ids: list[str]) -> None:
        """Note that the kernel has taken these events for the connection."""
        ...

    def spawn(self, work: Coroutine[Any, Any, None]) -> object:
        """Run a task in the background."""
        ...


class Connection:
    """A socket and its user."""

    __slots__ = (
        "_left",
        "_unnoted",
        "_waiting",
        "_writes",
        "_written",
        "actor",
        "address",
        "auth_timer",
        "began",
        "budget",
        "closing",
        "controls",
        "events",
        "frames",
        "gone",
        "host",
        "id",
        "language",
        "last_seen",
        "leaving",
        "muted",
        "next_look",
        "path",
        "pinged",
        "ready",
        "refused_messages",
        "refused_with",
        "transport",
        "warned",
    )

    def __init__(
        self, host: ConnectionHost, transport: asyncio.Transport, path: str, address: str, language: Language = DEFAULT
    ) -> None:
        self.id = ids.new_id()
        self.host = host
        self.transport = transport
        self.path = path
        self.address = address  # of the client, as limits count it
        self.language = language  # of error messages
        self.budget: Budget | None = None  # None until authenticated
        self.refused_messages: dict[str, RefusedMessages] = {}  # by session; empty unless the user sends too fast
        self.refused_with: int | None = None  # the close code, if it is one of close_codes.REFUSALS
        self.actor: Actor | None = None
        self.frames: list[bytes] = []
        self.events: list[str] = []  # ids of the events among the frames
        self.ready = False  # True once auth_ok is queued; other frames are held until then
        self.closing = False
        self.muted = False  # True: it closes soon and neither sends nor handles frames until then
        self.leaving = False  # True: its auth session has ended, and it closes once the reason is sent
        self.gone = False  # True: no more messages are handled
        self._left: asyncio.Future[None] | None = None  # done when it is gone, if a close waits for that
        self.auth_timer: asyncio.TimerHandle | None = None  # until its first frame has arrived
        self.controls = 0  # pings and pongs before that frame
        self.warned = False
        self.next_look = 0  # the tick of realtime/watch.py in which it is checked next
        self.last_seen = self.began = monotonic()
        self.pinged = 0
        self._waiting = 0  # queued frames that the kernel has not taken yet
        self._written = 0  # bytes of frames written to the transport so far
        # (value of _written after it, number of frames) of each write that the kernel may not have taken completely
        self._writes: list[tuple[int, int]] = []
        # (value of _written after it, ids of its events) of each write whose events are not noted yet
        self._unnoted: list[tuple[int, list[str]]] = []

    @property
    def listens(self) -> bool:
        """Return whether a frame that is queued now is sent: after the snapshot was queued, until the socket closes."""
        return self.ready and not (self.muted or self.closing)

    def answers(self, now: float) -> bool:
        """Return whether the client has sent something lately or can still answer a ping. `now` is monotonic."""
        return not self.closing and now - self.last_seen < PING_S + ANSWER_S

    def put(self, payload: bytes) -> None:
        """Queue a frame (JSON) for the next write."""
        if self.closing or self.muted:
            return
        self.frames.append(text_frame(payload))
        if self.ready:
            self.host.wake(self)

    def put_event(self, payload: bytes, event_id: str) -> None:
        """Queue the frame of an event; its id is noted once the kernel has taken it."""
        if self.closing or self.muted:
            return
        self.events.append(event_id)
        self.put(payload)

    def put_first(self, payloads: list[bytes], event_ids: Iterable[str] = ()) -> None:
        """Queue `auth_ok` and repeated events before the frames that were queued since the subscription."""
        self.frames[:0] = [text_frame(payload) for payload in payloads]
        self.events.extend(event_ids)
        self.ready = True
        self.host.wake(self)

    def answer(self, kind: str, ref: str | None = None, **fields: Any) -> None:
        """Queue an answer, with the server's time and the `ref` of the client's frame."""
        frame: dict[str, Any] = {"type": kind, **fields, "server_time": self.host.server_time()}
        if ref is not None:
            frame["ref"] = ref
        self.put(encode(frame))

    def error(self, code: str, message: Text, ref: str | None = None, **more: Any) -> None:
        """Count and queue an error frame in the client's language; the socket stays open."""
        metrics.REFUSALS.labels(code).inc()
        self.answer("error", ref, code=code, message=message.said_in(self.language), **more)

    def refuse(self, error: type[DomainError], ref: str | None, message: Text | None = None, **more: Any) -> None:
        """Queue an error frame with the code of an error, and its message unless another is given."""
        self.error(error.code, message or error.message, ref, **more)

    def flush(self) -> None:
        """Write the queued frames; close with 4408 if the client reads too slowly."""
        if not self.frames or self.closing or self.transport.is_closing():
            self.frames.clear()
            self.events.clear()
            return
        behind = self.transport.get_write_buffer_size()
        if behind:
            self._forget_read(self._written - behind)
        else:
            self._writes.clear()
            self._waiting = 0
        self._waiting += len(self.frames)
        if behind > MAX_BYTES or (behind and self._waiting > MAX_FRAMES):
            self.frames.clear()
            self.events.clear()
            self.close(close_codes.TOO_SLOW)
            return
        data = b"".join(self.frames)
        self._written += len(data)
        self._writes.append((self._written, len(self.frames)))
        self.frames.clear()
        self.transport.write(data)
        if self.events:
            self._unnoted.append((self._written, self.events))
            self.events = []
            if len(self._unnoted) == 1:  # otherwise a call is planned
                self._note_taken()

    def _note_taken(self) -> None:
        """Note the events that the kernel has taken, and look again if some are left; forget all if the socket
        broke.
        """
        if self.transport.is_closing():
            self._unnoted.clear()
            return
        up_to = self._written - self.transport.get_write_buffer_size()
        while self._unnoted and self._unnoted[0][0] <= up_to:
            self.host.note_sent(self, self._unnoted.pop(0)[1])
        if self._unnoted:
            asyncio.get_running_loop().call_later(LOOK_AGAIN_S, self._note_taken)

    def _forget_read(self, up_to: int) -> None:
        """Stop counting the frames of writes that the kernel has taken completely, up to this byte."""
        gone = 0
        for end, count in self._writes:
            if end > up_to:
                break
            self._waiting -= count
            gone += 1
        del self._writes[:gone]

    def ping(self) -> None:
        """Send a ping."""
        self.transport.write(PING)

    def pong(self, payload: bytes) -> None:
        """Answer the peer's ping; close with 4408 if it does not read the answers."""
        if self.transport.is_closing():
            return
        if self.transport.get_write_buffer_size() > MAX_BYTES:
            self.close(close_codes.TOO_SLOW)
        else:
            self.transport.write(pong_frame(payload))

    def pay(self, cost: int, now: float) -> bool:
        """Charge the user's frame budget. If it is used up, close with 4429 and return False."""
        if self.budget is None or self.budget.frames.take(cost, now):
            return True
        self.close(close_codes.TOO_FAST)
        return False

    def close(self, code: int) -> None:
        """Close with a code, after the queued frames. After 4429, stop reading from the client."""
        if self.closing:
            return
        self.flush()
        if self.closing:  # the flush has closed it: the client reads too slowly
            return
        self.closing = True
        if code in close_codes.REFUSALS:
            self.refused_with = code
            if code in close_codes.LIMITS:
                metrics.LIMITED.labels(close_codes.LIMITS[code]).inc()
        if not self.transport.is_closing():
            self.transport.write(close_frame(code))
            if code == close_codes.TOO_FAST:
                with contextlib.suppress(RuntimeError):  # reading is already paused
                    self.transport.pause_reading()
        self.host.spawn(self._leave())

    async def _leave(self) -> None:
        """Wait for the peer's close frame: closing the TCP connection first can reset it and lose ours."""
        if self.gone:
            return
        self._left = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(CLOSE_S):
                await self._left
        except TimeoutError:
            self.transport.abort()

    def end(self) -> None:
        """Send and handle no more frames."""
        self.closing = self.gone = True
        if self._left is not None and not self._left.done():
            self._left.set_result(None)
