"""A process is killed just before or just after each commit of a paid session; the session still completes.

Many sessions stand at different points at once. Each point is a transaction, and a connection is held at its commit.
When all connections are held, the process is killed, so one kill covers many points. Then every app repeats its call.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import attrs
import pytest

from tests.faults import people as app
from tests.faults.proxy import When
from tests.faults.service import Service
from tests.stack import STALE_AFTER_S, World, new_id, open_failure
from tools.driving.device import Device

pytestmark = pytest.mark.anyio
Action = Callable[[], Awaitable[Any]]


@attrs.frozen
class Point:
    """A transaction, named by one of its statements. With `commit=False` only that statement is held."""

    name: str
    statement: str
    commit: bool = True


API = (
    Point("a payment request is created", "INSERT INTO payment_requests"),
    Point("a payment request is abandoned", r"payment_requests SET status = 'abandoned' WHERE \(payment_requests\.id"),
    Point("the gateway's call is stored", "INSERT INTO webhook_logs", commit=False),
    Point(
        "the payment is confirmed",
        "payment_requests SET status = 'confirmed'|UPDATE webhook_logs SET http_status = \\$1",
    ),
    Point("the search begins", "INSERT INTO chat_sessions"),
    Point("the search is cancelled", "INSERT INTO pairing_failures"),
    Point("a mitra accepts", "status = 'active', mitra_id"),
    Point("the mitra is asked for an extension", "INSERT INTO session_extensions"),
    Point("an extension is answered", "SET status = 'active', expires_at"),
    Point("a message is stored", r"chat_commit(_one)?\(", commit=False),
    Point("the first goodbye", "SET status = 'closing'"),
    Point("the second goodbye", "SET status = 'completed'"),
)
REALTIME = (Point("a batch of messages is stored", r"chat_commit(_one)?\(", commit=False),)
JOBS = (
    Point("a search whose signal was lost begins", "INSERT INTO chat_sessions"),
    Point("a round ends", r"^UPDATE chat_sessions (AS )?(s )?SET .*round_number"),
    Point("the warning is sent", "SET warn_at = NULL WHERE"),
    Point("the paid time ends", "SET status = 'expired', grace_ends_at"),
    Point("an extension times out", "SET status = 'active', expires_at"),
    Point("the grace period ends", "s SET status = 'completed'"),
    Point("a pending request expires", "payment_requests SET status = 'expired'"),
    Point("a silent mitra is taken offline", "mitra_online_status SET is_online = false"),
)
# Other tables that a paid session writes: if such a write is lost, it is repeated or not needed.
BESIDE = (
    "(INTO|UPDATE) (auth_sessions|mitra_online_logs|otp_requests|app_config|operator_|operators|customers|mitras"
    "|service_clock|service_processes|mitra_online_status( o)? SET last_heartbeat_at)"
)


@pytest.fixture(scope="module")
def stack() -> Iterator[Service]:
    """Yield a service at twenty times real speed, behind proxies: the grace period outlasts a restart."""
    made = Service(scale=20, ACCESS_TOKEN_SECONDS="86400")
    yield made
    made.close()


@pytest.fixture
async def world(stack: Service) -> AsyncIterator[World]:
    """Yield the users of the test. No search ends on its own: a restart takes minutes of service time."""
    made = World(stack)
    await made.scale_silence()
    await made.config("searching_timeout_minutes", 1000)
    await made.config("pairing_blast_timeout_seconds", 3600)
    await made.config("extension_timeout_seconds", 3600)
    await made.config("max_customers_per_mitra", 100)
    yield made
    await made.close()


async def die_at(stack: Service, key: str, when: When, plans: list[tuple[Point, Action]]) -> list[Any]:
    """Run the actions until each is held at its point, kill the process and restart it; return the actions' results."""
    proxy = stack.nodes[key].postgres
    places = [
        proxy.park("^COMMIT", when=when, within=point.statement)
        if point.commit
        else proxy.park(point.statement, when=when)
        for point, _ in plans
    ]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(action()) for _, action in plans]
        for place, (point, _) in zip(places, plans, strict=True):
            try:
                await place.reached(15)
            except TimeoutError:
                raise AssertionError(f"never reached: {point.name}") from None
        held = [place.is_held for place in places]
        stack.processes[key].kill()
        await asyncio.to_thread(stack.restart_cleanly, key)
        assert all(held), [point.name for (point, _), there in zip(plans, held, strict=True) if not there]
    return [task.result() for task in tasks]


