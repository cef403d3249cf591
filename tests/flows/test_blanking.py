"""The texts of a completed session are blanked for good; its rows stay (docs/product.md#blanked-sessions)."""

import asyncio
from typing import Any

import asyncpg
import pytest

from core.base import ids
from core.base.actor import Actor
from core.base.pages import read_page
from core.desk.ledger.audit import audit
from core.desk.timeline.timeline import timeline
from core.runtime.container import Runtime
from core.sessions import histories
from core.sessions.messages import blank as blank_texts
from core.sessions.messages import chats
from core.sessions.messages import send as message_send
from core.sessions.messages.chats import MessageView
from core.sessions.messages.rules import StoreResult
from tests.flows.chats import GOODBYE, META, SECRET, Chat, a_chat, completed_chat
from tests.flows.conftest import READER, WAITING, Harness

KEPT = """SELECT id, session_id, seq, sender_type, sender_id, client_message_id, type, status, delivered_at, read_at, created_at
  FROM chat_messages WHERE session_id = $1 ORDER BY seq"""
TABLES = """SELECT format('SELECT count(*) FROM %I AS t WHERE t::text LIKE $1', relname) FROM pg_class
  WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition"""
TEXTS = "SELECT count(*) FROM chat_messages WHERE session_id = $1 AND content <> ''"


async def blank(runtime: Runtime, *session_ids: str) -> list[str]:
    """Blank sessions as a flow does; return the ids of those that had texts."""
    async with runtime.transaction() as tx:
        found = await blank_texts.blank_sessions(tx, session_ids)
    await finish(runtime, *session_ids)
    return found


async def finish(runtime: Runtime, *session_ids: str) -> int:
    """Blank what is left of the messages of blanked sessions; return in how many parts."""
    parts = 0
    while True:
        async with runtime.transaction() as tx:
            if not await blank_texts.blank_messages(tx, session_ids or None):
                return parts
        parts += 1


async def holders(runtime: Runtime, text: str) -> dict[str, int]:
    """Return how often a text is in each statement's table, without those that have none."""
    found = {row[0]: await runtime.db.fetchval(row[0], f"%{text}%") for row in await runtime.db.fetch(TABLES)}
    return {sql: count for sql, count in found.items() if count}


def texts_of(views: list[MessageView]) -> list[Any]:
    return [(view.content, view.metadata, view.blanked) for view in views]


def test_blanked_session_keeps_everything_but_its_texts(clean_harness: Harness) -> None:
    runtime = clean_harness.runtime

    async def play() -> None:
        chat, other = await completed_chat(clean_harness), await completed_chat(clean_harness)
        rows, session = (
            await runtime.db.fetch(KEPT, chat.id),
            await chat.row("SELECT * FROM chat_sessions WHERE id = $1"),
        )
        assert await blank(runtime, chat.id) == [chat.id]
        assert await runtime.db.fetch(KEPT, chat.id) == rows
        after = dict(await chat.row("SELECT * FROM chat_sessions WHERE id = $1"))
        assert after.pop("blanked_at") is not None
        assert after == {name: value for name, value in dict(session).items() if name != "blanked_at"}
        for row in await chat.log():
            assert (row["content"], row["metadata"]) == ("", None)
        assert {row["content"] for row in await other.log()} == {SECRET}

    clean_harness.run(play())


def test_no_table_holds_a_text_of_a_blanked_session(clean_harness: Harness) -> None:
    """Neither stored events nor the answers of repeated requests hold one, so there is nothing else to remove."""
    runtime = clean_harness.runtime

    async def play() -> None:
        chat = await completed_chat(clean_harness)
        for text in (SECRET, META, GOODBYE):
            assert len(await holders(runtime, text)) == 1
        await blank(runtime, chat.id)
        for text in (SECRET, META, GOODBYE):
            assert await holders(runtime, text) == {}

    clean_harness.run(play())


