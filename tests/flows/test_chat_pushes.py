"""The search for parties who have not acknowledged a message. Chats of live sessions wait for the rows that it locks."""

import pytest

from core.sessions import unacknowledged
from tests.flows.conftest import Harness


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
