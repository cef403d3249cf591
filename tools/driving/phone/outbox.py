"""Messages that wait for their acknowledgement (docs/protocol.md#sending)."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import attrs

from tools.driving.device_storage import OUTBOX, DeviceStorage

RESEND_S = 2.0  # repeat a message that is not acknowledged within this time
WAIT_S = 1.0  # before a message is repeated that was refused for now, without a number of seconds
REFUSED_FOR_NOW = frozenset({"TOO_FAST", "UNAVAILABLE", "INTERNAL_ERROR", "RATE_LIMITED"})
Frame = dict[str, Any]


@attrs.define(eq=False)
class PendingMessage:
    """One message. `answer` is the last answer to it; `settled` gets the final one."""

    frame: Frame
    settled: asyncio.Future[Frame]
    news: asyncio.Event = attrs.field(factory=asyncio.Event)
    answer: Frame | None = None


class Outbox:
    """The pending messages of all sessions: stored before they are sent, and sent in order, one at a time a session."""

    def __init__(self, send: Callable[[Frame], Awaitable[Frame | None]], storage: DeviceStorage) -> None:
        """`send` sends a message; it returns the answer if that comes with the call, and None if it comes later."""
        self._send = send
        self._storage = storage
        self._pending: dict[str, PendingMessage] = {}  # by client_message_id, oldest first
        self._senders: dict[str, asyncio.Task[None]] = {}  # by session id

    def restore(self) -> None:
        """Take up the messages that were pending when the app ended."""
        for frame in self._storage.get(OUTBOX) or []:
            self.add(frame)

    def add(self, frame: Frame) -> asyncio.Future[Frame]:
        """Store a message and send it after those before it; the future gets `message_ack` or the final `error`."""
        settled: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()
        self._pending[frame["client_message_id"]] = PendingMessage(frame, settled)
        self._save()
        session_id = frame["session_id"]
        if session_id not in self._senders:
            self._senders[session_id] = asyncio.create_task(self._empty(session_id))
        return settled

    def pending(self) -> list[Frame]:
        """Return the messages that are not acknowledged, oldest first."""
        return [one.frame for one in self._pending.values()]

    def remove(self, message_id: str) -> None:
        """Stop sending a message."""
        one = self._pending.pop(message_id, None)
        if one is not None:
            one.news.set()
            self._save()

    def take_answer(self, frame: Frame) -> Frame | None:
        """Take a `message_ack` or an `error`; return the pending message that its `ref` names, if there is one."""
        one = self._pending.get(frame.get("ref", ""))
        if one is None:
            return None
        one.answer = frame
        one.news.set()
        return one.frame

    def resume(self) -> None:
        """Send the first pending message of each session again: there is a new socket."""
        for one in self._pending.values():
            one.news.set()

    def stop(self) -> None:
        """Stop sending; what is pending stays stored."""
        for task in self._senders.values():
            task.cancel()

    def _save(self) -> None:
        self._storage.set(OUTBOX, self.pending())

    async def _empty(self, session_id: str) -> None:
        try:
            while (one := self._first(session_id)) is not None:
                answer = await self._send_until_settled(one)
                if answer is not None:
                    self.remove(one.frame["client_message_id"])
                    if not one.settled.done():
                        one.settled.set_result(answer)
        finally:
            del self._senders[session_id]

    def _first(self, session_id: str) -> PendingMessage | None:
        return next((one for one in self._pending.values() if one.frame["session_id"] == session_id), None)

    async def _send_until_settled(self, one: PendingMessage) -> Frame | None:
        """Return the final answer, or None if the message was removed."""
        while one.frame["client_message_id"] in self._pending:
            one.news.clear()
            one.answer = await self._send(one.frame) or one.answer
            if one.answer is None:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(one.news.wait(), RESEND_S)
            answer, one.answer = one.answer, None
            if answer is not None and answer.get("code") not in REFUSED_FOR_NOW:
                return answer
            if answer is not None:
                await asyncio.sleep(float(answer.get("retry_after_seconds", WAIT_S)))
        return None
