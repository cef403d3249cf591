"""Own messages without an acknowledgement (docs/protocol.md#sending)."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import attrs

from .errors import Refused
from .storage import OUTBOX, DeviceStorage
from .wire import Frame, Json

RESEND_S = 2.0  # repeat a message that is not acknowledged within this time
WAIT_S = 1.0  # before a message is repeated that was refused for now, without a number of seconds


def refusal_of(frame: Frame) -> Refused:
    """Return an `error` frame as an exception."""
    return Refused(0, {"error": frame})


@attrs.define(eq=False)
class Unsent:
    """One message. `answer` is the last answer to it; `settled` gets the final one."""

    frame: Frame
    refusal: Json | None  # the final refusal: the message stays here until it is sent again or discarded
    settled: asyncio.Future[Frame]
    news: asyncio.Event = attrs.field(factory=asyncio.Event)
    answer: Frame | Refused | None = None

    @property
    def id(self) -> str:
        """Return the `client_message_id`."""
        return self.frame["client_message_id"]


class Outbox:
    """The unsent messages of all sessions: stored before they are sent, and sent in order, one at a time a session."""

    def __init__(self, send: Callable[[Frame], Awaitable[Frame | Refused | None]], storage: DeviceStorage) -> None:
        """`send` sends a message; it returns the answer if that comes with the call, and None if it comes later."""
        self._send = send
        self._storage = storage
        self._entries: dict[str, Unsent] = {}  # by client_message_id, oldest first
        self._senders: dict[str, asyncio.Task[None]] = {}  # by session id

    def restore(self) -> None:
        """Take up the messages that were unsent when the app ended."""
        for stored in self._storage.get(OUTBOX) or []:
            if stored["frame"]["client_message_id"] not in self._entries:
                self._add(stored["frame"], stored["refusal"])

    def add(self, frame: Frame) -> asyncio.Future[Frame]:
        """Store a message and send it after those before it; the future gets `message_ack`, or raises Refused."""
        settled = self._add(frame, None)
        self._save()
        return settled

    def _add(self, frame: Frame, refusal: Json | None) -> asyncio.Future[Frame]:
        settled: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()
        entry = self._entries[frame["client_message_id"]] = Unsent(frame, refusal, settled)
        self._wake(entry)
        return settled

    def _wake(self, entry: Unsent) -> None:
        session_id = entry.frame["session_id"]
        if session_id not in self._senders and entry.refusal is None:
            self._senders[session_id] = asyncio.create_task(self._empty(session_id))

    def entries(self, session_id: str) -> list[Unsent]:
        """Return the unsent messages of a session, oldest first."""
        return [entry for entry in self._entries.values() if entry.frame["session_id"] == session_id]

    def pending(self) -> list[Frame]:
        """Return the messages of all sessions that will be sent, oldest first."""
        return [entry.frame for entry in self._entries.values() if entry.refusal is None]

    def remove(self, message_id: str) -> None:
        """Stop sending a message: the service has it, or the user has given it up."""
        entry = self._entries.pop(message_id, None)
        if entry is not None:
            entry.news.set()
            self._save()

    def retry(self, message_id: str) -> None:
        """Send a refused message once more."""
        entry = self._entries.get(message_id)
        if entry is not None and entry.refusal is not None:
            self.add(entry.frame)

    def take_answer(self, message_id: str | None, answer: Frame | Refused) -> Frame | None:
        """Take the answer to a message; return the message if it is here."""
        entry = self._entries.get(message_id or "")
        if entry is None:
            return None
        entry.answer = answer
        entry.news.set()
        return entry.frame

    def resume(self) -> None:
        """Send the first unsent message of each session again: there is a new socket."""
        for entry in self._entries.values():
            entry.news.set()

    def stop(self) -> None:
        """Stop sending; what is unsent stays stored."""
        for task in self._senders.values():
            task.cancel()
        self._senders.clear()

    def clear(self) -> None:
        """Stop sending, and forget everything: the user has signed out."""
        self.stop()
        for entry in self._entries.values():
            entry.settled.cancel()
        self._entries.clear()

    def start(self) -> None:
        """Send what is unsent, after `stop`."""
        for entry in self._entries.values():
            self._wake(entry)

    def _save(self) -> None:
        stored: list[Any] = [{"frame": entry.frame, "refusal": entry.refusal} for entry in self._entries.values()]
        self._storage.set(OUTBOX, stored)

    async def _empty(self, session_id: str) -> None:
        try:
            while (entry := self._first(session_id)) is not None:
                self._settle(entry, await self._send_until_settled(entry))
        finally:
            if self._senders.get(session_id) is asyncio.current_task():
                del self._senders[session_id]

    def _first(self, session_id: str) -> Unsent | None:
        return next((entry for entry in self.entries(session_id) if entry.refusal is None), None)

    def _settle(self, entry: Unsent, answer: Frame | Refused | None) -> None:
        if isinstance(answer, Refused):
            entry.refusal = answer.body["error"]
            self._save()
            if not entry.settled.done():
                entry.settled.set_exception(answer)
                entry.settled.exception()  # `send` does not wait for it
        elif answer is not None:
            self.remove(entry.id)
            if not entry.settled.done():
                entry.settled.set_result(answer)

    async def _send_until_settled(self, entry: Unsent) -> Frame | Refused | None:
        """Return the final answer, or None if the message was removed."""
        while self._entries.get(entry.id) is entry:
            entry.news.clear()
            entry.answer = await self._send(entry.frame) or entry.answer
            if entry.answer is None:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(RESEND_S):
                        await entry.news.wait()
            answer, entry.answer = entry.answer, None
            if answer is None:
                continue
            if not isinstance(answer, Refused) or not answer.is_temporary:
                return answer
            await asyncio.sleep(WAIT_S if answer.retry_after_s is None else float(answer.retry_after_s))
        return None
