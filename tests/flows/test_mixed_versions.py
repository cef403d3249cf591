"""Realtime processes of this version and of 0.2 share the bus during a rolling restart."""

import json

import msgspec
import pytest

from core.base import ids
from core.events import notices
from core.flows import message_send
from core.publishing import Subscriber
from core.storage import locks
from core.storage.locks import AdvisoryLock
from realtime.hub import Hub
from realtime.message_queue import MessageQueue
from tests.flows.chats import Chat, a_chat
from tests.flows.conftest import Harness
from tests.flows.sockets import connected, frames_of


class Envelope02(msgspec.Struct, kw_only=True):
    """An envelope of version 0.2; `passing` are frames that are not stored."""

    notices: list[msgspec.Raw] = []
    messages: list[msgspec.Raw] = []
    passing: list[msgspec.Raw] = []


def envelope_02(**fields: object) -> bytes:
    """Encode an envelope as processes of 0.2 do."""
    return msgspec.msgpack.encode({"notices": [], "messages": [], "passing": []} | fields)


def test_frames_of_a_process_of_version_0_2_are_sent(harness: Harness) -> None:
    async def play() -> None:
        chat: Chat = await a_chat(harness)
        hub = Hub(harness.runtime, MessageQueue())
        parties = {"session_id": chat.id, "customer_id": chat.customer.user_id, "mitra_id": chat.mitra.user_id}
        async with connected(hub, chat.customer, "chat") as phone, connected(hub, chat.mitra, "pairing") as desk:
            for seq in (2, 1):
                message = {**parties, "seq": seq, "frame": json.dumps({"seq": seq}).encode(), "skip": None}
                hub.on_frames("", envelope_02(messages=[message]))
            typing = {
                "recipient_id": chat.customer.user_id,
                "frame": b'{"type":"typing"}',
                "skip": None,
                "path": "chat",
            }
            status = {"recipient_id": chat.mitra.user_id, "frame": b'{"is_online":true}', "path": "pairing"}
            hub.on_frames("", envelope_02(passing=[typing, status]))
            assert await frames_of(phone) == [{"seq": 1}, {"seq": 2}, {"type": "typing"}]
            assert await frames_of(desk) == [{"is_online": True}]
        await hub.connections.settled(5)

    harness.run(play())


def test_process_of_version_0_2_reads_an_envelope_without_its_unknown_fields(harness: Harness) -> None:
    published: list[notices.Envelope] = []

    async def play() -> None:
        chat = await a_chat(harness)
        harness.runtime.publisher.subscribe(Subscriber(on_frames=published.append))
        await message_send.send_one(harness.runtime, chat.customer, chat.draft(chat.customer))
        await message_send.mark_read(harness.runtime, chat.mitra, session_id=chat.id, up_to=1)

    harness.run(play())
    event = notices.Notice(
        event_id=ids.new_id(), recipient_id="x", recipient_type="mitra", event="x", session_id=None, payload="{}"
    )
    both = notices.Envelope(
        notices=[event],
        messages=[message for envelope in published for message in envelope.messages],
        read_markers=[moved for envelope in published for moved in envelope.read_markers],
    )
    assert (len(both.messages), len(both.read_markers)) == (1, 1)
    read = msgspec.msgpack.decode(notices.encode(both), type=Envelope02)
    assert (len(read.notices), read.messages, read.passing) == (1, [], [])


@pytest.mark.parametrize(("lock", "number_in_0_2"), [(AdvisoryLock.MITRA_PHONE, 3), (AdvisoryLock.MITRA_LOGINS, 6)])
def test_lock_with_a_new_number_excludes_a_process_of_version_0_2(
    harness: Harness, lock: AdvisoryLock, number_in_0_2: int
) -> None:
    async def play() -> None:
        db = harness.runtime.db
        for number in (number_in_0_2, lock):
            async with harness.runtime.transaction() as tx:
                await locks.hold(tx, lock, "key")
                assert not await db.fetchval("SELECT pg_try_advisory_xact_lock($1, hashtext($2))", number, "key")
            assert await db.fetchval("SELECT pg_try_advisory_xact_lock($1, hashtext($2))", number, "key")

    harness.run(play())
