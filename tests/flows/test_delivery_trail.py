"""The delivery trail says what happened to each event on each device, and nothing that did not happen
(docs/fairness.md#delivery-trail).
"""

import asyncio
import contextlib
import datetime as dt
import socket
from typing import Any

import asyncpg
import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.accounts.logins import devices as login_devices
from core.base import ids
from core.base.actor import Actor
from core.base.id_ranges import month_of, months_after
from core.deliveries import note_trail, trail
from core.deliveries import store as deliveries
from core.deliveries.pushes import store as pushes
from core.deliveries.stages import KEPT, MOST, TrailMark, TrailStage
from core.erasures.rules import SETTLED, RequestedBy
from core.events.notices import Notice
from core.privacy import erase as erasure
from core.privacy import erase_rest, partition_upkeep, retention
from core.privacy.erase import Requester
from core.providers.push_sender import DeadToken, Later, PushRefused, Sent
from core.sessions import deliver, push_fallback
from core.storage import partitions
from core.telemetry import metrics
from realtime import event_trail
from realtime.connection import Connection
from realtime.event_trail import SentEvents
from realtime.hub import Hub
from realtime.message_queue import MessageQueue
from tests.clock import HandClock
from tests.flows.conftest import Harness
from tests.flows.sockets import connected, frames_of
from tests.tiers import examples

Row = tuple[str, str | None, str]
ROWS = "SELECT event_id::text, auth_session_id::text, stage, recipient_id::text, event, at FROM delivery_trail"
DEVICE = """INSERT INTO auth_sessions (id, user_type, user_id, refresh_token_hash, device_info, created_at, last_used_at, expires_at)
  VALUES ($1, 'customer', $2, $1::uuid::text, $3, now(), now(), now() + interval '30 days')"""
AGED = "UPDATE deliveries SET created_at = created_at - interval '2 hours' WHERE id = $1"
PAYLOAD = '{"payment_request":{"payment_request_id":"$"}}'
DEVICES = 3
OUTCOMES = {
    "taken": Sent(),
    "logged": Sent(by_provider=False),
    "refused": PushRefused(),
    "token is dead": DeadToken(),
    "lifetime ends": Later(after_s=7200),
    "later": Later(after_s=1),
}
STEP = st.tuples(
    st.sampled_from(["event", "send", "connect", "ack", "unshown", "push", "open", "give up", "store", "hub dies"]),
    st.integers(0, 3),
    st.integers(0, DEVICES - 1),
    st.integers(0, 1),
    st.sampled_from(sorted(OUTCOMES)),
)


async def rows_of(harness: Harness) -> set[Row]:
    """Return the (event, device, stage) of all rows, each of which must be there once."""
    found = await harness.runtime.db.fetch(ROWS)
    rows = {(row["event_id"], row["auth_session_id"], row["stage"]) for row in found}
    assert len(rows) == len(found)
    return rows


async def cleared(harness: Harness) -> None:
    await harness.clear()
    await harness.empty("delivery_trail", "pushes")


async def new_event(harness: Harness, recipient_id: str, event: str = "session_warning", **more: Any) -> Notice:
    """Store an event of which nothing is sent."""
    session_id = None if event == "payment_updated" else ids.new_id()
    async with harness.runtime.transaction() as tx:
        made = Notice(
            event_id=ids.new_event_id(await tx.event_time()), recipient_id=recipient_id, recipient_type="customer",
            event=event, session_id=session_id, payload=PAYLOAD.replace("$", ids.new_id()),
        )  # fmt: skip
        await deliveries.add(tx, [made])
        tx.outgoing.notices.clear()
    return made


def on_devices(actor: Actor, count: int) -> list[Actor]:
    """Return a user on several devices."""
    return [attrs.evolve(actor, auth_session_id=ids.new_id()) for _ in range(count)]


