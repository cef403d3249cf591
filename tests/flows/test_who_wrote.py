"""Who wrote in a chat, as operators see it: counts, the first reply, the longest silence, and chats without a reply."""

import datetime as dt
import itertools
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.base.pages import Page
from core.desk import figures, support
from core.desk.support import LookUp
from core.sessions.receipts import show as show_receipts
from tests.flows.chats import Chat, a_chat, completed_chat
from tests.flows.conftest import READER, Harness, rows
from tests.tiers import examples

SECOND = dt.timedelta(seconds=1)
MOVE = """UPDATE chat_messages AS m
  SET created_at = s.paired_at + ($2::int[])[m.seq] * interval '1 second'
  FROM chat_sessions AS s
  WHERE s.id = $1 AND m.session_id = s.id"""
# The paid time began 12 minutes ago and ends now.
AGE = """UPDATE chat_sessions SET paired_at = $2::timestamptz - interval '12 minutes', expires_at = $2
  WHERE id = $1"""
WROTE = ("messages_by_customer", "messages_by_mitra", "first_reply_seconds", "longest_silence_seconds")
PAID_SECONDS = 720


async def wrote(chat: Chat, log: list[tuple[str, int]]) -> tuple[Any, ...]:
    """Store the messages, (sender, seconds since the pairing), and return what operators see of them."""
    runtime = chat.harness.runtime
    for sender, _ in log:
        await chat.commit(chat.draft(chat.customer if sender == "customer" else chat.mitra))
    await runtime.db.fetch(AGE, chat.id, runtime.now())
    await runtime.db.fetch(MOVE, chat.id, [at for _, at in log])
    seen = await support.session(runtime, READER, chat.id)
    return tuple(getattr(seen, name) for name in WROTE)


def expected(log: list[tuple[str, int]]) -> tuple[Any, ...]:
    """Return the same, found by reading the messages one after the other."""
    counts = [sum(sender == side for sender, _ in log) for side in ("customer", "mitra")]
    asked = next((at for sender, at in log if sender == "customer"), None)
    begin = [sender for sender, _ in log].index("customer") if asked is not None else len(log)
    reply = next((at - asked for sender, at in log[begin:] if sender == "mitra" and asked is not None), None)
    moments = [0, *(at for _, at in log), PAID_SECONDS]
    return *counts, reply, max(later - before for before, later in itertools.pairwise(moments))


@settings(max_examples=examples(15), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from(["customer", "mitra"]), st.integers(0, PAID_SECONDS)), max_size=8))
def test_figures_of_a_chat_equal_those_of_its_log(harness: Harness, log: list[tuple[str, int]]) -> None:
    log = [(sender, at) for (sender, _), at in zip(log, sorted(at for _, at in log), strict=True)]

    async def play() -> None:
        assert await wrote(await a_chat(harness), log) == expected(log)

    harness.run(play())


def test_figures_of_a_completed_chat_are_stored_with_its_receipt_and_its_messages_not_read_again(
    harness: Harness,
) -> None:
    runtime = harness.runtime

    async def play() -> None:
        chat = await completed_chat(harness, messages=5)

        async def seen() -> tuple[Any, ...]:
            (of_list,) = (await support.sessions(runtime, READER, Page(limit=1), LookUp(q=chat.id))).items
            of_one = await support.session(runtime, READER, chat.id)
            figures_of = [tuple(getattr(view, name) for name in WROTE) for view in (of_list, of_one)]
            assert figures_of[0] == figures_of[1]
            return figures_of[0]

        live = await seen()
        assert live[:2] == (2, 3)
        await chat.row(
            "UPDATE session_receipts SET completed_at = completed_at - interval '1 minute' WHERE session_id = $1"
        )
        await show_receipts.sign_due(runtime)
        assert await seen() == live
        await runtime.db.fetch(MOVE, chat.id, [100 * n for n in range(5)])
        assert await seen() == live

    harness.run(play())


async def unanswered(harness: Harness) -> set[str]:
    """Return the ids of chats without a reply. The overview has their number."""

    async def listed() -> set[str]:
        which = LookUp(no_reply=True)
        return {one.id for one in (await support.sessions(harness.runtime, READER, Page(limit=200), which)).items}

    before, number, after = await listed(), (await figures.overview(harness.runtime)).no_reply, await listed()
    assert len(before) <= number <= len(after)  # other chats grow older
    return after


@pytest.mark.parametrize(
    ("log", "is_listed"),
    [
        ([], False),
        ([("mitra", 0)], False),
        ([("customer", 60), ("mitra", 61)], False),
        ([("customer", PAID_SECONDS - 240)], False),
        ([("customer", PAID_SECONDS - 301)], True),
        ([("mitra", 0), ("customer", 400), ("customer", 700)], True),
        ([("customer", 0), ("mitra", 5), ("customer", PAID_SECONDS - 100)], False),
    ],
)
def test_chat_without_a_reply_for_five_minutes_is_listed(
    harness: Harness, log: list[tuple[str, int]], is_listed: bool
) -> None:
    async def play() -> None:
        chat = await a_chat(harness)
        await wrote(chat, log)
        assert (chat.id in await unanswered(harness)) is is_listed
        with rows(harness.runtime, no_reply_minutes=0):
            assert await unanswered(harness) == set()

    harness.run(play())
