"""Timers at real speed: each has one effect, never early, and is caught up on after a stop (docs/invariants.md#i7)."""

import asyncio
import datetime as dt
import re
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import asyncpg
import pytest

from tests.faults.together import Part, Together
from tests.http.pairing.steps import friends
from tests.stack import Stack, World
from tools.driving.device import Device, RecordedSocket
from tools.driving.throwaway import free_port

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
TOGETHER = Together()

SPAN_S = 10  # whole seconds
EARLY = dt.timedelta(milliseconds=50)


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """Yield a separate service, because its jobs processes are stopped and killed here."""
    made = Stack()
    yield made
    made.close()


@pytest.fixture(scope="module")
async def plays(stack: Stack, request: pytest.FixtureRequest) -> AsyncIterator[None]:
    """Run the tests of this service one after the other, and at the same time the one with its own service."""

    async def run(part: Part) -> None:
        if part.lane:
            return await part.body()
        made = World(stack)
        await made.config("max_customers_per_mitra", 40)  # a mitra may have many sessions
        try:
            await part.body(made)
        finally:
            await made.close()

    TOGETHER.start(run, request.session.items)
    yield
    await TOGETHER.stop()


async def sessions(world: World, count: int) -> tuple[Device, list[Device], list[str]]:
    """Create `count` active sessions of one mitra; return the mitra, the customers and the sessions' ids."""
    mitra = await world.mitra()
    customers = [await world.customer(f"C{n}") for n in range(count)]
    return mitra, customers, [await world.session(customer, mitra) for customer in customers]


async def due(world: World, ids: list[str], *, warn_in: float | None, end_in: float, step: float) -> dict[str, Any]:
    """Set the sessions' deadlines: the first in this many seconds, each further one `step` later.

    Return them by session, because that of a warning is removed when it is sent.
    """
    made = {}
    for n, session_id in enumerate(ids):
        (made[session_id],) = await world.stack.sql(
            """UPDATE chat_sessions SET expires_at = now() + make_interval(secs => $2), paired_at = paired_at + (now() + make_interval(secs => $2) - expires_at),
                 warn_at = now() + make_interval(secs => $3) WHERE id = $1::uuid RETURNING warn_at, expires_at""",
            session_id,
            end_in + n * step,
            None if warn_in is None else warn_in + n * step,
        )
    return made


async def deadline_of(world: World, session_id: str, column: str) -> Any:
    """Return a deadline of a session."""
    return (await world.stack.sql(f"SELECT {column} FROM chat_sessions WHERE id = $1::uuid", session_id))[0][0]


async def count_events(world: World, ids: list[str], event: str) -> list[tuple[str, int]]:
    """Return how many stored events each session has, for clients that acknowledge nothing."""
    rows = await world.stack.sql(
        """SELECT session_id::text, count(*)::int AS n FROM deliveries WHERE event = $1 AND session_id = ANY($2::uuid[])
           GROUP BY 1 ORDER BY 1""",
        event,
        ids,
    )
    return [(row["session_id"], row["n"]) for row in rows]


def count(socket: RecordedSocket, kind: str, session_id: str) -> int:
    """Return how often an event of a session arrived."""
    return sum(
        f["type"] == kind and session_id in (f.get("session_id"), f.get("session", {}).get("id")) for f in socket.frames
    )


async def check_each_once(world: World, mitra: Device, customers: list[Device], ids: list[str]) -> None:
    """Let deadlines that are close together pass, and count their effects."""
    phones = [await customer.open("chat", ack=False) for customer in customers]
    desk = await mitra.open("chat", ack=False)
    deadlines = await due(world, ids, warn_in=2.0, end_in=3.0, step=0.05)
    for phone, session_id in zip(phones, ids, strict=True):
        warned = await phone.wait("session_warning")
        assert dt.datetime.fromisoformat(warned["server_time"]) >= deadlines[session_id]["warn_at"] - EARLY
        expired = await phone.wait("session_expired")
        assert dt.datetime.fromisoformat(expired["server_time"]) >= deadlines[session_id]["expires_at"] - EARLY
    for session_id in ids:
        await desk.wait("session_expired", where=lambda f, wanted=session_id: f["session"]["id"] == wanted)
    assert await count_events(world, ids, "session_expired") == [(session_id, 2) for session_id in sorted(ids)]
    assert await count_events(world, ids, "session_warning") == [(session_id, 2) for session_id in sorted(ids)]
    for phone, session_id in zip(phones, ids, strict=True):
        for socket in (phone, desk):
            assert count(socket, "session_expired", session_id) == 1
            assert count(socket, "session_warning", session_id) == 1


@TOGETHER.test(lane=1)
@pytest.mark.slow
async def test_idle_jobs_make_under_five_queries_a_second() -> None:
    # The poll for deadlines and the renewal of the process's lease run every second; sweeps that do not wait long and the
    # looks for audits every 5 s; the renewal of the lease of the cluster's metrics every 3 s, and their figures every 15 s.
    # An audit is not idle, nor is the start: at least one span is without them. The service is the test's own: it has
    # nothing to do.
    idle = await asyncio.to_thread(Stack, only_database=True)
    try:
        await idle.sql("ALTER SYSTEM SET log_statement = 'all'")
        await idle.sql("SELECT pg_reload_conf()")
        await asyncio.to_thread(idle.start, "jobs")
        looks = [(time.monotonic(), statements(idle))]
        for _ in range(60):
            await asyncio.sleep(1)
            looks.append((time.monotonic(), statements(idle)))
            if len(looks) > SPAN_S and is_idle(looks[-1 - SPAN_S], looks[-1]):
                break
        assert is_idle(looks[-1 - SPAN_S], looks[-1]), looks
    finally:
        await asyncio.to_thread(idle.close)