async def push(harness: Harness, notice: Notice, device: Actor, outcome: push_fallback.Outcome) -> None:
    """Plan the push of an event to a device and store the provider's answer."""
    content = {"action": "open_session", "event": notice.event, "event_id": notice.event_id}
    planned = pushes.Planned(
        auth_session_id=device.auth_session_id, push_token="a token", content=content, urgent=True, ttl=dt.timedelta(hours=1)
    )  # fmt: skip
    async with harness.runtime.transaction() as tx:
        await pushes.add(tx, [planned])
    claimed = await push_fallback.claim_due(harness.runtime, limit=100)
    (mine,) = [one for one in claimed if one.content["event_id"] == notice.event_id]
    await push_fallback.settle(harness.runtime, [(mine, outcome)])
    await harness.runtime.db.fetch("DELETE FROM pushes")


class Model:
    """Devices of one customer, two hubs, and the expected rows of the trail.

    The sent events are read from the devices' ends of the sockets.
    """

    def __init__(self, harness: Harness, customer: Actor, stack: contextlib.AsyncExitStack) -> None:
        self.harness = harness
        self.devices = on_devices(customer, DEVICES)
        self.stack = stack
        self.hubs = [Hub(harness.runtime, MessageQueue()) for _ in range(2)]
        self.sockets: list[tuple[int, int, socket.socket]] = []  # (hub, device, the device's end)
        self.events: list[Notice] = []
        self.pending: dict[str, Notice] = {}
        self.unwritten: list[set[Row]] = [set(), set()]  # by hub: sent and not in the trail
        self.expected: set[Row] = set()

    async def step(self, what: str, event: int, device: int, hub: int, outcome: str) -> None:
        """Let something happen, to the event with this number if there is one."""
        actor = self.devices[device]
        if what == "event":
            kind = ("session_warning", "payment_updated")[event % 2]
            made = await new_event(self.harness, actor.user_id, kind)
            self.events.append(made)
            self.pending[made.event_id] = made
        elif what == "connect":
            await self._connect(device, hub)
        elif what == "store":
            await self.hubs[hub].sent_events.store()
            self.expected |= self.unwritten[hub]
            self.unwritten[hub] = set()
        elif what == "hub dies":
            self.hubs[hub] = Hub(self.harness.runtime, MessageQueue())
            self.sockets = [one for one in self.sockets if one[0] != hub]
            self.unwritten[hub] = set()
        elif self.events:
            await self._of_event(what, self.events[event % len(self.events)], actor, hub, outcome)
        await self._receive()

    async def _of_event(self, what: str, notice: Notice, actor: Actor, hub: int, outcome: str) -> None:
        runtime, event_id, device = self.harness.runtime, notice.event_id, actor.auth_session_id
        match what:
            case "send":
                self.hubs[hub].events.send(notice)
            case "ack":
                stranger = attrs.evolve(actor, ids=(ids.new_id(),))
                known = await deliver.acknowledge(runtime, [(event_id, stranger), (event_id, actor)])
                assert known == self.pending.keys() & {event_id}
                self.pending.pop(event_id, None)
                self.expected.add((event_id, device, "acknowledged"))
            case "unshown":
                known = await deliver.acknowledge(runtime, [], unshown=[(event_id, actor), (event_id, actor)])
                assert known == self.pending.keys() & {event_id}
                self.expected.add((event_id, device, "acknowledged"))
            case "push":
                await push(self.harness, notice, actor, OUTCOMES[outcome])
                if outcome not in ("later", "logged"):
                    self.expected.add((event_id, device, "pushed" if outcome == "taken" else "given_up"))
            case "open":
                stranger = attrs.evolve(actor, ids=(ids.new_id(),), auth_session_id=ids.new_id())
                for caller in (stranger, actor, actor):
                    await note_trail.note_opened(runtime, caller, event_id=event_id)
                self.expected.add((event_id, device, "opened"))
            case "give up":
                await runtime.db.fetch(AGED, event_id)
                await deliver.purge(runtime)
                if self.pending.pop(event_id, None):
                    self.expected.add((event_id, None, "given_up"))

    async def _connect(self, device: int, hub: int) -> None:
        """Connect a device to both paths of a hub, which repeats what is pending."""
        for path in ("chat", "pairing"):
            phone = await self.stack.enter_async_context(connected(self.hubs[hub], self.devices[device], path))
            self.sockets.append((hub, device, phone))
            connection: Connection = list(self.hubs[hub].connections)[-1]
            repeated = self.hubs[hub].events.repeated(connection, list(self.pending.values()))
            connection.put_first(list(repeated.values()), repeated)

    async def _receive(self) -> None:
        for hub, device, phone in self.sockets:
            for frame in await frames_of(phone):
                row = (frame["event_id"], self.devices[device].auth_session_id, "sent")
                self.unwritten[hub].add(row)


@settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEP, min_size=5, max_size=30))
def test_trail_has_what_happened_on_each_device_once_and_nothing_else(
    harness: Harness, steps: list[tuple[str, int, int, int, str]]
) -> None:
    async def play() -> None:
        await cleared(harness)
        async with contextlib.AsyncExitStack() as stack:
            model = Model(harness, await harness.customer(), stack)
            for one in [
                ("event", 0, 0, 0, "later"),
                ("event", 1, 0, 0, "later"),
                ("connect", 0, 0, 0, "later"),
                *steps,
            ]:
                await model.step(*one)
                assert await rows_of(harness) == model.expected
            for hub in (0, 1):
                await model.step("store", 0, 0, hub, "later")
            assert await rows_of(harness) == model.expected

    harness.run(play())


def test_event_keeps_its_recipient_and_what_it_is_about_in_each_row(harness: Harness) -> None:
    async def play() -> None:
        await cleared(harness)
        runtime, (phone, tablet) = harness.runtime, on_devices(await harness.customer(), 2)
        warning, payment = [
            await new_event(harness, phone.user_id, what) for what in ("session_warning", "payment_updated")
        ]
        before = runtime.now()
        marks = [
            TrailMark(event_id=one.event_id, auth_session_id=phone.auth_session_id, stage=TrailStage.SENT, at=before)
            for one in (warning, payment)
        ]
        await note_trail.note_sent(runtime, marks)
        await deliver.acknowledge(runtime, [(one.event_id, phone) for one in (warning, payment)])
        await deliver.acknowledge(runtime, [(one.event_id, tablet) for one in (warning, payment)])
        found = await runtime.db.fetch("SELECT * FROM delivery_trail")
        assert len(found) == 6
        assert {str(row["recipient_id"]) for row in found} == {phone.user_id}
        about = {(str(row["event_id"]), str(row["session_id"]), str(row["payment_request_id"])) for row in found}
        request_id = payment.payload[-39:-3]
        assert about == {(warning.event_id, warning.session_id, "None"), (payment.event_id, "None", request_id)}
        assert all(before <= row["at"] <= runtime.now() for row in found)

    harness.run(play())


def test_unacknowledged_event_that_a_newer_one_replaces_is_given_up(harness: Harness) -> None:
    async def play() -> None:
        await cleared(harness)
        customer = await harness.customer()
        old, other = [
            await new_event(harness, customer.user_id, what) for what in ("session_warning", "session_expired")
        ]
        async with harness.runtime.transaction() as tx:
            await deliveries.forget(tx, [customer.user_id], "session_warning")
        assert await rows_of(harness) == {(old.event_id, None, "given_up")}
        await deliver.acknowledge(harness.runtime, [(other.event_id, customer)])

    harness.run(play())


def test_device_that_reconnects_over_and_over_makes_one_row_and_one_statement(harness: Harness) -> None:
    async def play() -> None:
        await cleared(harness)
        hub, (customer,) = Hub(harness.runtime, MessageQueue()), on_devices(await harness.customer(), 1)
        notice = await new_event(harness, customer.user_id)
        for _ in range(200):
            async with connected(hub, customer, "chat") as phone:
                (connection,) = hub.connections
                repeated = hub.events.repeated(connection, [notice])
                connection.put_first(list(repeated.values()), repeated)
                assert [frame["event_id"] for frame in await frames_of(phone)] == [notice.event_id]
        assert len(hub.sent_events) == 1
        await hub.sent_events.store()
        assert await rows_of(harness) == {(notice.event_id, customer.auth_session_id, "sent")}
        hub.sent_events.add(customer.auth_session_id, [notice.event_id])
        assert len(hub.sent_events) == 0

    harness.run(play())


