"""The digest of a chat: the database computes the one of docs/fairness.md, whatever is stored, blanked or read."""

import asyncio
import hashlib
import json
import pathlib
from typing import Any

import hypothesis.strategies as st
from hypothesis import HealthCheck, given, settings

from core.base import ids
from core.sessions.messages import blank as blank_texts
from core.sessions.messages import chats, digests
from core.sessions.messages.rules import MAX_CONTENT
from tests.flows.chats import Chat, a_chat, completed_chat
from tests.flows.conftest import Harness
from tests.tiers import examples

VECTORS = json.loads((pathlib.Path(__file__).parents[1] / "vectors/digests/digests.json").read_text(encoding="utf-8"))
STORED = "SELECT seq, encode(digest, 'hex') AS digest FROM chat_digests WHERE session_id = $1 ORDER BY seq"
# Long chats, without the time that committing each message would take.
FILL = """INSERT INTO chat_messages (id, session_id, seq, sender_type, sender_id, client_message_id, type, content, created_at)
  SELECT gen_random_uuid(), $1, n, 'customer', $2, gen_random_uuid(), 'text', 'pesan ' || n, now()
  FROM generate_series($3::int, $4::int) AS n"""


def digests_of(messages: list[tuple[int, str, str]]) -> list[str]:
    """Return the digest after each message (seq, id, content), as the page defines it."""
    digest, found = bytes(32), []
    for seq, message_id, content in messages:
        text = f"{seq}:{message_id}:{hashlib.sha256(content.encode()).hexdigest()}\n"
        digest = hashlib.sha256(digest + text.encode()).digest()
        found.append(digest.hex())
    return found


async def expected(chat: Chat) -> list[str]:
    return digests_of([(row["seq"], str(row["id"]), row["content"]) for row in await chat.log()])


async def fill(chat: Chat, first: int, last: int) -> None:
    async with chat.harness.runtime.transaction() as tx:
        await tx.execute(FILL, chat.id, chat.customer.user_id, first, last)
        await tx.execute("UPDATE chat_sessions SET last_seq = $2 WHERE id = $1", chat.id, last)


def test_python_definition_equals_the_vectors() -> None:
    assert len(VECTORS) >= 5
    for vector in VECTORS:
        messages = [(one["seq"], one["id"], one["content"]) for one in vector["messages"]]
        assert digests_of(messages) == vector["digests"], vector["name"]


content = st.text(
    st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1, max_size=MAX_CONTENT
) | st.sampled_from(["a", "é", "é", "😀" * 50, "\n", ":", "1:2:3\n"])


@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(content, min_size=1, max_size=6), st.lists(st.integers(0, 7), max_size=4))
def test_database_digest_of_any_texts_equals_the_definition(
    clean_harness: Harness, texts: list[str], asked: list[int]
) -> None:
    async def play() -> None:
        chat = await a_chat(clean_harness)
        for place, text in enumerate(texts):
            (stored,) = await chat.commit(chat.draft(chat.customer if place % 2 else chat.mitra, text))
            assert not isinstance(stored, bool)
        known = ["00" * 32, *await expected(chat)]
        for up_to in asked:
            wanted = (known[up_to] if up_to < len(known) else None, False)
            assert await chats.digest(clean_harness.runtime, chat.id, up_to=up_to) == wanted

    clean_harness.run(play())


@settings(max_examples=examples(15), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 330), st.integers(1, 200)), min_size=1, max_size=6))
def test_digest_is_the_same_from_any_stored_ones(clean_harness: Harness, reads: list[tuple[int, int]]) -> None:
    """Whatever is read before, in which order and how much at once: only true digests are stored."""

    async def play() -> None:
        chat = await a_chat(clean_harness)
        await fill(chat, 1, 300)
        known = ["00" * 32, *await expected(chat)]
        for up_to, at_most in reads:
            found = await digests.advance(clean_harness.runtime.db, chat.id, up_to=up_to, at_most=at_most)
            assert found.seq is not None
            assert found.seq <= min(up_to, 300)
            assert found.digest == known[found.seq]
        for row in await clean_harness.runtime.db.fetch(STORED, chat.id):
            assert row["digest"] == known[row["seq"]]
        assert await chats.digest(clean_harness.runtime, chat.id, up_to=300) == (known[300], False)

    clean_harness.run(play())


def test_first_sync_at_the_end_of_a_very_long_chat_is_bounded_and_the_next_ones_get_there(
    clean_harness: Harness,
) -> None:
    runtime = clean_harness.runtime

    async def play() -> None:
        chat = await a_chat(clean_harness)
        await fill(chat, 1, 5_000)
        answers: list[str | None] = []
        for _ in range(3):
            answers.append((await chats.digest(runtime, chat.id, up_to=5_000))[0])
        assert answers == [None, None, (await expected(chat))[-1]]
        # From now on the way is short, wherever a client asks.
        for up_to in (5_000, 4_991, 64, 65, 1):
            plan = await runtime.db.fetchval(
                "SELECT count(*) FROM chat_messages WHERE session_id = $1 AND seq <= $2 AND seq > "
                "(SELECT coalesce(max(seq), 0) FROM chat_digests WHERE session_id = $1 AND seq <= $2)",
                chat.id,
                up_to,
            )
            assert plan < 64
        for beyond in (5_001, 2**31 - 1):
            assert await chats.digest(runtime, chat.id, up_to=beyond) == (None, False)

    clean_harness.run(play())


