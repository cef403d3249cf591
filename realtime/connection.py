"""One connected user: a bounded outbox, an orderly close.

Frames are put and leave together in one write when the event loop comes round, so a batch costs a socket one write.
They go to the transport directly, each one whole: many tasks waiting in one `send` would fall together.
"""

import asyncio
import contextlib
from typing import Any

import msgspec

from core.base import ids, metrics
from core.base.actor import Actor
from core.base.clock import monotonic
from core.base.languages import DEFAULT, Language, Text
from realtime import close_codes
from realtime.budgets import Budget
from realtime.message_rate import RefusedMessages
from realtime.wire import PING, close_frame, pong_frame, text_frame

MAX_FRAMES = 256  # contract 7
MAX_BYTES = 1 << 20
CLOSE_S = 2.0  # a peer that does not answer the close frame is dropped

SEND_AGAIN = Text(en="The service is busy. Send the frame again.", id="Layanan sedang sibuk. Silakan kirim lagi.")

encode = msgspec.json.encode


class Connection:
    """A socket and who is at its other end."""

    __slots__ = (
        "_waiting", "_writes", "_written", "actor", "address", "began", "budget", "closing", "frames", "gone", "hub", "id", "language",
        "last_seen", "leaving", "muted", "path", "pinged", "ready", "refused_messages", "refused_with", "transport", "warned",
    )  # fmt: skip

    def __init__(
        self, hub: Any, transport: asyncio.Transport, path: str, address: str, language: Language = DEFAULT
    ) -> None:
        self.id = ids.new_id()
        self.hub = hub
        self.transport = transport
        self.path = path
        self.address = address  # of the client, as limits count it
        self.language = language  # of error messages
        self.budget: Budget | None = None  # from the authentication on
        self.refused_messages: dict[str, RefusedMessages] = {}  # by session; empty unless the user sends too fast
        self.refused_with: int | None = None  # the close code, when the service has cut the client off
        self.actor: Actor | None = None
        self.frames: list[bytes] = []
        self.ready = False  # until auth_ok has been put, everything else waits
        self.closing = False
        self.muted = False  # it closes soon, and carries nothing until then
        self.leaving = False  # its auth session has ended: it closes when it has been sent the reason
        self.gone = asyncio.Event()  # the reader has ended
        self.warned = False
        self.last_seen = self.began = monotonic()
        self.pinged = 0
        self._waiting = 0  # frames that were put and have not gone out
        self._written = 0  # bytes of frames
        # (bytes written by its end, frames) of each write that may not have gone out
        self._writes: list[tuple[int, int]] = []

    @property
    def listens(self) -> bool:
        """Whether what is sent to it now reaches it: it has its snapshot and does not close."""
        return self.ready and not (self.muted or self.closing)

    def put(self, payload: bytes) -> None:
        """Send a frame (JSON) with the next write."""
        if self.closing or self.muted:
            return
        self.frames.append(text_frame(payload))
        if self.ready:
            self.hub.wake(self)

    def put_first(self, payloads: list[bytes]) -> None:
        """Send `auth_ok`, and what is older than it, before everything that gathered since the subscription."""
        self.frames[:0] = [text_frame(payload) for payload in payloads]
        self.ready = True
        self.hub.wake(self)

    def answer(self, kind: str, ref: str | None = None, **fields: Any) -> None:
        """Send an answer to this client, with the server's time and the echoed ref."""
        frame: dict[str, Any] = {"type": kind, **fields, "server_time": self.hub.server_time()}
        if ref is not None:
            frame["ref"] = ref
        self.put(encode(frame))

    def error(self, code: str, message: Text, ref: str | None = None, **more: Any) -> None:
        """Send an error that does not close, in the client's language."""
        self.answer("error", ref, code=code, message=message.said_in(self.language), **more)

    def flush(self) -> None:
        """Write what is put; cut a reader off who is too far behind."""
        if not self.frames or self.closing or self.transport.is_closing():
            self.frames.clear()
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
            self.close(close_codes.TOO_SLOW)
            return
        data = b"".join(self.frames)
        self._written += len(data)
        self._writes.append((self._written, len(self.frames)))
        self.frames.clear()
        self.transport.write(data)

    def _forget_read(self, up_to: int) -> None:
        """Frames of writes that have gone out to the last byte wait no longer."""
        gone = 0
        for end, count in self._writes:
            if end > up_to:
                break
            self._waiting -= count
            gone += 1
        del self._writes[:gone]

    def ping(self) -> None:
        """Ask the peer whether it is there."""
        self.transport.write(PING)

    def pong(self, payload: bytes) -> None:
        """Answer the peer's ping; one who does not read the answers is cut off."""
        if self.transport.is_closing():
            return
        if self.transport.get_write_buffer_size() > MAX_BYTES:
            self.close(close_codes.TOO_SLOW)
        else:
            self.transport.write(pong_frame(payload))

    def pay(self, cost: int, now: float) -> bool:
        """Charge the user for what a frame turned out to cost; close with 4429 when they can't pay."""
        if self.budget is None or self.budget.frames.take(cost, now):
            return True
        self.close(close_codes.TOO_FAST)
        return False

    def close(self, code: int) -> None:
        """Close with a code. Frames that were put before go out first; a flood is not read on."""
        if self.closing:
            return
        self.flush()
        if self.closing:  # the flush has closed it: the reader was too far behind
            return
        self.closing = True
        if code in close_codes.REFUSALS:
            self.refused_with = code
            if code in close_codes.LIMITS:
                metrics.LIMITED.labels(close_codes.LIMITS[code]).inc()
        if not self.transport.is_closing():
            self.transport.write(close_frame(code))
            if code == close_codes.TOO_FAST:
                with contextlib.suppress(RuntimeError):  # reading is paused already
                    self.transport.pause_reading()
        self.hub.spawn(self._leave())

    async def _leave(self) -> None:
        """Let the peer answer: whoever hangs up first may take the close frame from him by a reset."""
        try:
            async with asyncio.timeout(CLOSE_S):
                await self.gone.wait()
        except TimeoutError:
            self.transport.abort()
