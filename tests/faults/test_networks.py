"""PostgreSQL and Redis frozen, cut off, or with dropped replies: no call hangs, nothing is lost, and the service
recovers.
"""

import asyncio
import contextlib
import pathlib
import time

import pytest

from tests.faults import people as app
from tests.faults.proxy import Mode, When
from tests.faults.service import Service
from tests.stack import World, new_id, within
from tools.driving.device import Device
from tools.driving.sesi_client import Refused

pytestmark = pytest.mark.anyio
ANSWER_S = 5.0  # docs/invariants.md#i11
MARGIN_S = 1.0  # next to that of a busy machine
SLOW_S, SLOW_FOR_S = 4.6, 12.0  # a reply that takes longer than a statement may; and how long all replies are slow


async def calls_of(customer: object, session_id: str) -> list[tuple[str, str, object]]:
    """Return one call of each kind: a read and a write of each kind."""
    about = f"/api/shared/chat/sessions/{session_id}"
    return [
        ("GET", about, None),
        ("GET", "/api/client/auth/me", None),
        ("POST", f"{about}/messages", {"client_message_id": new_id(), "content": "x"}),
        ("POST", f"{about}/read", {"up_to": 1}),
        ("POST", "/api/client/payment/requests", {"duration_minutes": 12}),
    ]


@pytest.mark.parametrize("mode", [Mode.HANG, Mode.CUT, Mode.SWALLOW], ids=lambda mode: mode.value)
async def test_calls_while_the_database_is_frozen_get_unavailable_then_recover(
    proxied_world: World, proxied_stack: Service, mode: Mode
) -> None:
    customer, mitra = await proxied_world.customer(), await proxied_world.mitra()
    session_id = await app.paired(proxied_world, customer, mitra)
    async with app.phones(customer, mitra) as (phone, desk):
        await phone.say(session_id, "before")
        longest = within(ANSWER_S + MARGIN_S)
        await proxied_stack.network("postgres", mode)

        async def refused(method: str, path: str, body: object) -> None:
            began = time.monotonic()
            with pytest.raises(Refused) as caught:
                await customer.call(method, path, body)
            assert (caught.value.status, caught.value.code) == (503, "UNAVAILABLE"), path
            assert time.monotonic() - began < longest, path

        async with asyncio.TaskGroup() as group:
            words = [group.create_task(phone.say(session_id, f"during {n}")) for n in range(5)]
            for call in await calls_of(customer, session_id):
                group.create_task(refused(*call))
            lifted = group.create_task(asyncio.sleep(longest))
            await lifted
            await proxied_stack.network("postgres", Mode.PASS)
        back = time.monotonic()
        assert sorted(word.result()["seq"] for word in words) == sorted({word.result()["seq"] for word in words})
        await app.whole_session(proxied_world)
        # docs/invariants.md#i12, plus the duration of the session's own steps
        assert time.monotonic() - back < within(5 + 5)
        for one in (phone, desk):
            await app.wait_for_transcript(proxied_world, one, session_id)
        stored = [content for _, _, content in await app.stored(proxied_world, session_id) if content != "x"]
        assert sorted(stored) == sorted(["before", *(f"during {n}" for n in range(5))])


async def test_cutting_all_database_connections_fails_no_call(proxied_world: World, proxied_stack: Service) -> None:
    customer, mitra = await proxied_world.customer(), await proxied_world.mitra()
    session_id = await app.paired(proxied_world, customer, mitra)
    async with app.phones(customer, mitra) as (phone, desk):
        for n in range(5):
            for node in proxied_stack.nodes.values():
                await asyncio.to_thread(node.postgres.reset_all)
            assert (await customer.get(f"/api/shared/chat/sessions/{session_id}"))["status"] == "active"
            assert (await phone.say(session_id, str(n)))["seq"] == n + 1
        await desk.until(lambda: len(desk.transcript(session_id)) == 5)
        await app.wait_for_transcript(proxied_world, phone, session_id)


