"""A transition of a session from another state rolls the whole transaction back."""

import datetime as dt
from collections.abc import Awaitable, Callable

import pytest

from core.pairing import search
from core.pairing import start as pairing_start
from core.payments.failures.causes import CauseTag
from core.sessions import store as sessions
from core.sessions import transitions
from core.sessions.rules import GRACE
from core.sessions.states import SessionStatus
from core.sessions.transitions import NotInState
from core.storage.transaction import Tx
from tests.flows.chats import Chat, a_chat
from tests.flows.conftest import Harness

EXPIRED = SessionStatus.EXPIRED
HOUR = dt.timedelta(hours=1)
# Transitions that no active session makes.
WRONG: dict[str, Callable[[Tx, Chat], Awaitable[None]]] = {
    "pair": lambda tx, chat: transitions.pair(
        tx, chat.id, mitra_id=chat.mitra.user_id, expires_at=tx.now + HOUR, warn_at=None
    ),
    "fail": lambda tx, chat: transitions.end_search(tx, chat.id, SessionStatus.FAILED),
    "cancel": lambda tx, chat: transitions.end_search(tx, chat.id, SessionStatus.CANCELLED),
    "prolong": lambda tx, chat: transitions.prolong(
        tx, chat.id, before=EXPIRED, expires_at=tx.now + HOUR, warn_at=None, minutes=60, resumed_at=None
    ),
    "begin_closing": lambda tx, chat: transitions.begin_closing(
        tx, chat.id, before=EXPIRED, ended_by="customer", grace=GRACE
    ),
    "complete": lambda tx, chat: transitions.complete(tx, chat.id),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_transition_from_another_state_raises_and_nothing_is_written(
    harness: Harness, wrong: Callable[[Tx, Chat], Awaitable[None]]
) -> None:
    async def move_after_a_goodbye(chat: Chat) -> None:
        author = {"user_type": "customer", "user_id": chat.customer.user_id}
        async with harness.runtime.transaction() as tx:
            await sessions.add_closure(tx, chat.id, **author, message="terima kasih Kak")
            await wrong(tx, chat)

    async def play() -> None:
        chat = await a_chat(harness)
        before = await sessions.get(harness.runtime.db, chat.id)
        with pytest.raises(NotInState, match=chat.id):
            await move_after_a_goodbye(chat)
        assert await sessions.get(harness.runtime.db, chat.id) == before
        assert not await harness.runtime.db.fetch("SELECT 1 FROM session_closures WHERE session_id = $1", chat.id)

    harness.run(play())


def test_search_that_has_ended_in_the_meantime_moves_no_money(harness: Harness) -> None:
    async def play() -> None:
        db = harness.runtime.db
        request_id = await harness.paid(await harness.customer())
        await pairing_start.start(harness.runtime, payment_request_id=request_id)
        read = await harness.session_of(request_id)
        await db.fetch("UPDATE chat_sessions SET status = 'cancelled', ended_at = now() WHERE id = $1", read.id)
        sent = "SELECT count(*) FROM deliveries WHERE session_id = $1"
        before = await db.fetchval(sent, read.id)
        with pytest.raises(NotInState):
            async with harness.runtime.transaction() as tx:
                await search.give_up(tx, read, CauseTag.NO_MITRA_AVAILABLE)
        assert await db.fetchval("SELECT status FROM payment_requests WHERE id = $1", request_id) == "confirmed"
        assert not await db.fetch("SELECT 1 FROM pairing_failures WHERE payment_request_id = $1", request_id)
        assert await db.fetchval(sent, read.id) == before

    harness.run(play())