def test_event_has_a_bounded_number_of_rows_however_many_devices_there_are(harness: Harness) -> None:
    async def play() -> None:
        await cleared(harness)
        customer = await harness.customer()
        notice = await new_event(harness, customer.user_id)
        await deliver.acknowledge(harness.runtime, [(notice.event_id, customer)])
        for device in on_devices(customer, MOST + 20):
            await deliver.acknowledge(harness.runtime, [(notice.event_id, device)])
            await note_trail.note_opened(harness.runtime, device, event_id=notice.event_id)
        assert len(await rows_of(harness)) == MOST

    harness.run(play())


def test_acknowledgements_of_unknown_events_leave_no_row(harness: Harness) -> None:
    async def play() -> None:
        await cleared(harness)
        customer = await harness.customer()
        unknown = [(ids.new_id(), customer), ("ffffffff-ffff-ffff-ffff-ffffffffffff", customer)]
        assert await deliver.acknowledge(harness.runtime, unknown) == set()
        for event_id, _ in unknown:
            await note_trail.note_opened(harness.runtime, customer, event_id=event_id)
        assert await rows_of(harness) == set()

    harness.run(play())


def test_too_many_waiting_events_are_dropped_and_counted(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_trail, "MOST", 10)

    async def play() -> None:
        await cleared(harness)
        customer = await harness.customer()
        notices = [await new_event(harness, customer.user_id) for _ in range(15)]
        trail_of_hub = SentEvents(harness.runtime)
        before = metrics.DELIVERY_TRAIL_DROPPED._value.get()
        trail_of_hub.add(customer.auth_session_id, [one.event_id for one in notices])
        assert metrics.DELIVERY_TRAIL_DROPPED._value.get() == before + 5
        await trail_of_hub.store()
        assert len(await rows_of(harness)) == 10
        trail_of_hub.add(customer.auth_session_id, [one.event_id for one in notices])  # the device connects again
        await trail_of_hub.store()
        assert len(await rows_of(harness)) == 15

    harness.run(play())


def test_event_that_was_not_written_to_the_socket_is_not_in_the_trail(harness: Harness) -> None:
    async def play() -> None:
        await cleared(harness)
        hub, customer = Hub(harness.runtime, MessageQueue()), await harness.customer()
        notices = [await new_event(harness, customer.user_id) for _ in range(3)]
        async with connected(hub, customer, "chat"):
            (connection,) = hub.connections
            hub.events.send(notices[0])
            connection.transport.abort()  # before the loop has written the frame
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        async with connected(hub, customer, "chat"):
            hub.connections.mute()
            hub.events.send(notices[1])
        async with connected(hub, customer, "chat") as phone:
            (connection,) = hub.connections
            connection.ready = False  # its snapshot is not read yet
            hub.events.send(notices[2])
            await frames_of(phone)
        assert len(hub.sent_events) == 0

    harness.run(play())


def test_event_that_waits_for_a_slow_phone_is_noted_once_the_kernel_has_it(harness: Harness) -> None:
    async def play() -> None:
        await cleared(harness)
        hub, customer = Hub(harness.runtime, MessageQueue()), await harness.customer()
        notices = [await new_event(harness, customer.user_id) for _ in range(2)]
        for reads in (False, True):
            async with connected(hub, customer, "chat") as phone:
                (connection,) = hub.connections
                connection.put(b" " * 700_000)
                connection.flush()
                assert connection.transport.get_write_buffer_size() > 0  # asyncio has it, the kernel has not
                for one in notices:
                    connection.put_event(b"{}", one.event_id)
                    connection.flush()
                assert len(hub.sent_events) == 0
                if not reads:
                    continue  # the socket breaks
                async with asyncio.timeout(5):
                    while len(hub.sent_events) < 2:
                        with contextlib.suppress(BlockingIOError):
                            phone.recv(1 << 20)
                        await asyncio.sleep(0.001)
            assert len(hub.sent_events) == 2

    harness.run(play())