def test_parallel_readers_of_a_growing_chat_get_true_digests(clean_harness: Harness) -> None:
    runtime = clean_harness.runtime

    async def play() -> None:
        chat = await a_chat(clean_harness)
        await fill(chat, 1, 500)
        found: dict[int, set[str | None]] = {}

        async def read(up_to: int) -> None:
            found.setdefault(up_to, set()).add((await chats.digest(runtime, chat.id, up_to=up_to))[0])

        async with asyncio.TaskGroup() as group:
            for up_to in range(100, 500, 50):
                group.create_task(read(up_to))
                group.create_task(read(500))
            group.create_task(fill(chat, 501, 700))
        known = await expected(chat)
        assert found == {up_to: {known[up_to - 1]} for up_to in found}

    clean_harness.run(play())


async def blank(chat: Chat) -> None:
    runtime = chat.harness.runtime
    async with runtime.transaction() as tx:
        await blank_texts.blank_sessions(tx, [chat.id])
    going = True
    while going:
        async with runtime.transaction() as tx:
            going = await blank_texts.blank_messages(tx, [chat.id])


def test_blanked_chat_has_no_digest_for_readers_but_keeps_its_last_one(clean_harness: Harness) -> None:
    runtime = clean_harness.runtime

    async def play() -> None:
        for messages in (3, 64, 150):
            chat = await completed_chat(clean_harness, messages=messages)
            known = await expected(chat)
            assert await chats.digest(runtime, chat.id, up_to=messages) == (known[-1], False)
            await blank(chat)
            assert {row["content"] for row in await chat.log()} == {""}
            for up_to in (0, 1, messages):
                assert await chats.digest(runtime, chat.id, up_to=up_to) == (None, True)
            stored: list[Any] = await runtime.db.fetch(STORED, chat.id)
            assert [(row["seq"], row["digest"]) for row in stored] == [(messages, known[-1])]
            after = await digests.advance(runtime.db, chat.id, up_to=messages)
            assert (after.seq, after.digest) == (messages, known[-1])

    clean_harness.run(play())


def test_blanking_a_very_long_chat_stores_its_digest_in_bounded_parts_first(clean_harness: Harness) -> None:
    runtime = clean_harness.runtime

    async def play() -> None:
        chat = await completed_chat(clean_harness, messages=1)
        await fill(chat, 2, 7_000)
        known = await expected(chat)
        async with runtime.transaction() as tx:
            await blank_texts.blank_sessions(tx, [chat.id])
        async with runtime.transaction() as tx:
            assert await blank_texts.blank_messages(tx, [chat.id])
        assert all(row["content"] for row in await chat.log())  # the first part is for the digest
        await blank(chat)
        assert {row["content"] for row in await chat.log()} == {""}
        assert [(r["seq"], r["digest"]) for r in await runtime.db.fetch(STORED, chat.id)] == [(7_000, known[-1])]

    clean_harness.run(play())


def test_digest_is_null_if_the_texts_were_gone_before(clean_harness: Harness) -> None:
    """As after an older version has blanked a session that the digest was not computed of."""
    runtime = clean_harness.runtime

    async def play() -> None:
        chat = await completed_chat(clean_harness)
        async with runtime.transaction() as tx:
            await blank_texts.blank_sessions(tx, [chat.id])
            await tx.execute("UPDATE chat_messages SET content = '', metadata = NULL WHERE session_id = $1", chat.id)
        assert (await digests.advance(runtime.db, chat.id, up_to=3)).digest is None
        await blank(chat)
        assert await runtime.db.fetch(STORED, chat.id) == []
        assert await chats.digest(runtime, ids.new_id(), up_to=1) == (None, False)

    clean_harness.run(play())


def test_digest_is_read_while_the_database_takes_no_writes(clean_harness: Harness) -> None:
    runtime = clean_harness.runtime

    async def play() -> None:
        chat = await a_chat(clean_harness)
        await fill(chat, 1, 130)
        known = await expected(chat)
        await runtime.db.fetch("CREATE FUNCTION refuse() RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN "
            "RAISE EXCEPTION 'no space left' USING ERRCODE = 'disk_full'; END $$")  # fmt: skip
        await runtime.db.fetch(
            "CREATE TRIGGER refuse BEFORE INSERT ON chat_digests FOR EACH STATEMENT EXECUTE FUNCTION refuse()"
        )
        try:
            assert await chats.digest(runtime, chat.id, up_to=130) == (known[-1], False)
            assert await runtime.db.fetch(STORED, chat.id) == []
        finally:
            await runtime.db.fetch("DROP FUNCTION refuse CASCADE")
        assert await chats.digest(runtime, chat.id, up_to=130) == (known[-1], False)
        assert [row["seq"] for row in await runtime.db.fetch(STORED, chat.id)] == [64, 128]

    clean_harness.run(play())


def test_chat_that_lacks_its_last_message_is_blanked_without_a_digest(clean_harness: Harness) -> None:
    runtime = clean_harness.runtime

    async def play() -> None:
        chat = await completed_chat(clean_harness, messages=70)
        async with runtime.transaction() as tx:
            await tx.execute("SET LOCAL session_replication_role = replica")
            await tx.execute("DELETE FROM chat_messages WHERE session_id = $1 AND seq = 70", chat.id)
        async with asyncio.timeout(20):
            await blank(chat)
        assert {row["content"] for row in await chat.log()} == {""}
        assert await runtime.db.fetch(STORED, chat.id) == []
        assert await chats.digest(runtime, chat.id, up_to=70) == (None, True)

    clean_harness.run(play())