class Actors:
    """The users and their sessions, each at the point that a test needs."""

    def __init__(self, world: World, mitra: Device) -> None:
        self.world = world
        self.mitra = mitra

    async def customer(self) -> Device:
        """Return a new customer."""
        return await app.retry(self.world.customer)

    async def pending(self) -> tuple[Device, dict[str, Any]]:
        """Return a customer with a pending payment request."""
        customer = await self.customer()
        return customer, await app.request(customer)

    async def searching(self) -> tuple[Device, dict[str, Any], str]:
        """Return a customer who waits for a mitra, the payment, and the session's id."""
        customer, payment = await self.pending()
        await app.pay(self.world, payment)
        return customer, payment, await app.searched(self.world, customer, payment)

    async def active(self, **wish: Any) -> tuple[Device, str]:
        """Return a customer in an active session, and the session's id."""
        customer = await self.customer()
        return customer, await app.paired(self.world, customer, self.mitra, **{"duration_minutes": 60, **wish})

    async def expired(self) -> tuple[Device, str]:
        """Return a customer whose paid time is over, and the session's id."""
        customer, session_id = await self.active()
        await app.end_now(self.world, [session_id])
        await self.world.until(
            lambda: customer.get(f"/api/shared/chat/sessions/{session_id}"), lambda seen: seen["status"] == "expired"
        )
        return customer, session_id

    async def pending_extension(self) -> tuple[Device, str, dict[str, Any]]:
        """Return a customer in a chat with a pending payment request for an extension."""
        customer, session_id = await self.active()
        return customer, session_id, await app.request(customer, is_extension=True, session_id=session_id)

    async def extension(self, session_id: str) -> str:
        """Wait for the pending extension of a session; return its id."""
        found = await self.world.until(
            lambda: self.world.stack.sql(
                "SELECT id::text FROM session_extensions WHERE session_id = $1::uuid", session_id
            ),
            bool,
        )
        return found[0]["id"]

    async def answer(self, session_id: str, extension_id: str) -> None:
        """Let the mitra accept an extension."""
        path = f"/api/shared/chat/sessions/{session_id}/extensions/{extension_id}/answer"
        await app.retry(lambda: self.mitra.post(path, {"accept": True}), done=("EXTENSION_RESOLVED",))

    async def finish(self, session_ids: list[str]) -> None:
        """Bring all sessions to `completed`."""
        await app.end_now(self.world, session_ids)

        async def rest() -> list[Any]:
            await self.world.stack.sql(
                f"""UPDATE chat_sessions SET grace_ends_at = {app.NOW} WHERE id = ANY($2::uuid[])
                      AND status IN ('expired', 'closing') AND grace_ends_at > {app.NOW}""",
                self.world.stack.scale,
                session_ids,
            )
            return await self.world.stack.sql(
                """SELECT id::text, status FROM chat_sessions WHERE id = ANY($1::uuid[])
                     AND status NOT IN ('completed', 'cancelled', 'failed')""",
                session_ids,
            )

        await self.world.until(rest, lambda seen: not seen, timeout=30)


async def expect(customer: Device, session_id: str, status: str) -> None:
    """Wait until the session has this status."""
    seen = await app.retry(lambda: customer.get(f"/api/shared/chat/sessions/{session_id}"))
    assert seen["status"] == status


