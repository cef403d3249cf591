"""An active session in the tests' own process, and checks of its stored messages."""

from collections.abc import Coroutine
from typing import Any

import attrs
import msgspec

from core.base import ids
from core.base.actor import Actor
from core.pairing import presence
from core.sessions import end as end_session
from core.sessions.messages import send as message_send
from core.sessions.messages.rules import Draft, NotStored, ReadMarkers, StoreResult
from tests.flows.conftest import Harness

# The texts of a completed chat: of each message, in its metadata, and of the goodbyes.
SECRET, META, GOODBYE = "rahasia-teks", "rahasia-meta", "rahasia-pamit"


@attrs.frozen(kw_only=True)
class Chat:
    """An active session and its parties."""

    harness: Harness
    id: str
    customer: Actor
    mitra: Actor

    def draft(self, sender: Actor, content: str = "halo", *, client_message_id: str | None = None) -> Draft:
        """Build a message of `sender`."""
        return Draft(
            id=ids.new_id(),
            session_id=self.id,
            sender_id=sender.user_id,
            client_message_id=client_message_id or ids.new_id(),
            type="text",
            content=content,
            metadata=None,
        )

    def commit(
        self, *drafts: Draft, mark: ReadMarkers | None = None
    ) -> Coroutine[Any, Any, list[StoreResult | NotStored]]:
        """Commit a batch; return one result for each message and mark."""
        return self._commit(list(drafts), {} if mark is None else {self.id: mark})

    async def _commit(self, drafts: list[Draft], marks: dict[str, ReadMarkers]) -> list[StoreResult | NotStored]:
        return (await message_send.commit_batch(self.harness.runtime, drafts, marks))[1]

    async def row(self, sql: str) -> Any:
        """Return the session's row, or what `sql` selects about it."""
        return await self.harness.runtime.db.fetchrow(sql, self.id)

    async def log(self) -> list[Any]:
        """Return the stored messages, ordered by seq."""
        return await self.harness.runtime.db.fetch(
            "SELECT * FROM chat_messages WHERE session_id = $1 ORDER BY seq", self.id
        )

    async def check_complete(self) -> int:
        """Check that the seqs have no gap and agree with the session; return the number of messages."""
        stored = await self.log()
        last = await self.row("SELECT last_seq FROM chat_sessions WHERE id = $1")
        assert [row["seq"] for row in stored] == list(range(1, last["last_seq"] + 1))
        assert len({row["client_message_id"] for row in stored}) == len(stored)
        assert [row["created_at"] for row in stored] == sorted(row["created_at"] for row in stored)
        return len(stored)


async def a_chat(harness: Harness) -> Chat:
    """Create a session of a new customer and a new mitra, and take the mitra offline."""
    customer, mitra = await harness.customer(), await harness.mitra()
    await presence.go_online(harness.runtime, mitra)
    session_id = await harness.start_session(customer, mitra)
    await presence.go_offline(harness.runtime, mitra_id=mitra.user_id)
    return Chat(harness=harness, id=session_id, customer=customer, mitra=mitra)


async def completed_chat(harness: Harness, *, messages: int = 3) -> Chat:
    """Create a completed session of two goodbyes, whose messages all have a text and metadata."""
    chat = await a_chat(harness)
    drafts = [
        msgspec.structs.replace(
            chat.draft(chat.customer if n % 2 else chat.mitra, SECRET), metadata=f'{{"k": "{META}"}}'
        )
        for n in range(messages)
    ]
    if drafts:
        await chat.commit(*drafts)
        await chat.commit(mark=ReadMarkers(customer_delivered=messages, customer_read=messages))
    runtime = harness.runtime
    # The paid time ends now, so that the parties may say goodbye.
    await runtime.db.fetch("UPDATE chat_sessions SET expires_at = $2 WHERE id = $1", chat.id, runtime.now())
    for party in (chat.customer, chat.mitra):
        await end_session.say_goodbye(runtime, party, session_id=chat.id, message=GOODBYE)
    return chat