def test_readers_see_no_text_from_the_moment_a_session_is_marked(clean_harness: Harness) -> None:
    runtime = clean_harness.runtime

    async def seen(chat: Chat, party: Actor) -> list[Any]:
        listed = await chats.messages(runtime, party, chat.id, after=None, before=None, limit=50)
        synced = await chats.messages_after(runtime, chat.id, after=0, limit=50)
        assert listed == synced
        closures = (await chats.session(runtime, party, chat.id)).closures
        return [*texts_of(listed), *((one.message, one.blanked) for one in closures)]

    async def play() -> None:
        chat = await completed_chat(clean_harness)
        people = (chat.customer, chat.mitra)
        texts = [(SECRET, {"k": META}, False)] * 3 + [(GOODBYE, False)] * 2
        assert [await seen(chat, party) for party in people] == [texts] * 2
        async with runtime.transaction() as tx:
            await blank_texts.blank_sessions(tx, [chat.id])
        assert await runtime.db.fetchval(TEXTS, chat.id) == 3
        nothing = [("", None, True)] * 3 + [("", True)] * 2
        assert [await seen(chat, party) for party in people] == [nothing] * 2
        await finish(runtime)
        assert await runtime.db.fetchval(TEXTS, chat.id) == 0
        assert [await seen(chat, party) for party in people] == [nothing] * 2
        page = read_page(None, 10)
        for items in (
            (await histories.customer_history(runtime, chat.customer, page)).items,
            (await histories.mitra_history(runtime, chat.mitra, page)).items,
        ):
            assert [(one.message, one.blanked) for one in items[0].closures] == [("", True)] * 2
        paid = await chat.row("SELECT payment_request_id::text AS id FROM chat_sessions WHERE id = $1")
        entries = [one.text for one in (await timeline(runtime, READER, paid["id"])).entries if one.kind == "goodbye"]
        assert entries == [f"The {side} said goodbye; the text was removed" for side in ("customer", "mitra")]

    clean_harness.run(play())


def test_party_of_a_blanked_session_can_still_send_again_and_mark_as_read(clean_harness: Harness) -> None:
    runtime = clean_harness.runtime

    async def play() -> None:
        chat = await completed_chat(clean_harness)
        first = (await chat.log())[0]
        await blank(runtime, chat.id)
        (again,) = await chat.commit(chat.draft(chat.mitra, SECRET, client_message_id=str(first["client_message_id"])))
        assert isinstance(again, StoreResult)
        assert (again.repeated, again.seq) == (True, 1)
        await message_send.mark_read(runtime, chat.mitra, session_id=chat.id, up_to=3)
        assert await message_send.sync_statuses(runtime, {chat.id: 0}) == {chat.id: 3}
        assert {row["status"] for row in await chat.log()} == {"read"}
        assert await runtime.db.fetchval(TEXTS, chat.id) == 0

    clean_harness.run(play())


def test_only_completed_sessions_are_blanked_and_only_once(clean_harness: Harness) -> None:
    runtime = clean_harness.runtime

    async def play() -> None:
        active, empty = await a_chat(clean_harness), await completed_chat(clean_harness, messages=0)
        await active.commit(active.draft(active.customer, SECRET))
        assert await blank(runtime, active.id, empty.id, ids.new_id()) == [empty.id]
        assert await runtime.db.fetchval(TEXTS, active.id) == 1
        before = await empty.row("SELECT blanked_at, blanked_seq FROM chat_sessions WHERE id = $1")
        assert before["blanked_seq"] is None
        assert await blank(runtime, empty.id) == []
        assert await empty.row("SELECT blanked_at, blanked_seq FROM chat_sessions WHERE id = $1") == before

    clean_harness.run(play())


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE chat_messages SET content = '' WHERE session_id = $1",
        "UPDATE chat_messages SET content = 'x' WHERE session_id = $1",
        "UPDATE chat_messages SET metadata = NULL WHERE session_id = $1",
        "UPDATE session_closures SET message = '' WHERE session_id = $1",
        "UPDATE session_closures SET message = 'x' WHERE session_id = $1",
        "UPDATE chat_sessions SET blanked_seq = 0 WHERE id = $1",
    ],
)
def test_database_refuses_to_change_a_text_without_blanking_the_session(clean_harness: Harness, sql: str) -> None:
    async def play() -> None:
        chat = await completed_chat(clean_harness)
        with pytest.raises(asyncpg.CheckViolationError):
            await clean_harness.runtime.db.fetch(sql, chat.id)

    clean_harness.run(play())


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE chat_messages SET content = 'x' WHERE session_id = $1",
        "UPDATE chat_messages SET metadata = '{}' WHERE session_id = $1",
        "UPDATE session_closures SET message = 'x' WHERE session_id = $1",
        "UPDATE chat_sessions SET blanked_at = NULL WHERE id = $1",
        "UPDATE chat_sessions SET blanked_at = now() WHERE id = $1",
    ],
)
def test_database_refuses_to_undo_a_blanking(clean_harness: Harness, sql: str) -> None:
    async def play() -> None:
        chat = await completed_chat(clean_harness)
        await blank(clean_harness.runtime, chat.id)
        with pytest.raises(asyncpg.CheckViolationError):
            await clean_harness.runtime.db.fetch(sql, chat.id)

    clean_harness.run(play())


