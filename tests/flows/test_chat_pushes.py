"""The search for parties who have not acknowledged a message. Chats of live sessions wait for the rows that it locks."""

import pytest

from core.base import ids
from core.base.actor import UserType
from core.sessions import unacknowledged
from core.sessions.messages import send as message_send
from core.sessions.messages.rules import Unshown
from tests.flows.chats import a_chat
from tests.flows.conftest import Harness

UNSHOWN = "SELECT customer_unshown FROM chat_sessions WHERE id = $1::text::uuid"


@pytest.mark.parametrize("sql", unacknowledged.CLAIMS)
def test_claim_looks_up_the_oldest_message_of_each_session_and_joins_none(clean_harness: Harness, sql: str) -> None:
    """With old statistics, a join reads all messages of the service, while the rows of live sessions are locked."""

    async def play() -> None:
        database = clean_harness.runtime.db
        rows = await database.fetch(f"EXPLAIN (COSTS OFF) {sql}", clean_harness.runtime.now(), 1_000)
        plan = "\n".join(row[0] for row in rows)
        assert "Semi Join" not in plan
        assert plan.index("SubPlan") < plan.index("on chat_messages")
        assert plan.rindex("on chat_messages") < plan.index("LockRows")

    clean_harness.run(play())


def test_note_of_devices_that_show_nothing_waits_for_no_locked_session(clean_harness: Harness) -> None:
    async def play() -> None:
        runtime, chats = clean_harness.runtime, [await a_chat(clean_harness) for _ in range(2)]
        notes = [Unshown(session_id=chat.id, side=UserType.CUSTOMER, device_id=ids.new_id(), up_to=1) for chat in chats]
        async with runtime.transaction() as tx:
            await tx.execute("SELECT FROM chat_sessions WHERE id = $1::text::uuid FOR UPDATE", chats[0].id)
            await message_send.note_unshown(runtime, notes)
        noted = [await runtime.db.fetchval(UNSHOWN, chat.id) for chat in chats]
        assert [one is None for one in noted] == [True, False]

    clean_harness.run(play())


def test_repeated_note_writes_nothing_and_lowers_nothing(clean_harness: Harness) -> None:
    async def play() -> None:
        chat, devices = await a_chat(clean_harness), sorted(ids.new_id() for _ in range(2))

        async def note(**up_to: int) -> tuple[dict[str, int], str]:
            await message_send.note_unshown(
                clean_harness.runtime,
                [
                    Unshown(session_id=chat.id, side=UserType.CUSTOMER, device_id=devices[name == "second"], up_to=seq)
                    for name, seq in up_to.items()
                ],
            )
            row = await chat.row("SELECT customer_unshown, xmin::text FROM chat_sessions WHERE id = $1")
            return row["customer_unshown"], row["xmin"]

        first, version = await note(first=5)
        assert first == {devices[0]: 5}
        assert await note(first=5) == await note(first=4) == (first, version)
        assert (await note(first=4, second=6))[0] == {devices[0]: 5, devices[1]: 6}

    clean_harness.run(play())
