"""How a device completes its transcripts: by `sync`, page by page (docs/protocol.md#sync)."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from .connection import Connection
from .errors import Refused
from .rest import Rest
from .transcripts import Transcripts
from .wire import Frame

SYNC_AGAIN_S = 1.0  # repeat a `sync` that the service could not answer
# The `ref` of a sync is one of these, the session id and `after`.
SYNC, REREAD = "sync", "reread"  # a page of missed messages; a page of a chat that is read again


def digest_of(messages: list[Frame]) -> str | None:
    """Return the digest of a chat from its first message on, or None if a text was removed."""
    digest = bytes(32)
    for message in messages:
        if message.get("blanked"):
            return None
        text = hashlib.sha256(message["content"].encode()).hexdigest()
        digest = hashlib.sha256(digest + f"{message['seq']}:{message['id']}:{text}\n".encode()).digest()
    return digest.hex()


class Sync:
    """The requests for missed messages, and the second reading of chats that may differ from the service's."""

    reread_within_s = 10.0  # longest random wait before chats are read again after a change of epoch

    def __init__(
        self,
        rest: Rest,
        connection: Connection,
        transcripts: Transcripts,
        *,
        keep: Callable[[str, list[Frame]], Awaitable[None]],
        missing: Callable[[str, set[str]], None],
        changed: Callable[[], None],
    ) -> None:
        """`keep` gets a session and messages; `missing` the `client_message_id`s that the service has.

        `changed` is called when the epoch has changed.
        """
        # How chats compare with the service's digests: `equal`, `reread` after a difference, or `different` after that.
        self.digests: dict[str, str] = {}
        self._rest = rest
        self._connection = connection
        self._transcripts = transcripts
        self._keep, self._missing, self._changed = keep, missing, changed
        self._epoch: str | None = None
        self._again: dict[str, dict[int, Frame]] = {}  # messages read so far, of sessions that are being read again
        self._tasks: set[asyncio.Task[None]] = set()

    def stop(self) -> None:
        """Stop all waiting requests."""
        for task in self._tasks:
            task.cancel()

    def clear(self) -> None:
        """Forget everything: the user has signed out."""
        self.stop()
        self._epoch = None
        self._again.clear()
        self.digests.clear()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def ask(self, session_id: str) -> None:
        """Request the messages after the last one without a gap."""
        await self._request(SYNC, session_id, self._transcripts.whole(session_id))

    async def _request(self, kind: str, session_id: str, after: int) -> None:
        ref = f"{kind} {session_id} {after}"
        await self._connection.send({"type": "sync", "ref": ref, "session_id": session_id, "after": after})

    async def compare(self, last_seqs: dict[str, int], ended: set[str]) -> None:
        """After `auth_ok`, request the messages of each session that has more, or has ended since the last snapshot."""
        for session_id, last_seq in last_seqs.items():
            if last_seq > self._transcripts.whole(session_id) or session_id in ended:
                await self.ask(session_id)
        for session_id in list(self._again):
            await self._read_again(session_id)

    async def take_page(self, frame: Frame) -> None:
        """Handle an answer to `sync`, and request the next page."""
        session_id = frame["session_id"]
        if _parts(frame)[0] == REREAD:
            await self._take_again(frame)
            return
        await self._keep(session_id, frame["messages"])
        await self._check_digest(frame)
        if frame["more"] or self._transcripts.has_gap(session_id):
            await self.ask(session_id)

    def take_refusal(self, frame: Frame, refused: Refused) -> bool:
        """Repeat a `sync` that was refused for now, over the same socket; return whether the error was about one."""
        kind, session_id, _ = _parts(frame)
        if kind not in (SYNC, REREAD):
            return False
        if refused.is_temporary:
            self._spawn(self._repeat(kind, session_id, refused))
        return True

    async def _repeat(self, kind: str, session_id: str, refused: Refused) -> None:
        socket = self._connection.open
        wait_s = SYNC_AGAIN_S * (0.5 + self._rest.dice.random())
        await asyncio.sleep(wait_s if refused.retry_after_s is None else float(refused.retry_after_s))
        if socket is self._connection.open:
            await (self._read_again(session_id) if kind == REREAD else self.ask(session_id))

    def see_epoch(self, epoch: str, sessions: Callable[[], set[str]]) -> bool:
        """Remember the epoch; if it has changed, read all chats again after a random wait, and return True."""
        before, self._epoch = self._epoch, epoch
        if before in (None, epoch):
            return False
        self._changed()

        async def later() -> None:
            await asyncio.sleep(self._rest.dice.random() * self.reread_within_s)
            for session_id in sorted(sessions() | self._transcripts.sessions()):
                await self._begin_again(session_id)

        self._spawn(later())
        return True

    async def _begin_again(self, session_id: str) -> None:
        self._again[session_id] = {}
        await self._read_again(session_id)

    async def _read_again(self, session_id: str) -> None:
        """Request the next page of a chat that is read again; the first page is after seq 0."""
        await self._request(REREAD, session_id, _whole(self._again.get(session_id, {})))

    def note(self, message: Frame) -> None:
        """Take a message that comes while its chat is read again."""
        found = self._again.get(message["session_id"])
        if found is not None:
            found[message["seq"]] = message

    async def _take_again(self, frame: Frame) -> None:
        """Handle a page of a chat that is read again.

        After the last page, replace the transcript by what the service has, and report which messages that is.
        """
        session_id = frame["session_id"]
        found = self._again.get(session_id)
        if found is None:
            return
        found.update({message["seq"]: message for message in frame["messages"]})
        if frame["more"] or (frame["messages"] and _whole(found) < max(found)):
            await self._read_again(session_id)
            return
        del self._again[session_id]
        self._transcripts.forget(session_id)
        await self._keep(session_id, list(found.values()))
        self._missing(session_id, {message["client_message_id"] for message in found.values()})
        await self._check_digest(frame)

    async def _check_digest(self, page: Frame) -> None:
        """Compare the transcript with the service's digest up to the end of a page; if it differs, read it again once."""
        session_id, expected, messages = page["session_id"], page.get("digest"), page["messages"]
        up_to = messages[-1]["seq"] if messages else int(_parts(page)[2] or 0)
        shown = self._transcripts.shown(session_id)
        found = digest_of(shown[:up_to]) if expected is not None and len(shown) >= up_to else None
        if found is None or session_id in self._again:
            return
        if found == expected:
            self.digests[session_id] = "equal"
        elif self.digests.get(session_id) in ("reread", "different"):
            self.digests[session_id] = "different"
        else:
            self.digests[session_id] = "reread"
            await self._begin_again(session_id)


def _parts(frame: Frame) -> tuple[str, str, str]:
    """Return the parts of the `ref` of a sync; empty texts if it is another one."""
    parts = str(frame.get("ref")).split(" ")
    return (parts[0], parts[1], parts[2]) if len(parts) == 3 else ("", "", "")


def _whole(found: dict[int, Frame]) -> int:
    """Return the seq up to which nothing is missing."""
    seq = 0
    while seq + 1 in found:
        seq += 1
    return seq