def is_idle(first: tuple[float, int], last: tuple[float, int]) -> bool:
    """Return whether there were under five statements a second between two looks, each (seconds, statements)."""
    (began, before), (ended, after) = first, last
    return 2 <= after - before < 5 * (ended - began)


def statements(stack: Stack) -> int:
    """Return how many statements PostgreSQL has logged."""
    return len(re.findall(r" LOG:  (?:execute|statement)\b", stack.log("log/postgres")))


@TOGETHER.test()
@pytest.mark.slow
async def test_deadlines_close_together_take_effect_once_and_not_early(world: World) -> None:
    await check_each_once(world, *await sessions(world, 8))


@TOGETHER.test(step=1)
@pytest.mark.slow
async def test_two_jobs_processes_act_once_and_one_continues_without_the_other(world: World) -> None:
    port = free_port()
    world.stack.start("jobs", key="jobs2", JOBS_PORT=str(port))
    try:
        world.stack.wait_ready("jobs", port=port)
        mitra, customers, ids = await sessions(world, 8)
        await check_each_once(world, mitra, customers, ids)
        more_mitra, more_customers, more = await sessions(world, 4)
        world.stack.kill("jobs")
        await check_each_once(world, more_mitra, more_customers, more)
    finally:
        world.stack.kill("jobs2")
        del world.stack.processes["jobs2"]
        world.stack.restart("jobs")


@TOGETHER.test(step=2)
async def test_deadlines_missed_without_a_jobs_process_take_effect_when_one_starts(world: World) -> None:
    _, customers, ids = await sessions(world, 4)
    waiting = await world.customer()
    payment = await world.request(waiting)
    assert world.stack.stop("jobs") == 0
    await due(world, ids[:2], warn_in=None, end_in=-1, step=0)  # the end of the paid time has passed
    await due(world, ids[2:], warn_in=None, end_in=-301, step=0)  # the end of the grace period has passed too
    await world.stack.sql(
        "UPDATE payment_requests SET expires_at = clock_timestamp() - interval '1 second' WHERE id = $1::uuid",
        payment["payment_request_id"],
    )
    world.stack.start("jobs")
    for customer, session_id, status in zip(customers, ids, ["expired"] * 2 + ["completed"] * 2, strict=True):
        view = await world.until(
            lambda customer=customer, session_id=session_id: customer.get(f"/api/shared/chat/sessions/{session_id}"),
            lambda seen, status=status: seen["status"] == status,
        )
        assert view["ended_by"] == (None if status == "expired" else "timer")
    await world.until(
        lambda: waiting.get(f"/api/client/payment/requests/{payment['payment_request_id']}"),
        lambda seen: seen["status"] == "expired",
    )


async def waits_for(world: World, holder: asyncpg.Connection) -> list[tuple[Any, ...]]:
    """Return the processes that wait for a lock of this connection: (process, start of its transaction)."""
    rows = await world.stack.sql(
        "SELECT pid, xact_start FROM pg_stat_activity WHERE $1 = ANY(pg_blocking_pids(pid))", holder.get_server_pid()
    )
    return [tuple(row) for row in rows]


async def ends_within_a_wait(world: World, holder: asyncpg.Connection, session_id: str) -> bool:
    """Let a session end during a wait; return whether the same transaction still waits afterwards."""
    before = await world.until(lambda: waits_for(world, holder), bool)
    await due(world, [session_id], warn_in=None, end_in=0, step=0)
    await world.until(lambda: deadline_of(world, session_id, "status"), lambda status: status == "expired")
    return set(before) <= set(await waits_for(world, holder))


@TOGETHER.test(step=3)
@pytest.mark.slow
async def test_session_end_does_not_wait_for_blocked_jobs(world: World) -> None:
    _, _, ids = await sessions(world, 3)
    customer, silent = await friends(world)
    world.stop_heartbeats(silent)
    paid = await world.paid(customer, targeted_mitra_id=silent.user["id"])
    requests = await world.until(lambda: silent.get("/api/mitra/chat-requests"), lambda found: found["items"])
    assert [item["session_id"] for item in requests["items"]] == [paid["session_id"]]
    # Taking the targeted mitra offline ends the search: that waits until the payment's row is unlocked, or for its
    # timeout of 3 s.
    # Silence counts only while the service could accept heartbeats, so the processes must have run that long.
    async with world.stack.transaction() as holder:
        await holder.execute(
            "SELECT 1 FROM payment_requests WHERE id = $1::uuid FOR UPDATE", paid["payment_request_id"]
        )
        await world.stack.sql("UPDATE service_processes SET since_at = since_at - interval '1 hour'")
        await world.stack.sql(
            """UPDATE mitra_online_status SET last_heartbeat_at = last_heartbeat_at - interval '1 hour'
               WHERE mitra_id = $1::uuid""",
            silent.user["id"],
        )
        # A wait may time out at that moment: of several, at least one must outlast the session.
        assert any([await ends_within_a_wait(world, holder, session_id) for session_id in ids])