def test_database_refuses_to_mark_a_running_session_as_blanked(clean_harness: Harness) -> None:
    async def play() -> None:
        chat = await a_chat(clean_harness)
        with pytest.raises(asyncpg.CheckViolationError):
            await chat.row("UPDATE chat_sessions SET blanked_at = now() WHERE id = $1")

    clean_harness.run(play())


def test_long_session_is_blanked_in_bounded_parts_and_goes_on_after_a_death(
    clean_harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part that is not committed is done again; committed ones are not."""
    runtime = clean_harness.runtime
    monkeypatch.setattr(blank_texts, "MESSAGES_AT_ONCE", 4)

    async def left(chat: Chat) -> tuple[int, int | None]:
        row = await chat.row("SELECT blanked_seq FROM chat_sessions WHERE id = $1")
        return await runtime.db.fetchval(TEXTS, chat.id), row["blanked_seq"]

    async def part(*, dies: bool = False) -> None:
        async with runtime.transaction() as tx:
            assert await blank_texts.blank_messages(tx)
            if dies:
                raise LookupError

    async def play() -> None:
        short, long = await completed_chat(clean_harness, messages=3), await completed_chat(clean_harness, messages=10)
        async with runtime.transaction() as tx:
            await blank_texts.blank_sessions(tx, [short.id, long.id])
        await part()
        assert [await left(short), await left(long)] == [(0, None), (9, 1)]
        with pytest.raises(LookupError):
            await part(dies=True)
        assert await left(long) == (9, 1)
        await part()
        assert await left(long) == (5, 5)
        assert await finish(runtime) == 2
        assert await left(long) == (0, None)

    clean_harness.run(play())


def test_two_processes_share_the_sessions_and_a_named_session_is_waited_for(clean_harness: Harness) -> None:
    runtime = clean_harness.runtime

    async def play() -> None:
        chat = await completed_chat(clean_harness)
        async with runtime.transaction() as tx:
            await blank_texts.blank_sessions(tx, [chat.id])
        async with runtime.transaction() as first:
            assert await blank_texts.blank_messages(first)
            async with runtime.transaction() as second:
                assert not await blank_texts.blank_messages(second)
            waiter = asyncio.ensure_future(finish(runtime, chat.id))
            await clean_harness.until(WAITING, 1)
        assert await waiter == 0
        assert await runtime.db.fetchval(TEXTS, chat.id) == 0

    clean_harness.run(play())


def test_audit_accepts_blanked_sessions(empty_harness: Harness) -> None:
    runtime = empty_harness.runtime

    async def play() -> None:
        chat, unfinished = await completed_chat(empty_harness), await completed_chat(empty_harness)
        before = {one.rule for one in (await audit(runtime)).violations}
        await blank(runtime, chat.id)
        async with runtime.transaction() as tx:
            await blank_texts.blank_sessions(tx, [unfinished.id])
        assert {one.rule for one in (await audit(runtime)).violations} == before

    empty_harness.run(play())
