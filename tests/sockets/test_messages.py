"""Messages: stored before the acknowledgement, once, in order, on every device (docs/invariants.md)."""

import asyncio
import json
from typing import Any

import pytest

from tests.flows.test_digests import digests_of
from tests.http.privacy.steps import finish
from tests.sockets.plain_socket import bare_and_known, end_early, moment
from tests.stack import World, new_id
from tools.driving.device import Device, RecordedSocket
from tools.driving.sesi_client import Refused

pytestmark = pytest.mark.anyio


async def stored(world: World, session_id: str) -> list[tuple[int, str]]:
    """Return seq and content of a session's stored messages."""
    rows = await world.stack.sql(
        "SELECT seq, content FROM chat_messages WHERE session_id = $1::uuid ORDER BY seq", session_id
    )
    return [(row["seq"], row["content"]) for row in rows]


async def settle(socket: RecordedSocket) -> None:
    """Wait for a round trip on a socket: everything sent to it before has arrived."""
    ref = new_id()
    await socket.send({"type": "ping", "ref": ref})
    await socket.wait("pong", where=lambda frame: frame.get("ref") == ref)


def messages_of(socket: RecordedSocket) -> list[int]:
    """Return the seqs of the received messages, in order of arrival."""
    return [frame["message"]["seq"] for frame in socket.frames if frame["type"] == "message"]


async def test_acknowledged_message_is_stored_and_a_repeat_gets_the_same_ack(world: World) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    session_id = await world.session(customer, mitra)
    phone, other = await customer.open("chat"), await mitra.open("chat")
    own = new_id()
    ack = await phone.say(session_id, "halo", client_message_id=own)
    assert await stored(world, session_id) == [(1, "halo")]
    assert (ack["client_message_id"], ack["seq"]) == (own, 1)
    moment(ack["created_at"])
    again = await phone.say(session_id, "something else", client_message_id=own.upper())
    fields = ("client_message_id", "id", "seq", "created_at")
    assert [again[f] for f in fields] == [ack[f] for f in fields]
    async with asyncio.TaskGroup() as group:
        twice = new_id()
        acks = [group.create_task(phone.say(session_id, "twice", client_message_id=twice)) for _ in range(5)]
    assert {task.result()["seq"] for task in acks} == {2}
    assert (await other.say(session_id, "same id, other sender", client_message_id=own))["seq"] == 3
    assert [seq for seq, _ in await stored(world, session_id)] == [1, 2, 3]
    await settle(other)
    assert messages_of(other) == [1, 2]
    got = other.frames[[f["type"] for f in other.frames].index("message")]["message"]
    assert got == {
        "id": ack["id"], "session_id": session_id, "seq": 1, "sender_type": "customer", "sender_id": customer.user["id"],
        "client_message_id": own, "type": "text", "content": "halo", "metadata": None, "status": "sent",
        "created_at": ack["created_at"], "delivered_at": None, "read_at": None,
        "blanked": False,
    }  # fmt: skip


async def test_repeated_message_is_acknowledged_after_the_session_has_ended(world: World) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    session_id = await world.session(customer, mitra)
    phone = await customer.open("chat")
    own = new_id()
    ack = await phone.say(session_id, "halo", client_message_id=own)
    await end_early(world, customer, session_id)
    again = await phone.say(session_id, "halo", client_message_id=own)
    assert (again["type"], again.get("id"), again.get("seq")) == ("message_ack", ack["id"], 1)
    refused = await phone.say(session_id, "new")
    assert (refused["type"], refused["code"]) == ("error", "SESSION_NOT_ACTIVE")
    assert await stored(world, session_id) == [(1, "halo")]


