"""The message path on a real PostgreSQL: several concurrent writers, and what is stored afterwards."""

import asyncio
import datetime as dt
from collections.abc import Coroutine
from typing import Any

import msgspec
import pytest

from core.base import ids
from core.base.actor import Actor
from core.base.errors import DomainError, NotFound
from core.sessions import end as end_session
from core.sessions import store as sessions
from core.sessions import timers as session_timers
from core.sessions.messages import send as message_send
from core.sessions.messages.rules import NotStored, ReadMarkers, StoreResult, TooFast
from core.sessions.rules import SessionNotActive
from tests.flows.chats import Chat, a_chat
from tests.flows.conftest import Harness

WRITE_EVERY_S = 0.01  # 15 messages of each party in the 0.15 s that a session has left; the limit allows 30


@pytest.fixture
def chat(harness: Harness) -> Chat:
    return harness.run(a_chat(harness))


async def together(*work: Coroutine[Any, Any, Any]) -> list[Any]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one) for one in work]
    return [task.result() for task in tasks]


def test_concurrent_writers_store_messages_without_gaps_in_each_senders_order(chat: Chat) -> None:
    async def write(sender: Actor) -> list[StoreResult | NotStored]:
        placed = []
        for n in range(30):
            batch = [chat.draft(sender, f"{n}-{m}") for m in range(1 + n % 4)]
            placed += await chat.commit(*batch)
        return placed

    async def play() -> None:
        hers, theirs = await together(write(chat.customer), write(chat.mitra))
        total = await chat.check_complete()
        assert total == len(hers) + len(theirs) == 2 * sum(1 + n % 4 for n in range(30))
        for answers, sender in ((hers, "customer"), (theirs, "mitra")):
            assert [placed.seq for placed in answers] == sorted(placed.seq for placed in answers)
            stored = {row["seq"]: row for row in await chat.log() if row["sender_type"] == sender}
            assert [str(stored[placed.seq]["id"]) for placed in answers] == [placed.id for placed in answers]
            assert [row["content"] for row in stored.values()] == [
                f"{n}-{m}" for n in range(30) for m in range(1 + n % 4)
            ]

    chat.harness.run(play())


def test_message_sent_by_several_writers_is_stored_once_with_one_answer(chat: Chat) -> None:
    async def play() -> None:
        keys = [ids.new_id() for _ in range(20)]

        async def write() -> list[StoreResult | NotStored]:
            answers = []
            for key in keys:
                answers += await chat.commit(
                    chat.draft(chat.customer, client_message_id=key), chat.draft(chat.customer, "other")
                )
            return answers[::2]

        runs = await together(*(write() for _ in range(4)))
        assert await chat.check_complete() == len(keys) + 4 * len(keys)
        for answers in zip(*runs, strict=True):
            assert len({(placed.id, placed.seq, placed.created_at) for placed in answers}) == 1
            assert [placed.repeated for placed in answers].count(False) == 1

    chat.harness.run(play())


def test_same_client_message_id_from_the_other_party_is_another_message(chat: Chat) -> None:
    async def play() -> None:
        key = ids.new_id()
        hers, theirs = await together(
            chat.commit(chat.draft(chat.customer, client_message_id=key)),
            chat.commit(chat.draft(chat.mitra, client_message_id=key)),
        )
        assert sorted((hers[0].seq, theirs[0].seq)) == [1, 2]
        assert not hers[0].repeated
        assert not theirs[0].repeated

    chat.harness.run(play())


def test_batch_with_a_message_of_a_stranger_stores_the_other_messages(chat: Chat) -> None:
    async def play() -> None:
        stranger = await chat.harness.customer()
        unknown = msgspec.structs.replace(chat.draft(chat.customer), session_id=ids.new_id())
        answers = await chat.commit(
            chat.draft(chat.customer), chat.draft(stranger), unknown, chat.draft(chat.mitra), chat.draft(stranger)
        )
        no = NotStored.NOT_A_PARTY
        assert [answer.seq if isinstance(answer, StoreResult) else answer for answer in answers] == [1, no, no, 2, no]
        assert await chat.check_complete() == 2
        with pytest.raises(NotFound):
            await message_send.send_one(chat.harness.runtime, stranger, chat.draft(stranger))

    chat.harness.run(play())


