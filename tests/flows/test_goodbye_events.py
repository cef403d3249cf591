"""Events of a session's end are stored without goodbyes; the goodbyes are added when an event is read back."""

import datetime as dt

import msgspec

from core.base.actor import Actor
from core.events.notices import Notice
from core.sessions import deliver
from core.sessions import end as end_session
from tests.flows.chats import a_chat
from tests.flows.conftest import Harness

DEWIS, AYUS = "terima kasih Kak", "jaga diri, Dewi"


def shown(notices: list[Notice]) -> dict[tuple[str, str], list[str]]:
    """Return the goodbyes in each event for each recipient."""
    found = {}
    for notice in notices:
        if notice.event in ("session_closing", "session_completed"):
            closures = msgspec.json.decode(notice.payload)["session"]["closures"]
            found[notice.event, notice.recipient_type] = [closure["message"] for closure in closures]
    return found


def test_stored_events_get_the_recipients_goodbyes_when_read_back(clean_harness: Harness) -> None:
    runtime = clean_harness.runtime

    async def read_back(*people: Actor) -> dict[tuple[str, str], list[str]]:
        """Return what is sent to sockets again; sockets that reconnect get the same."""
        since = runtime.clock.real_now() - dt.timedelta(minutes=1)
        waiting = deliver.waiting(runtime, since=since, older_than_s=0, wanted=lambda *_: True)
        again = shown([notice async for notices in waiting for notice in notices])
        by_user = await deliver.unacknowledged(runtime, [one.user_id for one in people])
        assert shown([notice for notices in by_user.values() for notice in notices]) == again
        return again

    async def play() -> None:
        chat = await a_chat(clean_harness)
        people = (chat.customer, chat.mitra)
        await runtime.db.fetch("UPDATE chat_sessions SET expires_at = $2 WHERE id = $1", chat.id, runtime.now())
        await end_session.say_goodbye(runtime, chat.customer, session_id=chat.id, message=DEWIS)
        assert await read_back(*people) == {("session_closing", "customer"): [DEWIS], ("session_closing", "mitra"): []}
        await end_session.say_goodbye(runtime, chat.mitra, session_id=chat.id, message=AYUS)
        events = [(event, side) for event in ("session_closing", "session_completed") for side in ("customer", "mitra")]
        assert await read_back(*people) == {event: [DEWIS, AYUS] for event in events}
        for row in await runtime.db.fetch("SELECT payload FROM deliveries WHERE session_id = $1", chat.id):
            assert DEWIS not in row["payload"]
            assert AYUS not in row["payload"]

    clean_harness.run(play())
