"""Event ids of a session increase in the order of its changes, even if the clocks of the processes differ."""

from core.base import ids
from core.pairing import presence
from core.sessions import announce as announce_sessions
from core.sessions import store as sessions
from core.sessions.events import SessionTopicUpdated
from core.sessions.sensitivity import Sensitivity
from core.sessions.store import Session
from tests.flows.conftest import Harness

NOW = "SELECT extract(epoch FROM clock_timestamp()) * 1000"


async def _change(harness: Harness, session_id: str, times: int) -> list[str]:
    """Change a session `times` times in one transaction; return the ids of its events in that order."""
    async with harness.runtime.transaction() as tx:
        session = await sessions.lock(tx, session_id)
        assert isinstance(session, Session)
        for _ in range(times):
            event = SessionTopicUpdated(session_id=session.id, topic_sensitivity=Sensitivity.REGULAR)
            await announce_sessions.to_parties(tx, [(session, event)])
        return [notice.event_id for notice in tx.outgoing.notices]


def test_event_ids_from_processes_with_different_clocks_follow_the_changes(harness: Harness) -> None:
    async def play() -> None:
        customer, mitra = await harness.customer(), await harness.mitra()
        await presence.go_online(harness.runtime, mitra)
        session_id = await harness.start_session(customer, mitra)
        made: list[str] = []
        now, thread = ids._SOURCE.now, ids._SOURCE.thread
        try:
            for hours in (2, -2, 0):  # one process after the other, each on a machine with a different clock
                ids.follow(lambda hours=hours: ids._machine_time() + hours * 3_600_000_000)
                ids._EVENT_TIMES = ids._Times()
                made += await _change(harness, session_id, 10)
        finally:
            ids._SOURCE.now, ids._SOURCE.thread = now, thread
        assert len(made) == 60
        assert made == sorted(set(made))
        milliseconds = await harness.runtime.db.fetchval(NOW)
        assert all(abs(int(one.replace("-", "")[:12], 16) - float(milliseconds)) < 60_000 for one in made)

    harness.run(play())
