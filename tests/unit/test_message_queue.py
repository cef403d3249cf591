"""The queue of messages to store: each session in order and in one batch at a time; nothing is lost or stored twice."""

import itertools
import math
from typing import Any, cast

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from core.sessions.messages.rules import Draft, Marker
from realtime.feeds import Feed
from realtime.message_queue import (
    BATCH_ROWS,
    MARK_EARLY_S,
    MARK_WAITS_S,
    MARKS_TOGETHER_S,
    QUEUE_ROWS,
    Batch,
    Item,
    MessageQueue,
)
from tests.tiers import examples

NOBODY = cast(Any, None)  # a queue does not read the connection
SESSIONS = [f"session-{number}" for number in range(5)]
session_ids = st.sampled_from(SESSIONS)
numbers = itertools.count()


def feed_of(session_id: str) -> Feed:
    return Feed(session_id, "the customer", "the mitra")


def item(feed: Feed, *, client_id: str | None = None, sender: str = "the customer") -> Item:
    number = str(next(numbers))
    draft = Draft(
        id=number, session_id=feed.id, sender_id=sender, client_message_id=client_id or number, type="text", content="", metadata=None
    )  # fmt: skip
    return Item(draft, NOBODY, feed, None)


def ids_of(batch: Batch, session_id: str) -> list[str]:
    return [item.draft.id for item in batch.items if item.feed.id == session_id]