async def _write_until_refused(chat: Chat, sender: Actor) -> list[StoreResult]:
    """Send messages until the session has ended, within the rate limit; return the stored messages.

    The pause after each message makes the burst last for the whole test, so that both parties are writing when the
    session ends.
    """
    runtime = chat.harness.runtime
    stored: list[StoreResult] = []
    while True:
        try:
            stored.append(await message_send.send_one(runtime, sender, chat.draft(sender)))
            await asyncio.sleep(WRITE_EVERY_S / runtime.clock.scale)
        except TooFast as refused:
            await asyncio.sleep((refused.retry_after_seconds or 1) / runtime.clock.scale)
        except SessionNotActive:
            return stored


async def _from_inside(chat: Chat, change: Coroutine[Any, Any, Any]) -> Any:
    """Make a change as soon as some messages are stored."""
    while (await chat.row("SELECT last_seq FROM chat_sessions WHERE id = $1"))["last_seq"] < 10:
        pass
    return await change


async def _expire_soon(chat: Chat) -> None:
    """Let the session end in 0.1 s; a job records its end a little later."""
    runtime = chat.harness.runtime
    async with runtime.transaction() as tx:
        assert await sessions.lock(tx, chat.id)  # later messages see the new end
        await tx.execute(
            "UPDATE chat_sessions SET expires_at = $2, paired_at = paired_at + ($2::timestamptz - expires_at) WHERE id = $1",
            chat.id,
            tx.now + dt.timedelta(seconds=0.1),
        )
    await asyncio.sleep(0.15 / runtime.clock.scale)
    async with asyncio.timeout(20):
        # A sweep leaves a session to the next one while a message locks it.
        while (await chat.row("SELECT status FROM chat_sessions WHERE id = $1"))["status"] == "active":
            await session_timers.expire(runtime)


@pytest.mark.parametrize("ending", ["by time", "by the customer"])
def test_messages_after_the_end_are_refused_and_acknowledged_ones_stay(chat: Chat, ending: str) -> None:
    runtime = chat.harness.runtime

    async def play() -> None:
        if ending == "by time":
            change = _expire_soon(chat)
        else:
            runtime.config.values["early_end_customer_enabled"] = True
            change = end_session.end(runtime, chat.customer, session_id=chat.id)
        hers, theirs, _ = await together(
            _write_until_refused(chat, chat.customer),
            _write_until_refused(chat, chat.mitra),
            _from_inside(chat, change),
        )
        assert await chat.check_complete() == len(hers) + len(theirs) >= 10
        row = await chat.row("SELECT status, expires_at, ended_at FROM chat_sessions WHERE id = $1")
        assert row["status"] == ("expired" if ending == "by time" else "closing")
        assert (await chat.log())[-1]["created_at"] <= row["expires_at"]
        # Repeated after the end, a stored message still gets its first answer; a new one is refused.
        first = (await chat.log())[0]
        sender = chat.customer if first["sender_type"] == "customer" else chat.mitra
        again = chat.draft(sender, client_message_id=str(first["client_message_id"]))
        answers = await chat.commit(chat.draft(chat.customer), again, chat.draft(chat.mitra))
        assert (answers[0], answers[2]) == (NotStored.NOT_ACTIVE, NotStored.NOT_ACTIVE)
        assert isinstance(answers[1], StoreResult)
        assert (answers[1].seq, answers[1].id, answers[1].repeated) == (1, str(first["id"]), True)
        assert await chat.check_complete() == len(hers) + len(theirs)

    try:
        chat.harness.run(play())
    finally:
        runtime.config.values["early_end_customer_enabled"] = False


MARKS = """SELECT customer_delivered_seq, customer_read_seq, mitra_delivered_seq, mitra_read_seq, last_seq
  FROM chat_sessions WHERE id = $1"""