async def test_invalid_message_is_refused_without_affecting_others(world: World) -> None:
    customer, mitra, stranger = await world.customer(), await world.mitra(), await world.customer()
    session_id = await world.session(customer, mitra)
    phone, intruder = await customer.open("chat"), await stranger.open("chat")
    longest = "\U0001f600" * 3900  # nearly 16 KiB in UTF-8
    wrong: list[dict[str, Any]] = [
        {"content": ""},
        {"content": "x" * 4001},
        {"content": "a\0b"},
        {"content": "x", "metadata": {"k": "a\0b"}},
        {"content": "x", "metadata": {"a\0b": 1}},
        {"content": "x", "metadata": {"k": "x" * 5000}},
        {"content": "x", "metadata": [1]},
        {"content": "x", "message_type": "system"},
        {"content": "x", "message_type": "image"},
        {"content": 5},
        {"content": "x", "client_message_id": "one"},
        {"content": "x", "seq": 7},
        {"content": "hai \ud83d"},
        {"content": "x", "metadata": {"k": "\ud800"}},
        {"content": " \u200b "},
        {"content": "a\x07b"},
    ]
    base = {"type": "send_message", "session_id": session_id}
    frames = [base | {"client_message_id": new_id(), "ref": str(n)} | frame for n, frame in enumerate(wrong)]
    good = base | {
        "client_message_id": new_id(),
        "ref": "good",
        "content": longest[:3800],
        "metadata": {"k": [1, None]},
    }
    for frame in frames:
        await phone.send(frame)
    await phone._ws.send_str(json.dumps(good, ensure_ascii=False))
    ack = await phone.wait("message_ack")
    assert (ack["ref"], ack["seq"]) == ("good", 1)
    refused = {f.get("ref"): f["code"] for f in phone.frames if f["type"] == "error"}
    assert refused.keys() >= {str(n) for n in range(len(wrong))}
    named = {f["ref"]: f["details"]["fields"][0]["field"] for f in phone.frames if f.get("code") == "VALIDATION_ERROR"}
    last = {str(n): list(frame)[-1].replace("message_type", "type") for n, frame in enumerate(wrong)}
    assert named == {name: last[name] for name in named}
    assert set(refused.values()) <= {"VALIDATION_ERROR", "INVALID_FRAME"}
    assert (await phone.say(session_id, "x" * 4000))["seq"] == 2
    for foreign in (session_id, new_id()):
        answer = await intruder.say(foreign, "let me in")
        assert (answer["type"], answer["code"]) == ("error", "NOT_FOUND")
    assert [seq for seq, _ in await stored(world, session_id)] == [1, 2]


async def test_sending_socket_gets_the_ack_and_all_other_sockets_the_message(world: World) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    session_id = await world.session(customer, mitra)
    sender, own_other = await customer.open("chat"), await customer.open("chat")
    theirs = [await mitra.open("chat") for _ in range(2)]
    await sender.say(session_id, "halo")
    for socket in (own_other, *theirs):
        assert (await socket.wait("message"))["message"]["seq"] == 1
    assert not [f for f in own_other.frames if f["type"] == "message_ack"]
    await settle(sender)
    assert messages_of(sender) == []


async def test_read_markers_reach_the_other_party_clamped_to_the_last_message(world: World) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    session_id = await world.session(customer, mitra)
    phone, other, other2 = await customer.open("chat"), await mitra.open("chat"), await mitra.open("chat")
    for n in range(3):
        await phone.say(session_id, str(n))
    await other.send({"type": "delivered", "session_id": session_id, "up_to": 2})
    status = await phone.wait("message_status")
    assert (status["session_id"], status["status"], status["up_to"]) == (session_id, "delivered", 2)
    moment(status["at"])
    await other.send({"type": "read", "session_id": session_id, "up_to": 2**31 - 1})
    status = await phone.wait("message_status", where=lambda frame: frame["status"] == "read")
    assert status["up_to"] == 3
    assert (await other2.wait("message_status", where=lambda frame: frame["status"] == "read"))["up_to"] == 3
    await other.send({"type": "read", "session_id": session_id, "up_to": 1})  # marks only grow
    assert (await phone.say(session_id, "late"))["seq"] == 4
    await other.send({"type": "read", "session_id": session_id, "up_to": 4})
    await phone.wait("message_status", where=lambda frame: frame["status"] == "read" and frame["up_to"] == 4)
    seen = [f["up_to"] for f in phone.frames if f["type"] == "message_status" and f["status"] == "read"]
    assert seen == sorted(seen)
    listed = (await customer.get(f"/api/shared/chat/sessions/{session_id}/messages"))["items"]
    assert [m["status"] for m in listed] == ["read"] * 4
    assert all(m["read_at"] and m["delivered_at"] for m in listed)