@pytest.mark.parametrize(
    ("mode", "seconds"), [(Mode.CUT, 0.6), (Mode.CUT, 4.0), (Mode.HANG, 4.0), (Mode.SWALLOW, 2.0)],
    ids=["cut-0.6", "cut", "frozen", "deaf"],
)  # fmt: skip
async def test_events_and_messages_during_a_redis_outage_arrive_once(
    proxied_world: World, proxied_stack: Service, mode: Mode, seconds: float
) -> None:
    customer, mitra = await proxied_world.customer(), await proxied_world.mitra()
    async with app.phones(customer, mitra) as (phone, desk):
        await proxied_stack.network("redis", mode)
        began = time.monotonic()
        session_id = await app.paired(proxied_world, customer, mitra)  # the api process can't publish it
        assert time.monotonic() - began < within(5)
        for n in range(20):  # some during the fault, some at its end, some after it
            await phone.say(session_id, f"c{n}")
            await asyncio.sleep(max(0.0, (seconds + 1) / 20))
            if time.monotonic() - began > seconds:
                await proxied_stack.network("redis", Mode.PASS)
        await proxied_stack.network("redis", Mode.PASS)
        for one in (phone, desk):
            await one.until(lambda one=one: session_id in one.sessions)
            await one.until(lambda one=one: len(one.transcript(session_id)) == 20)
            await app.wait_for_transcript(proxied_world, one, session_id)
            started = [frame for frame in one.events if frame["type"] == "session_started"]
            assert [frame["session"]["id"] for frame in started] == [session_id]


async def test_socket_opened_during_a_gap_lookup_gets_no_message_older_than_its_snapshot(
    proxied_world: World, proxied_stack: Service
) -> None:
    customer, mitra = await proxied_world.customer(), await proxied_world.mitra()
    session_id = await app.paired(proxied_world, customer, mitra)
    node = proxied_stack.nodes["realtime"]
    socket = await mitra.open("chat")
    await proxied_stack.network("redis", Mode.CUT, ["realtime"])
    lookup = node.postgres.park(r"WHERE m\.session_id = \$1 AND m\.seq > \$2", when=When.AFTER)
    said = {"client_message_id": new_id(), "content": "lost on the way"}
    await customer.post(f"/api/shared/chat/sessions/{session_id}/messages", said)
    await lookup.reached()  # the process has seen the gap
    await socket.close()
    # No party of the session is connected: the process forgets the session within a second, or later on a busy machine.
    # The statement that is held fails after 4.5 s.
    await asyncio.sleep(2.5)
    socket = await mitra.open("chat")
    lookup.release()
    await asyncio.sleep(1.0)
    (snapshot,) = [frame for frame in socket.frames if frame["type"] == "auth_ok"]
    assert [session["last_seq"] for session in snapshot["sessions"]] == [1]
    assert [frame for frame in socket.frames if frame["type"] == "message"] == []
    await socket.close()


async def test_unacknowledged_events_are_sent_before_newer_events(proxied_world: World, proxied_stack: Service) -> None:
    customer, mitra = await proxied_world.customer(), await proxied_world.mitra()
    session_id = await app.paired(proxied_world, customer, mitra)  # no device has acknowledged that the session began
    await proxied_stack.sql(
        "UPDATE deliveries SET created_at = created_at - interval '15 seconds' WHERE session_id = $1::uuid", session_id
    )
    unacknowledged = proxied_stack.nodes["realtime"].postgres.park(r"^SELECT d\.\* FROM unnest", when=When.AFTER)
    phone = await customer.start("chat")
    try:
        await unacknowledged.reached()
        await app.end_now(proxied_world, [session_id])
        status = "SELECT status FROM chat_sessions WHERE id = $1::uuid"
        await proxied_world.until(
            lambda: proxied_stack.sql(status, session_id), lambda rows: rows[0]["status"] == "expired"
        )
        await asyncio.sleep(0.5)  # it is sent to the socket, which has not received its snapshot yet
        unacknowledged.release()
        await phone.until(lambda: len(phone.events) == 2)
        assert [frame["type"] for frame in phone.events] == ["session_started", "session_expired"]
        await app.wait_for_transcript(proxied_world, phone, session_id)
        assert phone.sessions[session_id]["status"] == "expired"
    finally:
        unacknowledged.release()
        await phone.stop()


async def test_refusal_does_not_wait_for_a_frozen_database(proxied_world: World, proxied_stack: Service) -> None:
    customer = await proxied_world.customer()
    undone = proxied_stack.nodes["api"].postgres.park("^ROLLBACK", when=When.BEFORE)
    began = time.monotonic()
    try:
        with pytest.raises(Refused) as caught:
            await customer.post(f"/api/client/payment/requests/{new_id()}/abandon")
        await undone.reached()
        assert (caught.value.status, caught.value.code) == (404, "NOT_FOUND")
        assert time.monotonic() - began < within(ANSWER_S + MARGIN_S)
    finally:
        undone.release()


