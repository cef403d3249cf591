"""Callers who read sessions at the same moment share a statement, and see what each would see alone."""

import asyncio

import attrs
import pytest

from core.base import ids
from core.base.actor import Actor
from core.base.errors import NotFound
from core.pairing import presence
from core.sessions import views
from core.sessions.messages import chats
from tests.flows.conftest import Harness


async def started(harness: Harness) -> tuple[Actor, str]:
    """Return a customer and the id of their running session."""
    customer, mitra = await harness.customer(), await harness.mitra()
    await presence.go_online(harness.runtime, mitra)
    return customer, await harness.start_session(customer, mitra)


def test_callers_at_the_same_moment_see_their_own_sessions_only(harness: Harness) -> None:
    runtime = harness.runtime

    async def alone(actor: Actor, session_id: str) -> views.SessionView | None:
        return await views.one_of(runtime.db, session_id, party_ids=list(actor.ids), side=actor.user_type)

    async def shared(actor: Actor, session_id: str) -> views.SessionView | None:
        try:
            return await chats.session(runtime, actor, session_id)
        except NotFound:
            return None

    async def play() -> None:
        mitra = await harness.mitra()
        await presence.go_online(runtime, mitra)
        people = [await harness.customer() for _ in range(3)]
        sessions = [await harness.start_session(customer, mitra) for customer in people]
        first, second, _ = people
        merged = attrs.evolve(first, ids=(ids.new_id(), *first.ids))
        both = attrs.evolve(first, ids=(*first.ids, *second.ids))
        asked = [
            (actor, session_id)
            for actor in (*people, merged, both, mitra, await harness.mitra())
            for session_id in (*sessions, ids.new_id())
        ]
        together = await asyncio.gather(*(shared(*one) for one in asked))
        assert together == [await alone(*one) for one in asked]
        assert [view is not None for view in together].count(True) == 3 + 1 + 2 + 3

    harness.run(play())


def test_session_that_changes_after_the_call_is_read_again_for_the_next_caller(harness: Harness) -> None:
    async def play() -> None:
        customer, session_id = await started(harness)
        reading = asyncio.create_task(chats.session(harness.runtime, customer, session_id))
        await asyncio.sleep(0)  # its statement is on the way
        async with harness.runtime.transaction() as tx:
            await tx.execute("UPDATE chat_sessions SET price = price + 1 WHERE id = $1", session_id)
        later = await chats.session(harness.runtime, customer, session_id)
        assert later.price in {(await reading).price, (await reading).price + 1}
        assert later.price == await harness.runtime.db.fetchval(
            "SELECT price FROM chat_sessions WHERE id = $1", session_id
        )

    harness.run(play())


@pytest.mark.parametrize("stranger", ["customer", "mitra"])
def test_session_of_others_is_not_found(harness: Harness, stranger: str) -> None:
    async def play() -> None:
        _, session_id = await started(harness)
        actor = await harness.customer() if stranger == "customer" else await harness.mitra()
        with pytest.raises(NotFound):
            await chats.session(harness.runtime, actor, session_id)

    harness.run(play())