async def test_snapshot_has_the_marks_that_moved_while_a_party_was_away(world: World) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    session_id = await world.session(customer, mitra)
    phone, other = await customer.open("chat"), await mitra.open("chat")
    for text in ("a", "b", "c"):
        await phone.say(session_id, text)
    await phone.close()
    await other.send({"type": "delivered", "session_id": session_id, "up_to": 3})
    await other.send({"type": "read", "session_id": session_id, "up_to": 2})

    async def marks() -> list[tuple[int, int]]:
        opened = [await one.open("chat") for one in (customer, mitra)]
        found = [
            session for socket in opened for session in socket.frames[0]["sessions"] if session["id"] == session_id
        ]
        return [(session["peer_delivered_up_to"], session["peer_read_up_to"]) for session in found]

    # The customer's own messages are marked, and the mitra has written none.
    await world.until(marks, lambda seen: seen == [(3, 2), (0, 0)])


async def test_read_marker_is_sent_after_the_session_has_ended(world: World) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    session_id = await world.session(customer, mitra)
    phone, other = await customer.open("chat"), await mitra.open("chat")
    await phone.say(session_id, "halo")
    await end_early(world, customer, session_id)
    await other.send({"type": "read", "session_id": session_id, "up_to": 1})
    assert (await phone.wait("message_status", where=lambda frame: frame["status"] == "read"))["up_to"] == 1


async def test_blanked_session_is_synced_and_listed_without_texts(world: World) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    session_id = await world.session(customer, mitra)
    phone, other = await customer.open("chat"), await mitra.open("chat")
    await phone.say(session_id, "halo")
    await end_early(world, customer, session_id)
    for party in (customer, mitra):
        await party.post(f"/api/shared/chat/sessions/{session_id}/closure", {"message": "dadah"})
    await world.stack.sql("UPDATE chat_sessions SET blanked_at = now(), blanked_seq = 0 WHERE id = $1", session_id)
    await world.stack.sql("UPDATE session_closures SET message = '' WHERE session_id = $1", session_id)
    for party, socket in ((customer, phone), (mitra, other)):
        await socket.send({"type": "sync", "session_id": session_id, "after": 0})
        (synced,) = (await socket.wait("sync"))["messages"]
        assert (synced["seq"], synced["content"], synced["metadata"], synced["blanked"]) == (1, "", None, True)
        assert (await party.get(f"/api/shared/chat/sessions/{session_id}/messages"))["items"] == [synced]


async def test_typing_reaches_only_the_other_party(world: World) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    session_id = await world.session(customer, mitra)
    phone, other = await customer.open("chat"), await mitra.open("chat")
    for is_typing in (True, False):
        await phone.send({"type": "typing", "session_id": session_id, "is_typing": is_typing})
        frame = await other.wait("typing")
        assert (frame["session_id"], frame["is_typing"]) == (session_id, is_typing)
    await settle(phone)
    assert not [f for f in phone.frames if f["type"] == "typing"]


async def say_many(socket: RecordedSocket, session_id: str, count: int) -> None:
    """Send messages without waiting for each; wait until all are acknowledged."""
    refs = [new_id() for _ in range(count)]
    for n, ref in enumerate(refs):
        frame = {"type": "send_message", "session_id": session_id, "client_message_id": new_id(), "ref": ref}
        await socket.send(frame | {"content": f"{n}"})
    for ref in refs:
        answer = await socket.wait("message_ack", "error", where=lambda frame, ref=ref: frame.get("ref") == ref)
        assert answer["type"] == "message_ack", answer


async def test_300_concurrent_messages_arrive_in_order_on_every_device_and_in_sync_pages(
    world: World,
) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    session_id = await world.session(customer, mitra)
    senders = [await customer.open("chat"), await mitra.open("chat")]
    readers = [await customer.open("chat"), await customer.open("chat"), await mitra.open("chat")]
    async with asyncio.TaskGroup() as group:
        for socket in senders:
            group.create_task(say_many(socket, session_id, 150))
    for socket in readers:
        await socket.wait("message", where=lambda frame: frame["message"]["seq"] == 300)
        assert messages_of(socket) == list(range(1, 301))
    for socket in senders:  # the messages of one sender are in order of seq, and so are those of the other
        await world.until(lambda socket=socket: settle(socket), lambda _, s=socket: len(messages_of(s)) >= 150)
        acks = [f["seq"] for f in socket.frames if f["type"] == "message_ack"]
        assert acks == sorted(acks)
        assert sorted(acks + messages_of(socket)) == list(range(1, 301))
        assert messages_of(socket) == sorted(messages_of(socket))
    for sender in ("customer", "mitra"):
        rows = await world.stack.sql(
            "SELECT content FROM chat_messages WHERE session_id = $1::uuid AND sender_type = $2 ORDER BY seq",
            session_id,
            sender,
        )
        assert [row["content"] for row in rows] == [str(n) for n in range(150)]

    fresh = await customer.open("chat")
    pages, after, more = [], 0, True
    while more:
        await fresh.send({"type": "sync", "session_id": session_id, "after": after, "ref": f"p{after}"})
        page = await fresh.wait("sync")
        assert page["ref"] == f"p{after}"
        assert page["last_seq"] == 300
        pages.append(page["messages"])
        after, more = page["messages"][-1]["seq"], page["more"]
    assert [len(page) for page in pages] == [200, 100]
    assert [(m["seq"], m["content"]) for page in pages for m in page] == await stored(world, session_id)