def test_event_that_is_written_to_a_reset_socket_is_not_in_the_trail(harness: Harness) -> None:
    async def play() -> None:
        await cleared(harness)
        hub, customer = Hub(harness.runtime, MessageQueue()), await harness.customer()
        notice = await new_event(harness, customer.user_id)
        async with connected(hub, customer, "chat") as phone:
            (connection,) = hub.connections
            phone.close()
            connection.put_event(b"{}", notice.event_id)
            connection.flush()  # before the loop has noticed
            assert connection.transport.is_closing()
        assert len(hub.sent_events) == 0

    harness.run(play())


def test_processes_that_note_the_same_stages_in_any_order_note_each_once(harness: Harness) -> None:
    async def play() -> None:
        await cleared(harness)
        (customer,) = on_devices(await harness.customer(), 1)
        notices = [await new_event(harness, customer.user_id) for _ in range(40)]
        marks = [
            TrailMark(
                event_id=one.event_id,
                auth_session_id=customer.auth_session_id,
                stage=TrailStage.SENT,
                at=harness.runtime.now(),
            )
            for one in notices
        ]
        acks = [(one.event_id, customer) for one in notices]
        work = [
            *(note_trail.note_sent(harness.runtime, marks[:: 1 if n % 2 else -1]) for n in range(6)),
            *(deliver.acknowledge(harness.runtime, acks[:: 1 if n % 2 else -1]) for n in range(6)),
        ]
        found = await asyncio.gather(*work)
        assert sorted(len(one) for one in found if isinstance(one, set) and one) == [40]
        each = {(one.event_id, customer.auth_session_id) for one in notices}
        assert await rows_of(harness) == {(*one, stage) for one in each for stage in ("sent", "acknowledged")}

    harness.run(play())


def test_event_that_one_of_many_devices_has_shown_is_deleted_in_any_order(harness: Harness) -> None:
    async def play() -> None:
        await cleared(harness)
        runtime, devices = harness.runtime, on_devices(await harness.customer(), 6)
        notices = [await new_event(harness, devices[0].user_id) for _ in range(40)]
        unshown = [await new_event(harness, devices[0].user_id) for _ in range(40)]
        either = [*notices, *unshown]
        work = [
            deliver.acknowledge(
                runtime,
                [(one.event_id, device) for one in (notices if n == 3 else ())],
                unshown=[(one.event_id, device) for one in (either if n % 2 else reversed(either))],
            )
            for n, device in enumerate(devices)
        ]
        await asyncio.gather(*work)
        left = {
            one.event_id: one
            for one in (await deliver.unacknowledged(runtime, [devices[0].user_id]))[devices[0].user_id]
        }
        assert left.keys() == {one.event_id for one in unshown}
        sessions = sorted(device.auth_session_id for device in devices)
        assert all(sorted(one.unshown_on or ()) == sessions for one in left.values())
        assert not any(deliver.is_owed(one, device) for one in left.values() for device in devices)
        seen = await rows_of(harness)
        # A device that waits for the delivery while another one deletes it finds neither, and is not noted.
        assert {(one.event_id, device, "acknowledged") for one in unshown for device in sessions} <= seen
        assert seen <= {(one.event_id, device, "acknowledged") for one in either for device in sessions}
        assert {event_id for event_id, *_ in seen} == {one.event_id for one in either}
        versions = "SELECT id, xmin::text FROM deliveries ORDER BY id"
        before = await runtime.db.fetch(versions)
        await deliver.acknowledge(runtime, [], unshown=[(one.event_id, devices[0]) for one in unshown])
        assert await runtime.db.fetch(versions) == before  # a repeat writes nothing

    harness.run(play())


def test_time_until_an_acknowledgement_is_measured_once(harness: Harness) -> None:
    def measured() -> float:
        (metric,) = metrics.EVENT_ACK_SECONDS.collect()
        counts = [
            one for one in metric.samples if one.name.endswith("_count") and one.labels["event"] == "session_warning"
        ]
        return sum(one.value for one in counts)

    async def play() -> None:
        await cleared(harness)
        customer = await harness.customer()
        notice = await new_event(harness, customer.user_id)
        before = measured()
        await deliver.acknowledge(harness.runtime, [], unshown=[(notice.event_id, customer)])
        await deliver.acknowledge(harness.runtime, [(notice.event_id, customer)])
        assert measured() == before + 1

    harness.run(play())