@pytest.mark.parametrize("when", list(When), ids=lambda when: when.value)
async def test_api_process_killed_at_each_commit_loses_nothing(world: World, stack: Service, when: When) -> None:
    mitra = await world.mitra()
    cast = Actors(world, mitra)
    recorded = stack.nodes["api"].postgres.record()
    at = {point.name: point for point in API}

    # Gateway calls must be answered within 2 s, so their points are tested first, separately.
    (c1, p1), (c2, p2) = await cast.pending(), await cast.pending()
    results = await die_at(
        stack,
        "api",
        when,
        [
            (at["the gateway's call is stored"], lambda: app.pay(world, p1)),
            (at["the payment is confirmed"], lambda: app.pay(world, p2)),
        ],
    )
    assert set(results) <= {"confirmed", "duplicate"}

    c3, c4, c5 = await cast.customer(), await cast.customer(), await cast.customer()
    p4, p5 = await app.request(c4), await app.request(c5)
    c6, p6, s6 = await cast.searching()
    c7, _, s7 = await cast.searching()
    c8, s8, p8 = await cast.pending_extension()
    _, s9, p9 = await cast.pending_extension()
    await app.pay(world, p9)
    e9 = await cast.extension(s9)
    c10, s10 = await cast.active()
    c11, s11 = await cast.expired()
    c12, s12 = await cast.expired()
    await app.goodbye(mitra, s12)
    key, message_id = new_id(), new_id()
    body = {"client_message_id": message_id, "content": "sekali saja"}
    about = "/api/client/payment/requests"

    async def begun(customer: Device, payment: dict[str, Any]) -> str:
        await app.pay(world, payment)
        return await app.searched(world, customer, payment)

    async def put() -> str:
        await app.pay(world, p8)
        return await cast.extension(s8)

    plans: list[tuple[Point, Action]] = [
        (at["a payment request is created"], lambda: app.request(c3, key=key)),
        (
            at["a payment request is abandoned"],
            lambda: app.retry(lambda: c4.post(f"{about}/{p4['payment_request_id']}/abandon")),
        ),
        (at["the search begins"], lambda: begun(c5, p5)),
        (
            at["the search is cancelled"],
            lambda: app.retry(
                lambda: c6.post("/api/client/chat/cancel", {"payment_request_id": p6["payment_request_id"]})
            ),
        ),
        (at["a mitra accepts"], lambda: app.accept(mitra, s7)),
        (at["the mitra is asked for an extension"], put),
        (at["an extension is answered"], lambda: cast.answer(s9, e9)),
        (
            at["a message is stored"],
            lambda: app.retry(lambda: c10.post(f"/api/shared/chat/sessions/{s10}/messages", body)),
        ),
        (at["the first goodbye"], lambda: app.goodbye(c11, s11)),
        (at["the second goodbye"], lambda: app.goodbye(c12, s12)),
    ]
    results = await die_at(stack, "api", when, plans)

    payment = results[0]
    assert payment["payment_request_id"] == (await app.request(c3, key=key))["payment_request_id"]
    count = "SELECT count(*)::int FROM payment_requests WHERE customer_id = $1::uuid"
    assert (await world.stack.sql(count, c3.user["id"]))[0][0] == 1
    assert (await app.view(c4, p4))["status"] == "abandoned"
    cancelled = await app.view(c6, p6)
    assert (cancelled["status"], cancelled["failure"]) == ("failed_pairing", open_failure("customer_cancelled"))
    for customer, session_id, status in (
        (c6, s6, "cancelled"), (c7, s7, "active"), (c8, s8, "active"), (c10, s10, "active"),
        (c11, s11, "closing"), (c12, s12, "completed"),
    ):  # fmt: skip
        await expect(customer, session_id, status)
    assert [words for _, _, words in await app.stored(world, s10)] == ["sekali saja"]
    await cast.answer(s8, results[5])
    minutes = await world.stack.sql("SELECT extended_minutes FROM chat_sessions WHERE id = ANY($1::uuid[])", [s8, s9])
    assert [row[0] for row in minutes] == [12, 12]
    await app.pay(world, payment)
    searches = [(c1, p1), (c2, p2), (c3, payment), (c5, p5)]
    mine = [await app.searched(world, customer, one) for customer, one in searches]
    for session_id in mine:
        await app.accept(mitra, session_id)
    await cast.finish([*mine, s7, s8, s9, s10, s11])
    known = re.compile("|".join([*(point.statement for point in API), BESIDE]))
    assert [each for each in recorded if not any(known.search(sql) for sql in each)] == []


async def test_realtime_process_killed_around_a_message_batch_loses_nothing(world: World, stack: Service) -> None:
    mitra = await world.mitra()
    cast = Actors(world, mitra)
    customer, session_id = await cast.active()
    async with app.phones(customer, mitra) as (phone, desk):
        for when in When:
            await phone.say(session_id, f"{when.value}: first")

            async def say(phone: Device = phone, when: When = when) -> None:
                await phone.say(session_id, f"{when.value}: at the point")

            await die_at(stack, "realtime", when, [(REALTIME[0], say)])
            await desk.say(session_id, f"{when.value}: answer")
        await app.wait_for_transcript(world, phone, session_id)
        await app.wait_for_transcript(world, desk, session_id)
        words = [words for _, _, words in await app.stored(world, session_id)]
        assert words == [f"{when.value}: {what}" for when in When for what in ("first", "at the point", "answer")]
        await cast.finish([session_id])


