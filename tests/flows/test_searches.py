"""How the jobs process works through running searches: many at once, and some that fail."""

import contextlib
import socket
from collections.abc import AsyncIterator

import pytest

from core.base.actor import Actor
from core.events.notices import Envelope
from core.pairing import advance as pairing_advance
from core.pairing import answer as pairing_answer
from core.pairing import cancel as pairing_cancel
from core.pairing import presence
from core.pairing import start as pairing_start
from core.runtime.publishing import Subscriber
from core.sessions.states import SessionStatus
from core.sessions.store import Session
from realtime.hub import Hub
from realtime.message_queue import MessageQueue
from tests.flows.conftest import Harness
from tests.flows.sockets import connected, frames_of

ROUND_OVER = "UPDATE chat_sessions SET round_ends_at = $1 WHERE status = 'searching'"
BROKEN = """CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN IF NEW.{column} = '{session_id}' THEN RAISE 'broken'; END IF; RETURN NEW; END $$"""
MANY = pairing_advance.BATCH + 30


async def a_search(harness: Harness, customer: Actor | None = None) -> Session:
    """Create a running blast; return its session."""
    request_id = await harness.paid(customer or await harness.customer())
    await pairing_start.start(harness.runtime, payment_request_id=request_id)
    return await harness.session_of(request_id)


async def now(harness: Harness, search: Session) -> Session:
    """Return the current state of a search."""
    assert search.payment_request_id is not None
    return await harness.session_of(search.payment_request_id)


@contextlib.asynccontextmanager
async def broken(harness: Harness, table: str, column: str, session_id: str) -> AsyncIterator[None]:
    """Make writes of a session's rows in a table fail."""
    run = harness.runtime.db.fetch
    await run(BROKEN.format(column=column, session_id=session_id))
    await run(f"CREATE TRIGGER broken BEFORE INSERT OR UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION broken()")
    try:
        yield
    finally:
        await run("DROP FUNCTION broken CASCADE")


async def invited(harness: Harness) -> set[str]:
    """Return the sessions with an open invitation."""
    rows = await harness.runtime.db.fetch(
        "SELECT session_id::text FROM chat_request_notifications WHERE response IS NULL"
    )
    return {row["session_id"] for row in rows}


@pytest.mark.slow
def test_search_whose_invitations_fail_does_not_stop_later_searches(clean_harness: Harness) -> None:
    async def play() -> None:
        searches = [await a_search(clean_harness) for _ in range(3)]
        mitra = await clean_harness.mitra()
        await presence.go_online(clean_harness.runtime, mitra)
        first, *others = sorted(search.id for search in searches)
        async with broken(clean_harness, "chat_request_notifications", "session_id", first):
            await pairing_advance.invite_available(clean_harness.runtime)
            assert await invited(clean_harness) == set(others)
        await pairing_advance.invite_available(clean_harness.runtime, mitra_ids=[mitra.user_id])
        assert await invited(clean_harness) == {first, *others}

    clean_harness.run(play())


def test_search_locked_by_another_process_does_not_stop_later_searches(clean_harness: Harness) -> None:
    async def play() -> None:
        searches = [await a_search(clean_harness) for _ in range(3)]
        await presence.go_online(clean_harness.runtime, await clean_harness.mitra())
        held, *others = sorted(search.id for search in searches)
        async with clean_harness.runtime.transaction() as tx:
            await tx.fetch("SELECT 1 FROM chat_sessions WHERE id = $1 FOR UPDATE", held)
            await pairing_advance.invite_available(clean_harness.runtime)
        assert await invited(clean_harness) == set(others)

    clean_harness.run(play())


@pytest.mark.slow
def test_rounds_of_idle_searches_end_together(clean_harness: Harness) -> None:
    async def play() -> None:
        runtime = clean_harness.runtime
        searches = [await a_search(clean_harness) for _ in range(MANY)]
        await runtime.db.fetch(ROUND_OVER, runtime.now())
        assert await pairing_advance.end_rounds(runtime) == MANY
        for search in searches:
            found = await now(clean_harness, search)
            assert (found.status, found.round_number) == (SessionStatus.SEARCHING, 2)
            assert found.round_ends_at is not None
            assert found.round_ends_at > runtime.now()

    clean_harness.run(play())