def test_row_never_changes(harness: Harness) -> None:
    async def play() -> None:
        await cleared(harness)
        customer = await harness.customer()
        notice = await new_event(harness, customer.user_id)
        await deliver.acknowledge(harness.runtime, [(notice.event_id, customer)])
        with pytest.raises(asyncpg.CheckViolationError, match="never changed"):
            await harness.runtime.db.fetch("UPDATE delivery_trail SET stage = 'opened'")

    harness.run(play())


def test_opened_push_of_a_joined_customers_event_is_noted(harness: Harness) -> None:
    async def play() -> None:
        await cleared(harness)
        customer = await harness.customer()
        before = ids.new_id()  # the anonymous customer who joined the account
        notice = await new_event(harness, before)
        account = attrs.evolve(customer, ids=(customer.user_id, before))
        await note_trail.note_opened(harness.runtime, customer, event_id=notice.event_id)
        assert await rows_of(harness) == set()
        await note_trail.note_opened(harness.runtime, account, event_id=notice.event_id.upper())
        assert await rows_of(harness) == {(notice.event_id, customer.auth_session_id, "opened")}

    harness.run(play())


def test_push_of_a_message_is_not_noted(harness: Harness) -> None:
    async def play() -> None:
        await cleared(harness)
        (customer,) = on_devices(await harness.customer(), 1)
        notice = await new_event(harness, customer.user_id)
        await push(harness, attrs_of(notice, event="message"), customer, Sent())
        assert await rows_of(harness) == set()

    harness.run(play())


def attrs_of(notice: Notice, *, event: str) -> Notice:
    """Return a notice with another event's name."""
    fields = {name: getattr(notice, name) for name in Notice.__struct_fields__}
    return Notice(**{**fields, "event": event})


def test_erasure_deletes_the_trail_and_what_a_late_process_notes(empty_harness: Harness) -> None:
    harness, runtime = empty_harness, empty_harness.runtime
    clock = runtime.clock = HandClock(runtime.now())

    async def play() -> None:
        customer, other = await harness.customer(), await harness.customer()
        notice, kept, late = [await new_event(harness, one.user_id) for one in (customer, other, customer)]
        for one, by in ((notice, customer), (kept, other)):
            await deliver.acknowledge(runtime, [(one.event_id, by)])
        await erasure.erase_customer(runtime, customer.user_id, Requester(by=RequestedBy.COMMAND_LINE))
        await erase_rest.go_on(runtime)
        left = {(kept.event_id, other.auth_session_id, "acknowledged")}
        assert await rows_of(harness) == left
        for one in (notice, late):  # a hub that was slow, and a phone with an old token
            mark = TrailMark(
                event_id=one.event_id, auth_session_id=customer.auth_session_id, stage=TrailStage.SENT, at=runtime.now()
            )
            await note_trail.note_sent(runtime, [mark])
            await deliver.acknowledge(runtime, [(one.event_id, customer)])
            await note_trail.note_opened(runtime, customer, event_id=one.event_id)
        assert await rows_of(harness) == left
        clock.advance(SETTLED.total_seconds() + 1)
        await erase_rest.go_on(runtime)
        assert await runtime.db.fetchval("SELECT completed_at FROM erasures") is not None

    harness.run(play())