class Queue(RuleBasedStateMachine):
    """Messages and marks arrive, batches are taken and end, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = MessageQueue()
        self.feeds = {session_id: feed_of(session_id) for session_id in SESSIONS}
        self.now = 0.0
        self.sent: dict[str, list[str]] = {session_id: [] for session_id in SESSIONS}
        self.stored: dict[str, list[str]] = {session_id: [] for session_id in SESSIONS}
        self.highest: dict[tuple[str, Marker], int] = {}
        self.marked: dict[tuple[str, Marker], int] = {}
        self.open: list[Batch] = []

    @rule(session_id=session_ids, count=st.integers(1, 4), client_id=st.sampled_from([None, None, "a", "b"]))
    def say(self, session_id: str, count: int, client_id: str | None) -> None:
        for _ in range(count):
            said = item(self.feeds[session_id], client_id=client_id)
            assert self.queue.add(said)
            self.sent[session_id].append(said.draft.id)

    @rule(session_id=session_ids, kind=st.sampled_from(Marker), up_to=st.integers(1, 20))
    def mark(self, session_id: str, kind: Marker, up_to: int) -> None:
        self.queue.mark(self.feeds[session_id], {kind: (up_to, "a device")}, self.now)
        self.highest[session_id, kind] = max(up_to, self.highest.get((session_id, kind), 0))

    @rule(seconds=st.sampled_from([0.001, 0.02, MARK_WAITS_S]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def cut(self) -> None:
        ready = self.queue.ready
        batch = self.queue.cut(self.now)
        assert len(set(batch.session_ids)) == len(batch.session_ids)
        under_way = {session_id for other in self.open for session_id in other.session_ids}
        assert not under_way & set(batch.session_ids)
        assert {i.feed.id for i in batch.items} | {feed.id for feed, _ in batch.marked} == set(batch.session_ids)
        keys = [(i.feed.id, i.draft.client_message_id) for i in batch.items]
        assert len(set(keys)) == len(keys)
        assert bool(batch.items) == bool(ready)
        self.open.append(batch)

    @rule(which=st.integers(0, 10), fails=st.booleans())
    def end(self, which: int, fails: bool) -> None:
        if not self.open:
            return
        batch = self.open.pop(which % len(self.open))
        for session_id in batch.session_ids:
            assert self.queue.under_way(self.feeds[session_id]) == set(ids_of(batch, session_id))
            # stored, or refused so that the client sends it again: finished either way
            self.stored[session_id] += ids_of(batch, session_id)
        for feed, moved in batch.marked:
            if fails:
                self.queue.mark(feed, moved, self.now)
            else:
                for kind, (up_to, _) in moved.items():
                    self.marked[feed.id, kind] = max(up_to, self.marked.get((feed.id, kind), 0))
        self.queue.finish(batch, self.now)

    @invariant()
    def in_order(self) -> None:
        for session_id, stored in self.stored.items():
            assert self.sent[session_id][: len(stored)] == stored

    def teardown(self) -> None:
        for _ in range(200):
            while self.open:
                self.end(0, False)
            if self.queue.idle:
                break
            self.now += MARK_WAITS_S
            self.cut()
        assert self.queue.idle
        assert self.queue.ready == 0
        assert self.queue.due == math.inf
        assert self.stored == self.sent
        assert self.marked == self.highest


TestQueue = Queue.TestCase
TestQueue.settings = settings(max_examples=examples(200), stateful_step_count=40, deadline=None)


def test_marks_are_stored_with_a_message_of_their_session() -> None:
    queue, feed = MessageQueue(), feed_of("a")
    queue.mark(feed, {Marker.CUSTOMER_DELIVERED: (3, "phone")}, 0.0)
    assert queue.add(item(feed))
    batch = queue.cut(0.0)
    assert batch.marked == [(feed, {Marker.CUSTOMER_DELIVERED: (3, "phone")})]
    assert queue.due == math.inf


def test_marks_without_a_message_are_stored_after_their_delay() -> None:
    queue = MessageQueue()
    first, second = feed_of("a"), feed_of("b")
    queue.mark(first, {Marker.CUSTOMER_DELIVERED: (3, "phone")}, 0.0)
    queue.mark(second, {Marker.CUSTOMER_DELIVERED: (3, "phone")}, 2 * MARKS_TOGETHER_S)
    assert queue.due == MARK_WAITS_S
    assert queue.cut(MARK_WAITS_S - 2 * MARK_EARLY_S).session_ids == []
    assert queue.cut(MARK_WAITS_S).session_ids == ["a"]
    assert queue.cut(2 * MARKS_TOGETHER_S + MARK_WAITS_S).session_ids == ["b"]


def test_marks_that_are_due_soon_are_stored_with_one_that_is_due() -> None:
    queue, feeds = MessageQueue(), [feed_of(name) for name in "abcd"]
    times = (0.0, MARKS_TOGETHER_S / 2, MARKS_TOGETHER_S, MARKS_TOGETHER_S + 0.001)
    for feed, at in zip(feeds, times, strict=True):
        queue.mark(feed, {Marker.CUSTOMER_DELIVERED: (3, "phone")}, at)
    assert queue.cut(MARK_WAITS_S - 2 * MARK_EARLY_S).session_ids == []
    assert queue.cut(MARK_WAITS_S).session_ids == ["a", "b", "c"]
    assert queue.cut(MARK_WAITS_S + MARKS_TOGETHER_S).session_ids == ["d"]


def test_session_with_a_hanging_batch_does_not_delay_others() -> None:
    queue, held, free = MessageQueue(), feed_of("a"), feed_of("b")
    queue.add(item(held))
    hanging = queue.cut(0.0)
    queue.add(item(held))
    queue.mark(held, {Marker.CUSTOMER_READ: (1, "phone")}, 0.0)
    queue.add(item(free))
    assert queue.ready == 1
    assert queue.cut(1.0).session_ids == ["b"]
    queue.finish(hanging, 1.0)
    batch = queue.cut(1.0)
    assert (batch.session_ids, len(batch.items), len(batch.marked)) == (["a"], 1, 1)


def test_same_client_message_id_of_both_parties_is_two_messages() -> None:
    queue, feed = MessageQueue(), feed_of("a")
    queue.add(item(feed, client_id="x"))
    queue.add(item(feed, client_id="x", sender="the mitra"))
    assert len(queue.cut(0.0).items) == 2


def test_batch_size_is_limited_and_the_rest_stays_queued() -> None:
    queue, feed = MessageQueue(), feed_of("a")
    sent = [item(feed) for _ in range(BATCH_ROWS + 7)]
    for one in sent:
        queue.add(one)
    other = feed_of("b")
    queue.add(item(other))
    first = queue.cut(0.0)
    assert first.items == sent[:BATCH_ROWS]
    queue.finish(first, 0.0)
    second = queue.cut(0.0)
    assert set(second.session_ids) == {"a", "b"}
    assert [one for one in second.items if one.feed is feed] == sent[BATCH_ROWS:]


def test_full_queue_refuses_messages() -> None:
    queue, feed = MessageQueue(), feed_of("a")
    for _ in range(QUEUE_ROWS):
        assert queue.add(item(feed))
    assert not queue.add(item(feed))
    queue.finish(queue.cut(0.0), 0.0)
    assert queue.add(item(feed))