async def test_webhook_takes_effect_when_neither_log_nor_file_can_store_it(
    proxied_world: World, proxied_stack: Service
) -> None:
    customer = await proxied_world.customer()
    payment = await app.request(customer)
    folder = pathlib.Path(proxied_stack.env["WEBHOOK_FALLBACK_DIR"])
    (day,) = [row[0] for row in await proxied_stack.sql("SELECT to_char(clock_timestamp(), 'YYYY-MM-DD')")]
    full = folder / f"kept-{day}.jsonl"
    await proxied_stack.sql(
        """CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no room' USING ERRCODE = '53100'; END $$"""
    )
    await proxied_stack.sql(
        "CREATE TRIGGER no_room BEFORE INSERT ON webhook_logs FOR EACH ROW EXECUTE FUNCTION no_room()"
    )
    full.unlink(missing_ok=True)  # calls of earlier tests, whose database was just back
    full.symlink_to("/dev/full")  # every write fails with "no space left on device"
    try:
        status, answer = await proxied_world.webhook(payment)
    finally:
        full.unlink()
        await proxied_stack.sql("DROP TRIGGER no_room ON webhook_logs")
        await proxied_stack.sql("DROP FUNCTION no_room()")
    assert (status, answer["processing_result"]) == (200, "confirmed")
    assert await app.searched(proxied_world, customer, payment)
    with contextlib.suppress(Refused):
        await customer.post("/api/client/chat/cancel", {"payment_request_id": payment["payment_request_id"]})
    assert (await proxied_world.webhook(payment))[1]["processing_result"] == "duplicate"


async def test_phone_repeats_a_request_that_got_no_answer(proxied_world: World, proxied_stack: Service) -> None:
    customer, mitra = await proxied_world.customer(), await proxied_world.mitra()
    session_id = await app.paired(proxied_world, customer, mitra)
    async with app.phones(customer) as (phone,):
        await phone.until(lambda: session_id in phone.sessions)
        await phone.say(session_id, "satu")
    place = proxied_stack.nodes["realtime"].postgres.park(
        r"FROM chat_messages AS m JOIN chat_sessions", when=When.BEFORE
    )
    customer.chats.clear()  # it has no messages again, so it sends `sync`
    async with app.phones(customer) as (phone,):
        await place.reached()
        await phone.until(lambda: len(phone.transcript(session_id)) == 1, timeout=ANSWER_S + 5)
        assert not place.is_held  # the service gave up
        assert "no connection ended yet" in phone.connection_log()  # the phone asked again over the same socket
        await app.wait_for_transcript(proxied_world, phone, session_id)


async def test_slow_database_gets_few_new_connections_and_none_after_recovery(
    proxied_world: World, proxied_stack: Service
) -> None:
    """Each statement that times out costs its connection; replacing connections must not keep the database busy."""
    proxy = proxied_stack.nodes["api"].postgres
    customers = [await proxied_world.customer() for _ in range(20)]
    answers: list[int] = []
    asking = True

    async def ask_on(customer: Device) -> None:
        while asking:
            try:
                await customer.get("/api/client/auth/me")
                answers.append(200)
            except Refused as error:
                answers.append(error.status)
            await asyncio.sleep(0.6)  # within the user's rate limit

    async def all_well() -> bool:
        answers.clear()
        await asyncio.sleep(2)
        return len(answers) > 5 and set(answers) == {200}

    async def all_well_on_old_connections() -> bool:
        opened = proxy.accepted
        return await all_well() and proxy.accepted - opened <= 2

    async with asyncio.TaskGroup() as group:
        for customer in customers:
            group.create_task(ask_on(customer))
        try:
            opened, began = proxy.accepted, time.monotonic()
            proxy.delay_s = SLOW_S
            await asyncio.sleep(SLOW_FOR_S)
            # A pool has 20 connections, and each attempt to replace one takes seconds.
            assert proxy.accepted - opened < 20 * (1 + (time.monotonic() - began) / 4)
            proxy.delay_s = 0.0
            # The pool first grows again to what twenty customers need at once; after that no connection is replaced.
            await proxied_world.until(all_well_on_old_connections, bool, timeout=30)
        finally:
            proxy.delay_s = 0.0
            asking = False
