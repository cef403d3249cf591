"""A batch of one message has its own database function: it must answer and write what `chat_commit` does."""

import asyncio
import contextlib
import datetime as dt
from collections.abc import AsyncIterator, Iterator
from typing import Any

import asyncpg
import attrs
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from core.base import ids
from core.sessions.messages import send as message_send
from core.sessions.messages import store
from core.sessions.messages.rules import Draft, NotStored, ReadMarkers, StoreResult
from core.sessions.states import SessionStatus
from tests.flows.chats import Chat, a_chat
from tests.flows.conftest import WAITING, Harness
from tests.tiers import examples

# With a scale of 0, service time stands still at the anchor, so that both functions write the same times.
STOPPED = 0.0
EARLIER = 3  # messages of each party that are stored before
MOMENT = dt.timedelta(microseconds=1)
BATCH = """SELECT at, seqs[1] AS seq, kept_ids[1] AS kept_id, kept_ats[1] AS kept_at FROM chat_commit(
  ARRAY[$1::uuid], ARRAY[$2::int], ARRAY[$3::int], ARRAY[$4::int], ARRAY[$5::int],
  ARRAY[1], ARRAY[$6::uuid], ARRAY[$7::uuid], ARRAY[$8::uuid], ARRAY[$9::text], ARRAY[$10::text], ARRAY[$11::text], $12, $13)"""
COUNTS = "SELECT relname, n_tup_ins + n_tup_upd + n_tup_del AS count FROM pg_stat_xact_user_tables"
PREPARE = """UPDATE chat_sessions SET status = $2, expires_at = $3, customer_delivered_seq = $4, customer_read_seq = $5,
  mitra_delivered_seq = $6, mitra_read_seq = $7 WHERE id = $1"""


def of_all(seq: int) -> ReadMarkers:
    """Return four read markers at the same message."""
    return ReadMarkers(customer_delivered=seq, customer_read=seq, mitra_delivered=seq, mitra_read=seq)


markers = st.builds(
    lambda numbers: ReadMarkers(
        customer_delivered=numbers[0], customer_read=numbers[1], mitra_delivered=numbers[2], mitra_read=numbers[3]
    ),
    st.tuples(*[st.one_of(st.integers(0, 2 * EARLIER + 2), st.just(2**31 - 1))] * 4),
)
texts = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1, max_size=20)


@attrs.frozen(kw_only=True)
class Case:
    """A message and the session that it comes to. `left`: of the paid time. `key_of`: whose stored message it repeats."""

    sender: str = "customer"
    key_of: str | None = None
    status: SessionStatus = SessionStatus.ACTIVE
    left: dt.timedelta = dt.timedelta(minutes=1)
    known: bool = True
    before: ReadMarkers = attrs.field(factory=ReadMarkers)
    marks: ReadMarkers = attrs.field(factory=ReadMarkers)
    content: str = "halo"
    metadata: str | None = None


cases = st.builds(
    Case,
    sender=st.sampled_from(["customer", "mitra", "stranger"]),
    key_of=st.sampled_from([None, None, "customer", "mitra"]),
    status=st.sampled_from([SessionStatus.ACTIVE] * 3 + [SessionStatus.EXPIRED, SessionStatus.COMPLETED]),
    left=st.sampled_from([dt.timedelta(minutes=1), MOMENT, dt.timedelta(), -MOMENT]),
    known=st.sampled_from([True] * 4 + [False]),
    before=markers,
    marks=markers,
    content=texts,
    metadata=st.sampled_from([None, "{}", '{"b": ["\\"", "\\\\", null], "a": 1.50}']),
)


@attrs.frozen(kw_only=True)
class Stage:
    """A chat with messages of both parties, and a connection whose changes are rolled back."""

    chat: Chat
    keys: dict[str, str]  # sender -> the key of their stored message
    connection: asyncpg.Connection

    @contextlib.asynccontextmanager
    async def rolled_back(self) -> AsyncIterator[None]:
        """Undo what the block writes."""
        transaction = self.connection.transaction()
        await transaction.start()
        try:
            yield
        finally:
            await transaction.rollback()

    def draft(self, case: Case) -> Draft:
        """Build the message of a case."""
        parties = {"customer": self.chat.customer.user_id, "mitra": self.chat.mitra.user_id}
        return Draft(
            id=ids.new_id(),
            session_id=self.chat.id if case.known else ids.new_id(),
            sender_id=parties.get(case.sender) or ids.new_id(),
            client_message_id=self.keys[case.key_of] if case.key_of else ids.new_id(),
            type="text",
            content=case.content,
            metadata=case.metadata,
        )

    async def result(self, sql: str, draft: Draft, case: Case, now: dt.datetime) -> dict[str, Any]:
        """Return what one of the functions answers and writes."""
        of, marks = case.before, case.marks
        async with self.rolled_back():
            await self.connection.execute("SET LOCAL session_replication_role = replica")
            await self.connection.execute(
                PREPARE,
                self.chat.id,
                case.status,
                now + case.left,
                *[min(seq, 2 * EARLIER) for seq in (of.customer_delivered, of.customer_read)],
                *[min(seq, 2 * EARLIER) for seq in (of.mitra_delivered, of.mitra_read)],
            )
            await self.connection.execute("SET LOCAL session_replication_role = origin")
            before = await self._writes()
            answer = await self.connection.fetchrow(
                sql,
                draft.session_id,
                *(marks.customer_delivered, marks.customer_read, marks.mitra_delivered, marks.mitra_read),
                *(draft.id, draft.sender_id, draft.client_message_id, draft.type, draft.content, draft.metadata),
                *(now, STOPPED),
            )
            rows = {
                table: [dict(row) for row in await self.connection.fetch(f"SELECT * FROM {table} ORDER BY id")]
                for table in ("chat_sessions", "chat_messages")
            }
            written = {table for table, count in (await self._writes()).items() if count != before[table]}
        assert answer is not None
        return {"answer": dict(answer), "written": written, **rows}

    async def _writes(self) -> dict[str, int]:
        """Return how many rows of each table the connection has written."""
        return {row["relname"]: row["count"] for row in await self.connection.fetch(COUNTS)}