@pytest.mark.slow
def test_idle_round_that_cannot_be_ended_does_not_stop_other_rounds(clean_harness: Harness) -> None:
    async def play() -> None:
        runtime = clean_harness.runtime
        searches = [await a_search(clean_harness) for _ in range(3)]
        await runtime.db.fetch(ROUND_OVER, runtime.now())
        async with broken(clean_harness, "chat_sessions", "id", searches[0].id):
            assert await pairing_advance.end_rounds(runtime) == 2
        assert [(await now(clean_harness, search)).round_number for search in searches] == [1, 2, 2]

    clean_harness.run(play())


def test_search_fails_at_round_end_when_all_invited_rejected_and_no_mitra_is_left(clean_harness: Harness) -> None:
    async def play() -> None:
        runtime = clean_harness.runtime
        no, other = await clean_harness.mitra(), await clean_harness.mitra()
        await presence.go_online(runtime, no)
        search = await a_search(clean_harness)
        await presence.go_online(runtime, other)  # available, and not invited yet
        await pairing_answer.reject(runtime, no, session_id=search.id)
        assert (await now(clean_harness, search)).status is SessionStatus.SEARCHING
        await presence.go_offline(runtime, mitra_id=other.user_id)
        await runtime.db.fetch(ROUND_OVER, runtime.now())
        assert await pairing_advance.end_rounds(runtime) == 1
        assert (await now(clean_harness, search)).status is SessionStatus.FAILED

    clean_harness.run(play())


def test_round_with_an_available_mitra_invites_them_and_is_not_idle(clean_harness: Harness) -> None:
    async def play() -> None:
        runtime = clean_harness.runtime
        search = await a_search(clean_harness)
        await runtime.db.fetch(ROUND_OVER, runtime.now())
        await presence.go_online(runtime, await clean_harness.mitra())
        assert await pairing_advance.end_rounds(runtime) == 1
        assert await invited(clean_harness) == {search.id}
        assert (await now(clean_harness, search)).round_number == 2

    clean_harness.run(play())


async def statuses(phone: socket.socket) -> list[tuple[str, bool]]:
    """Return what the phone was sent since the last call: each status, and whether it is an event."""
    return [(frame["status"] + str(frame.get("asked", "")), "event_id" in frame) for frame in await frames_of(phone)]


def test_repeat_of_a_search_that_just_ended_is_dropped(clean_harness: Harness) -> None:
    async def play() -> None:
        runtime, hub = clean_harness.runtime, Hub(clean_harness.runtime, MessageQueue())
        customer = await clean_harness.customer()
        receive = hub.send

        def deliver(envelope: Envelope) -> None:
            receive(envelope)

        runtime.publisher.subscribe(Subscriber(on_frames=deliver))
        async with connected(hub, customer, "pairing") as phone:
            search = await a_search(clean_harness, customer)
            assert await statuses(phone) == [("searching0", True)]
            for number in (1, 2):
                await presence.go_online(runtime, await clean_harness.mitra())
                await pairing_advance.invite_available(runtime)
                assert await pairing_advance.repeat_asked(runtime) == 0  # not due yet
                await runtime.db.fetch("UPDATE chat_sessions SET asked_repeat_at = $1", runtime.now())
                late = list[Envelope]()
                receive = late.append
                assert await pairing_advance.repeat_asked(runtime) == 1
                assert await pairing_advance.repeat_asked(runtime) == 0
                receive = hub.send
                if number == 2:
                    assert search.payment_request_id is not None
                    await pairing_cancel.cancel(runtime, customer, payment_request_id=search.payment_request_id)
                    assert await statuses(phone) == [("cancelled", True)]
                for envelope in late:
                    hub.send(envelope)
                assert await statuses(phone) == ([("searching1", False)] if number == 1 else [])
        receive = list[Envelope]().append  # the hub ends with this test

    clean_harness.run(play())


def test_repeat_that_is_due_when_the_search_has_ended_is_not_sent(clean_harness: Harness) -> None:
    async def play() -> None:
        runtime, customer = clean_harness.runtime, await clean_harness.customer()
        search = await a_search(clean_harness, customer)
        await presence.go_online(runtime, await clean_harness.mitra())
        await pairing_advance.invite_available(runtime)
        assert search.payment_request_id is not None
        await pairing_cancel.cancel(runtime, customer, payment_request_id=search.payment_request_id)
        await runtime.db.fetch("UPDATE chat_sessions SET asked_repeat_at = $1", runtime.now())
        assert await pairing_advance.repeat_asked(runtime) == 0

    clean_harness.run(play())
