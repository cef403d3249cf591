"""How a phone completes its transcripts: by `sync`, page by page (docs/protocol.md#sync)."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from tools.driving.client import Client, Socket
from tools.driving.phone.connection import PhoneConnection
from tools.driving.phone.transcripts import Transcripts

SYNC_AGAIN_S = 1.0  # repeat a `sync` that the service could not answer
SYNC = "sync "  # prefix of the `ref` of a sync; the session id follows
REREAD = "reread "  # prefix of the `ref` of a page that is read again after a change of epoch
Frame = dict[str, Any]


class CatchingUp:
    """The requests for missed messages, and the second reading of all chats after a change of epoch."""

    reread_within_s = 10.0  # longest random wait before chats are read again after a change of epoch

    def __init__(
        self,
        client: Client,
        connection: PhoneConnection,
        transcripts: Transcripts,
        *,
        missing: Callable[[str, set[str]], None],
    ) -> None:
        """`missing` is called with a session and the `client_message_id`s that the service has, after a reading."""
        self._client = client
        self._connection = connection
        self._transcripts = transcripts
        self._missing = missing
        self._epoch: str | None = None
        self._again: dict[str, dict[int, Frame]] = {}  # messages read so far, of sessions that are being read again
        self._tasks: set[asyncio.Task[None]] = set()

    def stop(self) -> None:
        """Stop all waiting requests."""
        for task in self._tasks:
            task.cancel()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def ask(self, session_id: str) -> None:
        """Request the messages after the last one without a gap."""
        await self._request(SYNC, session_id, self._transcripts.whole(session_id))

    async def _request(self, kind: str, session_id: str, after: int) -> None:
        await self._connection.send(
            {"type": "sync", "ref": kind + session_id, "session_id": session_id, "after": after}
        )

    async def compare(self, last_seqs: dict[str, int], known: set[str]) -> None:
        """After `auth_ok`, request the messages of each session that has more, or that the snapshot does not have."""
        for session_id in sorted(known | self._transcripts.sessions()):
            if last_seqs.get(session_id) != self._transcripts.whole(session_id):
                await self.ask(session_id)
        for session_id in list(self._again):
            await self._read_again(session_id)

    async def take_page(self, frame: Frame, keep: Callable[[str, list[Frame]], Awaitable[None]]) -> None:
        """Handle an answer to `sync`, and request the next page."""
        session_id = frame["session_id"]
        if str(frame.get("ref")).startswith(REREAD):
            await self._take_again(frame, keep)
            return
        await keep(session_id, frame["messages"])
        if frame["more"] or self._transcripts.has_gap(session_id):
            await self.ask(session_id)

    def take_refusal(self, socket: Socket, frame: Frame) -> bool:
        """Repeat a refused `sync` later, if the socket is still open; return whether the error was about a `sync`."""
        ref = str(frame.get("ref"))
        if not ref.startswith((SYNC, REREAD)):
            return False
        wait_s = float(frame.get("retry_after_seconds", SYNC_AGAIN_S * (0.5 + self._client.dice.random())))

        async def later() -> None:
            await asyncio.sleep(wait_s)
            if socket is not self._connection.open:
                return
            if ref.startswith(REREAD):
                await self._read_again(ref.removeprefix(REREAD))
            else:
                await self.ask(ref.removeprefix(SYNC))

        self._spawn(later())
        return True

    def see_epoch(self, epoch: str, sessions: Callable[[], set[str]]) -> None:
        """Remember the epoch; if it has changed, read all chats again after a random wait."""
        before, self._epoch = self._epoch, epoch
        if before in (None, epoch):
            return

        async def later() -> None:
            await asyncio.sleep(self._client.dice.random() * self.reread_within_s)
            for session_id in sorted(sessions() | self._transcripts.sessions()):
                self._again[session_id] = {}
                await self._read_again(session_id)

        self._spawn(later())

    async def _read_again(self, session_id: str) -> None:
        """Request the next page of a chat that is read again; the first page is after seq 0."""
        await self._request(REREAD, session_id, max(self._again.get(session_id, ()), default=0))

    async def _take_again(self, frame: Frame, keep: Callable[[str, list[Frame]], Awaitable[None]]) -> None:
        """Handle a page of a chat that is read again.

        After the last page, replace the transcript by what the service has, and report which messages that is.
        """
        session_id = frame["session_id"]
        found = self._again.get(session_id)
        if found is None:
            return
        found.update({message["seq"]: message for message in frame["messages"]})
        if frame["more"]:
            await self._read_again(session_id)
            return
        del self._again[session_id]
        self._transcripts.forget(session_id)
        await keep(session_id, list(found.values()))
        self._missing(session_id, {message["client_message_id"] for message in found.values()})
