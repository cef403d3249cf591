"""A hub listens to the users of its sockets, and reads only their events from the database."""

import datetime as dt

import attrs

from core.base import ids
from core.bus import channels
from core.deliveries import store as deliveries
from core.events.notices import Notice
from core.sessions import deliver
from realtime.hub import Hub
from realtime.message_queue import MessageQueue
from tests.flows.conftest import Harness
from tests.flows.sockets import connected

# Events for users who have no socket anywhere, created a second ago.
OTHERS = """INSERT INTO deliveries (id, recipient_id, recipient_type, event, payload, created_at)
  SELECT gen_random_uuid(), gen_random_uuid(), 'mitra', 'chat_request', '{}', clock_timestamp() - interval '1 second'
  FROM generate_series(1, $1)"""


def test_ids_that_a_new_token_does_not_have_are_not_listened_to(harness: Harness) -> None:
    async def play() -> None:
        hub, customer = Hub(harness.runtime, MessageQueue()), await harness.customer()
        before, after = ids.new_id(), ids.new_id()
        actor = attrs.evolve(customer, ids=(customer.user_id, before))
        async with connected(hub, actor, "chat"):
            (connection,) = hub.connections
            connection.actor = attrs.evolve(customer, ids=(customer.user_id, after))
            hub.connections.register(connection)
            assert hub.connections.of_user(before) == ()
            listened = [channels.of_recipient(one) in hub.heard for one in (customer.user_id, before, after)]
            assert listened == [True, False, True]
        assert not hub.connections.of_user(before)
        assert not any(channels.of_recipient(one) in hub.heard for one in (customer.user_id, before, after))

    harness.run(play())


def test_only_unsent_events_of_users_with_a_socket_here_are_read(clean_harness: Harness) -> None:
    async def play() -> None:
        runtime = clean_harness.runtime
        hub, mitra = Hub(runtime, MessageQueue()), await clean_harness.mitra()
        since = runtime.clock.real_now() - dt.timedelta(minutes=1)

        async def portions() -> list[list[str]]:
            found = deliver.waiting(runtime, since=since, older_than_s=0, wanted=hub.events.is_missing)
            return [[notice.event_id for notice in notices] async for notices in found]

        await runtime.db.fetch(OTHERS, deliveries.AT_ONCE)  # fills a page
        notice = Notice(
            event_id=ids.new_id(), recipient_id=mitra.user_id, recipient_type="mitra", event="chat_request",
            session_id=None, payload='{"type": "chat_request"}',
        )  # fmt: skip
        async with runtime.transaction() as tx:
            await deliveries.add(tx, [notice])
            tx.outgoing.notices.clear()  # as if the bus had lost it
        assert await portions() == []
        async with connected(hub, mitra, "pairing"):
            assert await portions() == [[notice.event_id]]
            hub.events.send(notice)
            assert await portions() == []

    clean_harness.run(play())