def test_read_markers_never_decrease_or_exceed_the_last_message(chat: Chat) -> None:
    async def play() -> None:
        done = asyncio.Event()

        async def write() -> None:
            for _ in range(40):
                await chat.commit(chat.draft(chat.mitra))
            done.set()

        async def mark(bounds: list[int]) -> None:
            for bound in bounds:
                await chat.commit(mark=ReadMarkers(customer_delivered=bound, customer_read=bound))

        async def watch() -> None:
            before = (0, 0)
            while not done.is_set():
                row = await chat.row(MARKS)
                now = (row["customer_delivered_seq"], row["customer_read_seq"])
                assert all(new >= old for new, old in zip(now, before, strict=True))
                assert max(now) <= row["last_seq"]
                before = now

        up, down = list(range(1, 41)), list(range(40, 0, -1))
        await together(write(), mark(up), mark(down), mark([2**31 - 1] * 10), watch())
        await chat.commit(mark=ReadMarkers(customer_read=7, customer_delivered=7))
        await chat.commit(mark=ReadMarkers(customer_read=40, customer_delivered=40))
        await chat.commit(mark=ReadMarkers(customer_read=7, customer_delivered=7))
        assert dict(await chat.row(MARKS)) == {
            "customer_delivered_seq": 40,
            "customer_read_seq": 40,
            "mitra_delivered_seq": 0,
            "mitra_read_seq": 0,
            "last_seq": 40,
        }

    chat.harness.run(play())


def test_read_marker_beyond_the_last_message_is_clamped(chat: Chat) -> None:
    async def play() -> None:
        await chat.commit(chat.draft(chat.mitra))
        await message_send.mark_read(chat.harness.runtime, chat.customer, session_id=chat.id, up_to=2**31 - 1)
        assert (await chat.row(MARKS))["customer_read_seq"] == 1
        await chat.commit(chat.draft(chat.mitra), mark=ReadMarkers(mitra_delivered=2**31 - 1, mitra_read=2**31 - 1))
        assert (await chat.row(MARKS))["customer_read_seq"] == 1
        await message_send.mark_read(chat.harness.runtime, chat.customer, session_id=chat.id, up_to=2)
        row = await chat.row(MARKS)
        assert (row["customer_read_seq"], row["customer_delivered_seq"], row["last_seq"]) == (2, 2, 2)
        assert (await chat.row("SELECT mitra_read_seq AS n FROM chat_sessions WHERE id = $1"))["n"] <= 2

    chat.harness.run(play())


def test_stranger_cannot_move_a_read_marker(chat: Chat) -> None:
    async def play() -> None:
        await chat.commit(chat.draft(chat.mitra))
        stranger = await chat.harness.customer()
        with pytest.raises(DomainError) as refused:
            await message_send.mark_read(chat.harness.runtime, stranger, session_id=chat.id, up_to=1)
        assert refused.value.code == "NOT_FOUND"
        assert (await chat.row(MARKS))["customer_read_seq"] == 0

    chat.harness.run(play())


def test_status_sync_updates_messages_up_to_the_stored_markers_only(chat: Chat) -> None:
    async def play() -> list[dict[str, int]]:
        senders = (chat.customer, chat.mitra) * 2
        await chat.commit(*(chat.draft(sender) for sender in senders))
        final = [await message_send.sync_statuses(chat.harness.runtime, {chat.id: 0})]  # no message is delivered yet
        await chat.commit(mark=ReadMarkers(customer_delivered=4, customer_read=2, mitra_delivered=3, mitra_read=3))
        final.append(await message_send.sync_statuses(chat.harness.runtime, {chat.id: 0}))
        final.append(await message_send.sync_statuses(chat.harness.runtime, {chat.id: 2}))
        return final

    assert chat.harness.run(play()) == [{}, {chat.id: 2}, {chat.id: 2}]
    log = chat.harness.run(chat.log())
    assert [row["status"] for row in log] == ["read", "read", "read", "delivered"]
    assert [row["read_at"] is None for row in log] == [False, False, False, True]