def long_messages_frame(session_id: str) -> dict[str, Any]:
    """Return a message frame of nearly 16 KiB."""
    content = "\U0001f600" * 3900
    return {"type": "send_message", "session_id": session_id, "client_message_id": new_id(), "content": content}


async def store_long_messages(socket: RecordedSocket, session_id: str, count: int) -> None:
    """Store long messages."""
    for _ in range(count):
        await socket._ws.send_str(json.dumps(long_messages_frame(session_id), ensure_ascii=False))
    for _ in range(count):
        await socket.wait("message_ack")


async def test_sync_page_of_long_messages_fits_the_outbox(world: World) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    session_id = await world.session(customer, mitra)
    await store_long_messages(await customer.open("chat"), session_id, 100)
    socket, _ = await bare_and_known(mitra)
    seqs: list[int] = []
    more = True
    while more:
        await socket.say({"type": "sync", "session_id": session_id, "after": seqs[-1] if seqs else 0})
        while (message := await socket.ws.receive()).json()["type"] != "sync":
            pass
        assert len(message.data.encode()) < 1 << 20
        page = message.json()
        assert page["last_seq"] == 100
        seqs += [m["seq"] for m in page["messages"]]
        more = page["more"]
    assert seqs == list(range(1, 101))


async def chat_sockets(world: World) -> float:
    """Return the number of chat sockets in the process's metrics."""
    url = f"http://127.0.0.1:{world.stack.ports['REALTIME']}/metrics"
    async with world.client()._http.get(url) as answer:
        lines = (await answer.text()).splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith('sesi_sockets{path="chat"}'))


async def test_client_that_never_reads_is_disconnected_without_harming_others(world: World) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    session_id = await world.session(customer, mitra)
    phone, other = await customer.open("chat"), await mitra.open("chat")
    await store_long_messages(phone, session_id, 60)
    slow, _ = await bare_and_known(mitra)
    there = await chat_sockets(world)
    asked = 0
    for _ in range(150):  # each answer has some 900 KB; the client reads none of it
        await slow.say({"type": "sync", "session_id": session_id, "after": 0, "ref": str(asked)})
        asked += 1
    for n in range(20):
        assert (await phone.say(session_id, f"still here {n}"))["type"] == "message_ack"
    assert (await other.wait("message", where=lambda f: f["message"]["content"] == "still here 19"))["message"]
    # Reading too early would keep the connection: the answers are still being written.
    await world.until(lambda: chat_sockets(world), lambda now: now == there - 1)
    answered = 0
    async with asyncio.timeout(30):
        while not slow.ws.closed:  # reads only now: first what was sent before the cut, then the end
            message = await slow.ws.receive()
            answered += message.type.name == "TEXT" and message.json()["type"] == "sync"
    assert answered < asked
    assert slow.ws.close_code in (4408, 1006)