@pytest.mark.parametrize("when", list(When), ids=lambda when: when.value)
async def test_jobs_process_killed_at_each_timer_loses_nothing(world: World, stack: Service, when: When) -> None:
    mitra = await world.mitra()
    cast = Actors(world, mitra)
    at = {point.name: point for point in JOBS}
    customer, session_id = await cast.active()
    more, more_id, payment = await cast.pending_extension()
    await app.pay(world, payment)
    await cast.extension(more_id)
    _, pending = await cast.pending()
    unacknowledged, untold = await cast.pending()
    _, _, search_id = await cast.searching()

    def set_now(table: str, column: str, wanted: str) -> Action:
        async def change() -> None:
            await stack.sql(f"UPDATE {table} SET {column} = {app.NOW} WHERE id = $2::uuid", stack.scale, wanted)

        return change

    async def confirm_then_die() -> None:
        # A minute ago, so that the next sweep finds it: the other sweep of this step is held until then.
        await stack.sql(
            f"""UPDATE payment_requests SET status = 'confirmed', confirmed_at = {app.NOW} - interval '1 minute',
                  created_at = created_at - interval '1 minute' WHERE id = $2::uuid""",
            stack.scale,
            untold["payment_request_id"],
        )

    async with app.phones(customer, mitra) as (phone, desk):
        await phone.until(lambda: session_id in phone.sessions)
        extension_id, pending_id = await cast.extension(more_id), pending["payment_request_id"]
        # Each step with its event. Sweeps run concurrently, deadlines one after the other.
        steps: list[tuple[dict[str, Action], str | None]] = [
            (
                {
                    "a search whose signal was lost begins": confirm_then_die,
                    "a pending request expires": set_now("payment_requests", "expires_at", pending_id),
                },
                None,
            ),
            ({"a round ends": set_now("chat_sessions", "round_ends_at", search_id)}, None),
            ({"the warning is sent": set_now("chat_sessions", "warn_at", session_id)}, "session_warning"),
            ({"the paid time ends": lambda: app.end_now(world, [session_id])}, "session_expired"),
            ({"the grace period ends": set_now("chat_sessions", "grace_ends_at", session_id)}, "session_completed"),
            ({"an extension times out": set_now("session_extensions", "answer_by", extension_id)}, None),
        ]
        for step, event in steps:
            await die_at(stack, "jobs", when, [(at[name], change) for name, change in step.items()])
            if event:  # before the next step: a chat whose time is over is not warned
                for one in (phone, desk):
                    await one.until(lambda one=one, kind=event: count_events(one, kind, session_id) > 0, timeout=20)
        for one in (phone, desk):
            assert [count_events(one, kind, session_id) for _, kind in steps if kind] == [1, 1, 1]
    await expect(customer, session_id, "completed")
    await app.accept(mitra, await app.searched(world, unacknowledged, untold))
    await app.accept(mitra, search_id)
    await world.until(lambda: app.view(more, payment), lambda seen: seen["status"] == "consumed")
    active = await stack.sql(
        "SELECT id::text FROM chat_sessions WHERE status = 'active' AND mitra_id = $1::uuid", mitra.user["id"]
    )
    await cast.finish([row["id"] for row in active])
    world.stop_heartbeats(mitra)
    await die_at(
        stack,
        "jobs",
        when,
        [(at["a silent mitra is taken offline"], lambda: world.config("mitra_stale_after_seconds", STALE_AFTER_S))],
    )
    logs = "SELECT count(*)::int FROM mitra_online_logs WHERE mitra_id = $1::uuid AND status = 'offline'"
    await world.until(lambda: stack.sql(logs, mitra.user["id"]), lambda rows: rows[0][0] == 1)


def count_events(phone: Device, kind: str, session_id: str) -> int:
    """Return how many events of a kind a phone has about a session; 2 if an effect happened twice."""
    return sum(
        frame["type"] == kind and session_id in (frame.get("session_id"), frame.get("session", {}).get("id"))
        for frame in phone.events
    )