@pytest.fixture(scope="module")
def stage(harness: Harness) -> Iterator[Stage]:
    """Yield a chat in a database without others."""

    async def made() -> Stage:
        await harness.clear()
        chat = await a_chat(harness)
        drafts = [chat.draft(sender) for sender in (chat.customer, chat.mitra) * EARLIER]
        await chat.commit(*drafts)
        connection = await asyncpg.connect(harness.runtime.settings.database_url)
        return Stage(
            chat=chat,
            keys={"customer": drafts[0].client_message_id, "mitra": drafts[-1].client_message_id},
            connection=connection,
        )

    found = harness.run(made())
    yield found
    harness.run(found.connection.close())


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=cases)
@example(case=Case())
@example(case=Case(sender="mitra", marks=ReadMarkers(mitra_delivered=5, mitra_read=4, customer_read=2**31 - 1)))
@example(case=Case(before=of_all(2 * EARLIER), marks=of_all(2**31 - 1)))
@example(case=Case(key_of="customer", marks=ReadMarkers(customer_delivered=6)))
@example(case=Case(key_of="mitra"))
@example(case=Case(key_of="customer", status=SessionStatus.COMPLETED))
@example(case=Case(sender="stranger", marks=ReadMarkers(customer_read=6)))
@example(case=Case(left=dt.timedelta()))
@example(case=Case(left=MOMENT))
@example(case=Case(known=False))
def test_message_alone_is_answered_and_stored_as_in_a_batch(stage: Stage, case: Case) -> None:
    async def play() -> None:
        draft, now = stage.draft(case), stage.chat.harness.runtime.now()
        alone = await stage.result(store.SQL["commit_one"], draft, case, now)
        batch = await stage.result(BATCH, draft, case, now)
        assert alone == batch
        new = case.known and case.sender != "stranger" and case.key_of != case.sender
        if new and case.status is SessionStatus.ACTIVE and case.left > dt.timedelta():
            assert alone["answer"] == {"at": now, "seq": 2 * EARLIER + 1, "kept_id": None, "kept_at": None}
            assert len(alone["chat_messages"]) == 2 * EARLIER + 1

    stage.chat.harness.run(play())


def test_answers_about_a_message_alone_are_those_of_a_batch(harness: Harness) -> None:
    async def play() -> None:
        chat = await a_chat(harness)
        first = chat.draft(chat.customer)
        stranger = chat.draft(await harness.customer())
        [stored] = await chat.commit(first, mark=ReadMarkers(mitra_read=9))
        assert isinstance(stored, StoreResult)
        assert (stored.seq, stored.id, stored.repeated) == (1, first.id, False)
        again = chat.draft(chat.customer, client_message_id=first.client_message_id)
        [kept] = await chat.commit(again)
        assert kept == StoreResult(id=first.id, seq=1, created_at=stored.created_at, repeated=True)
        assert await chat.commit(again, stranger, chat.draft(chat.mitra)) == [
            kept,
            NotStored.NOT_A_PARTY,
            await _last(chat),
        ]
        assert await chat.commit(stranger) == [NotStored.NOT_A_PARTY]
        await _end(chat, harness.runtime.now())
        assert await chat.commit(chat.draft(chat.mitra)) == [NotStored.NOT_ACTIVE]
        assert await chat.commit(again) == [kept]
        assert await chat.check_complete() == 2

    harness.run(play())


async def _last(chat: Chat) -> StoreResult:
    """Return the last stored message as the answer to its sender."""
    row = (await chat.log())[-1]
    return StoreResult(id=str(row["id"]), seq=row["seq"], created_at=row["created_at"], repeated=False)


async def _end(chat: Chat, at: dt.datetime) -> None:
    """Set the end of the paid time."""
    await chat.harness.runtime.db.fetch("UPDATE chat_sessions SET expires_at = $2 WHERE id = $1", chat.id, at)


def test_message_that_waits_for_its_session_until_the_end_is_refused(harness: Harness) -> None:
    async def play() -> None:
        chat, runtime = await a_chat(harness), harness.runtime
        async with runtime.db.pool.acquire() as holder, holder.transaction():
            await holder.execute("SELECT 1 FROM chat_sessions WHERE id = $1 FOR UPDATE", chat.id)
            sending = asyncio.create_task(message_send.commit_batch(runtime, [chat.draft(chat.customer)], {}))
            await harness.until(WAITING, 1)
            # The end lies between the beginning of the wait and its end, however slow the machine is.
            ends_at = await holder.fetchval(
                "UPDATE chat_sessions SET expires_at = clock_timestamp() WHERE id = $1 RETURNING expires_at", chat.id
            )
            while await holder.fetchval("SELECT clock_timestamp()") <= ends_at:
                pass
        assert (await sending)[1] == [NotStored.NOT_ACTIVE]
        assert await chat.check_complete() == 0

    harness.run(play())