async def test_snapshot_plus_later_events_equals_a_new_snapshot(world: World) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    watchers = [(client, await client.open("chat")) for client in (customer, mitra)]
    session_id = await world.session(customer, mitra)
    speaker = await customer.open("chat")

    async def check(status: str) -> None:
        for client, socket in watchers:
            await socket.wait(f"session_{status}")
            await settle(socket)
            known = {s["id"]: s for s in next(f for f in socket.frames if f["type"] == "auth_ok")["sessions"]}
            for frame in socket.frames:
                if frame["type"].startswith("session_") and "session" in frame:
                    known[frame["session"]["id"]] = frame["session"]
                elif frame["type"] == "message":
                    known[frame["message"]["session_id"]]["last_seq"] = frame["message"]["seq"]
            open_ones = [s for s in known.values() if s["status"] in ("active", "expired", "closing")]
            _, fresh = await bare_and_known(client)
            counted = {"unread_count"}  # clients count these themselves
            only_there = {"extension", "peer_absent_since", "peer_delivered_up_to", "peer_read_up_to"}
            assert [{k: s[k] for k in s.keys() - counted} for s in open_ones] == [
                {k: s[k] for k in s.keys() - counted - only_there} for s in fresh["sessions"]
            ]

    await check("started")
    for n in range(3):
        await speaker.say(session_id, str(n))
    await end_early(world, mitra, session_id)
    await check("closing")
    for client in (customer, mitra):
        await client.post(f"/api/shared/chat/sessions/{session_id}/closure", {"message": "bye"})
    await check("completed")


async def rest_say(client: Device, session_id: str, content: str) -> dict[str, Any]:
    """Send a message over REST."""
    body = {"client_message_id": new_id(), "content": content}
    return await client.post(f"/api/shared/chat/sessions/{session_id}/messages", body)


async def test_messages_and_marks_over_rest_appear_on_the_sockets(world: World) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    session_id = await world.session(customer, mitra)
    phone, other = await customer.open("chat"), await mitra.open("chat")
    made = await rest_say(customer, session_id, "over REST")
    for socket in (phone, other):
        seen = (await socket.wait("message"))["message"]
        assert (seen["id"], seen["seq"], seen["content"]) == (made["id"], 1, "over REST")
    assert (await phone.say(session_id, "over the socket"))["seq"] == 2
    await mitra.post(f"/api/shared/chat/sessions/{session_id}/read", {"up_to": 2})
    read = await phone.wait("message_status", where=lambda frame: frame["status"] == "read")
    assert (read["session_id"], read["up_to"]) == (session_id, 2)
    with pytest.raises(Refused) as refused:
        await rest_say(await world.customer(), session_id, "let me in")
    assert (refused.value.status, refused.value.code) == (404, "NOT_FOUND")


async def test_client_that_was_offline_has_everything_after_one_sync(world: World) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    session_id = await world.session(customer, mitra)
    phone, other = await customer.open("chat"), await mitra.open("chat")
    await phone.say(session_id, "0")
    await other.wait("message")
    await other.close()
    for n in range(1, 4):
        await phone.say(session_id, str(n))
    back, known = await bare_and_known(mitra)
    [session] = known["sessions"]
    assert (session["last_seq"], session["unread_count"]) == (4, 4)
    await back.say({"type": "sync", "session_id": session_id, "after": 1})
    assert [m["seq"] for m in (await back.next_frame_of("sync"))["messages"]] == [2, 3, 4]
    await phone.say(session_id, "4")
    assert (await back.next_frame_of("message"))["message"]["seq"] == 5


async def test_sync_has_the_digest_up_to_the_last_message_of_each_page(world: World) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    session_id = await world.session(customer, mitra)
    socket = await customer.open("chat")
    try:
        for n in range(5):
            await socket.say(session_id, f"pesan {n} é")
        rows = await world.stack.sql(
            "SELECT seq, id::text, content FROM chat_messages WHERE session_id = $1 ORDER BY seq", session_id
        )
        known = ["00" * 32, *digests_of([(row["seq"], row["id"], row["content"]) for row in rows])]
        for after in (0, 2, 5, 9):
            await socket.send({"type": "sync", "session_id": session_id, "after": after, "ref": f"s{after}"})
            page = await socket.wait("sync")
            last = page["messages"][-1]["seq"] if page["messages"] else after
            assert (page["digest"], page["blanked"]) == (known[last] if last <= 5 else None, False)
        async with world.setting(early_end_customer_enabled=True):
            await finish(customer, mitra, session_id)
        await world.stack.sql(
            "UPDATE chat_sessions SET blanked_at = ended_at, blanked_seq = 0 WHERE id = $1", session_id
        )
        await world.stack.sql("UPDATE session_closures SET message = '' WHERE session_id = $1", session_id)
        await socket.send({"type": "sync", "session_id": session_id, "after": 0, "ref": "blanked"})
        page = await socket.wait("sync")
        assert (page["digest"], page["blanked"], len(page["messages"])) == (None, True, 5)
    finally:
        await socket.close()