def test_row_that_is_noted_just_before_the_end_of_an_erasure_is_deleted_too(
    empty_harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness, runtime = empty_harness, empty_harness.runtime
    clock = runtime.clock = HandClock(runtime.now())
    mask_calls = erase_rest._mask_calls

    async def play() -> None:
        customer = await harness.customer()

        async def late(*args: Any) -> None:
            """Another process, between the last two transactions of the sweep."""
            await mask_calls(*args)
            notice = await new_event(harness, customer.user_id)
            await note_trail.note_opened(runtime, customer, event_id=notice.event_id)
            assert len(await rows_of(harness)) == 1

        await erasure.erase_customer(runtime, customer.user_id, Requester(by=RequestedBy.COMMAND_LINE))
        clock.advance(SETTLED.total_seconds() + 1)
        monkeypatch.setattr(erase_rest, "_mask_calls", late)
        await erase_rest.go_on(runtime)
        assert await runtime.db.fetchval("SELECT completed_at FROM erasures") is not None
        assert await rows_of(harness) == set()

    harness.run(play())


def test_erased_recipient_with_many_rows_is_forgotten_in_portions(harness: Harness) -> None:
    async def play() -> None:
        await cleared(harness)
        customer = await harness.customer()
        for _ in range(7):
            notice = await new_event(harness, customer.user_id)
            await deliver.acknowledge(harness.runtime, [(notice.event_id, customer)])
        async with harness.runtime.transaction() as tx:
            assert [await trail.forget(tx, [customer.user_id], limit=5) for _ in range(3)] == [5, 2, 0]

    harness.run(play())


def test_purge_leaves_what_an_acknowledgement_has_locked_to_the_next(harness: Harness) -> None:
    """Acknowledgements lock in the order of ids, a purge in that of age: waiting, they could wait for each other."""
    runtime = harness.runtime

    async def play() -> None:
        await cleared(harness)
        customer = await harness.customer()
        locked, other = [(await new_event(harness, customer.user_id)).event_id for _ in range(2)]
        await runtime.db.fetch(AGED, locked)
        await runtime.db.fetch(AGED, other)
        async with runtime.transaction() as acknowledgement:
            await acknowledgement.fetch("SELECT FROM deliveries WHERE id = $1 FOR UPDATE", locked)
            assert await asyncio.wait_for(deliver.purge(runtime), 10) == 1
        assert {row[0] for row in await rows_of(harness)} == {other}
        assert await deliver.purge(runtime) == 1

    harness.run(play())


def test_months_are_removed_after_90_days_of_real_time(empty_harness: Harness) -> None:
    harness, runtime = empty_harness, empty_harness.runtime
    month = months_after(month_of(runtime.now()), 6)
    clock = runtime.clock = HandClock(month)

    async def noted(at: dt.datetime) -> str:
        """Note that an event of this time was given up."""
        event_id = ids.id_of(at, b"event")
        await runtime.db.fetch(
            "INSERT INTO deliveries (id, recipient_id, recipient_type, event, payload, created_at) VALUES ($1, $1, 'mitra', 'chat_request', '{}', now() - interval '2 hours')",
            event_id,
        )
        await deliver.purge(runtime)
        return event_id

    async def play() -> None:
        await partition_upkeep.make_ahead(runtime)
        early, late = (
            await noted(month + dt.timedelta(days=1)),
            await noted(months_after(month, 1) - dt.timedelta(days=1)),
        )
        clock.advance((months_after(month, 1) - month + KEPT - dt.timedelta(hours=1)).total_seconds())
        await partition_upkeep.make_ahead(runtime)
        await retention.remove_trail_months(runtime)
        assert {row[0] for row in await rows_of(harness)} == {early, late}
        clock.advance(3 * 3600)
        await retention.remove_trail_months(runtime)
        assert await rows_of(harness) == set()
        names = {one.name for one in await partitions.partitions(runtime.db) if one.of == "delivery_trail"}
        assert partitions.name_of("delivery_trail", month) not in names
        assert partitions.name_of("delivery_trail", months_after(month, 1)) in names
        await noted(clock.now())
        customer = await harness.customer()
        await note_trail.note_opened(runtime, customer, event_id=early)  # its month is gone
        assert len(await rows_of(harness)) == 1

    harness.run(play())


def test_trail_of_a_signed_out_device_stays(harness: Harness) -> None:
    async def play() -> None:
        await cleared(harness)
        (customer,) = on_devices(await harness.customer(), 1)
        await harness.runtime.db.fetch(DEVICE, customer.auth_session_id, customer.user_id, {"platform": "android"})
        notice = await new_event(harness, customer.user_id)
        await deliver.acknowledge(harness.runtime, [(notice.event_id, customer)])
        await login_devices.revoke_device(harness.runtime, customer, auth_session_id=customer.auth_session_id)
        assert len(await rows_of(harness)) == 1

    harness.run(play())
