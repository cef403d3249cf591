"""Outages of the chat are given back: each credit is the true outage, and is given once whatever dies.

The outages last SESI_OUTAGE_S seconds (default 8). The figures of docs/fairness.md come from longer ones:

    SESI_OUTAGE_S=90 .venv/bin/python -m pytest -s tests/faults/outages/test_fair_clock.py -k killed
    SESI_OUTAGE_S=30 .venv/bin/python -m pytest -s tests/faults/outages/test_fair_clock.py -k frozen
"""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from tests.faults.failover.cluster import signal_server
from tests.faults.proxy import When
from tests.faults.service import Service
from tests.stack import World
from tools.driving.device import Device
from tools.driving.sesi_client import Refused
from tools.embedded.ownership import running

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(400)]
OUTAGE_S = float(os.environ.get("SESI_OUTAGE_S", "8"))
EXACT_S = 1.0
CREDITS = (
    """SELECT reason, milliseconds, outage_id FROM session_time_credits WHERE session_id = $1::uuid ORDER BY began_at"""
)
LEFT = """UPDATE chat_sessions SET paired_at = paired_at + x.by, expires_at = expires_at + x.by, warn_at = warn_at + x.by
  FROM (SELECT now() + make_interval(secs => $2) - expires_at AS by FROM chat_sessions WHERE id = $1::uuid) x
  WHERE id = $1::uuid"""
WAITING = "SELECT count(*)::int AS n FROM outages WHERE credit_at IS NOT NULL AND credited_at IS NULL"
NO_LOOK = "UPDATE outages SET credit_at = NULL"


@pytest.fixture(scope="module")
def stack() -> Iterator[Service]:
    """Yield a service at real speed with two realtime and two jobs processes, behind proxies."""
    made = Service(counts={"realtime": 2, "jobs": 2}, ACCESS_TOKEN_SECONDS="86400")
    yield made
    made.close()


@pytest.fixture
async def world(stack: Service) -> AsyncIterator[World]:
    """Yield the users of the test, with the fair clock on."""
    made = World(stack)
    await made.config("fair_clock", True)
    await made.config("max_customers_per_mitra", 100)
    yield made
    await made.config("fair_clock", False)
    await made.close()


async def left(world: World, session_id: str, seconds: float) -> None:
    """Let a session have this many seconds of its paid time left."""
    await world.stack.sql(LEFT, session_id, seconds)


async def view(client: Device, session_id: str) -> dict[str, Any]:
    """Return a session as a party sees it."""
    return await client.get(f"/api/shared/chat/sessions/{session_id}")


@pytest.fixture(autouse=True)
async def earlier_outages_are_over(world: World) -> None:
    """Omit the last look at earlier outages: tests move sessions so far back that they began before those."""
    await world.stack.sql(NO_LOOK)


async def credited(world: World, session_id: str, *, any_credit: bool = True) -> float:
    """Wait until every outage is credited; return the seconds that a session got."""

    async def look() -> tuple[int, list[Any]]:
        waiting = await world.stack.sql(WAITING)
        return waiting[0]["n"], await world.stack.sql(CREDITS, session_id)

    _, rows = await world.until(look, lambda seen: not seen[0] and bool(seen[1]) == any_credit, timeout=30)
    assert len({row["outage_id"] for row in rows}) == len(rows)
    return sum(row["milliseconds"] for row in rows) / 1000


def check(what: str, given: float, true: tuple[float, float]) -> None:
    """Check that a credit is the true outage, and show both.

    `true` is when the fault was lifted and when the service was ready, which on a busy machine is more than EXACT_S later.
    """
    lifted, ready = true
    sys.stdout.write(f"\n{what}: outage {lifted:.2f} to {ready:.2f} s, credited {given:.2f} s\n")
    assert lifted - EXACT_S < given < ready + EXACT_S, (what, given, true)


async def again(call: Any) -> Any:
    """Repeat a call while the service is unavailable."""
    while True:
        try:
            return await call()
        except Refused as refused:
            if refused.status != 503:
                raise
        except OSError:
            pass
        await asyncio.sleep(0.1)


async def test_killed_processes_give_each_session_the_outage_before_any_deadline_passes(
    world: World, stack: Service
) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    long, short = await world.session(customer, mitra), await world.session(await world.customer(), mitra)
    over = await world.session(await world.customer(), mitra)
    await left(world, over, -2)  # an outage is recorded up to half a second too early
    await world.until(lambda: view(mitra, over), lambda seen: seen["status"] == "expired")
    await left(world, short, OUTAGE_S / 2)  # ends during the outage
    await left(world, long, 181 + OUTAGE_S / 2)  # its warning is due during the outage
    before = await view(mitra, long)
    killed = time.monotonic()
    for key in stack.nodes:
        stack.kill(key)
    await asyncio.sleep(OUTAGE_S * 0.75)
    stack.begin("jobs")  # the jobs process comes back first
    await asyncio.to_thread(stack.await_ready, "jobs")
    await asyncio.sleep(max(0.0, killed + OUTAGE_S - time.monotonic()))
    lifted = time.monotonic() - killed
    stack.begin("realtime")
    await asyncio.to_thread(stack.await_ready, "realtime")
    true = lifted, time.monotonic() - killed
    others = [key for key in stack.nodes if key not in ("jobs", "realtime")]
    for key in others:
        stack.begin(key)
    await asyncio.gather(*(asyncio.to_thread(stack.await_ready, key) for key in others))
    given = await credited(world, long)
    check("all processes killed, a long session", given, true)
    check("all processes killed, a session that ended meanwhile", await credited(world, short), true)
    assert await credited(world, over, any_credit=False) == 0
    assert (await view(mitra, long))["expires_at"] > before["expires_at"]
    phone = await mitra.open("chat")
    adjusted = await phone.wait("session_clock_adjusted", where=lambda frame: frame["session"]["id"] == long)
    assert (adjusted["reason"], adjusted["added_seconds"]) == ("realtime", pytest.approx(given, abs=EXACT_S + 0.5))
    warning = await phone.wait("session_warning", where=lambda frame: frame["session_id"] == long, timeout=OUTAGE_S)
    assert warning["expires_at"] == (await view(mitra, long))["expires_at"]
    await world.until(lambda: view(mitra, short), lambda seen: seen["status"] == "expired", timeout=OUTAGE_S)


async def test_frozen_database_gives_each_session_the_outage(world: World, stack: Service) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    long, short = await world.session(customer, mitra), await world.session(await world.customer(), mitra)
    await left(world, short, OUTAGE_S / 2)
    servers = running(stack.root)
    assert servers is not None
    frozen = time.monotonic()
    signal_server(servers.postgres_pid, signal.SIGSTOP)
    await asyncio.sleep(OUTAGE_S)
    lifted = time.monotonic() - frozen
    signal_server(servers.postgres_pid, signal.SIGCONT)
    await asyncio.gather(*(asyncio.to_thread(stack.await_ready, node.key) for node in stack.of("realtime")))
    true = lifted, time.monotonic() - frozen
    check("database frozen, a long session", await credited(world, long), true)
    check("database frozen, a session that ended meanwhile", await credited(world, short), true)
    phone = await again(lambda: customer.open("chat"))
    # On a busy machine a second before it can count as an outage of the realtime processes, whose renewals were late.
    await phone.wait("session_clock_adjusted", where=lambda frame: frame["reason"] == "database")
    await world.until(lambda: view(mitra, short), lambda seen: seen["status"] == "expired", timeout=OUTAGE_S)


async def test_one_of_two_dead_realtime_processes_gives_nothing(world: World, stack: Service) -> None:
    mitra = await world.mitra()
    session = await world.session(await world.customer(), mitra)
    short = await world.session(await world.customer(), mitra)
    await left(world, short, 2)
    stack.kill("realtime2")
    await world.until(lambda: view(mitra, short), lambda seen: seen["status"] == "expired")
    await asyncio.sleep(4)  # longer than a lease
    await asyncio.to_thread(stack.restart_cleanly, "realtime2")
    assert await credited(world, session, any_credit=False) == 0
    assert await world.stack.sql(WAITING) == [(0,)]


async def test_overlapping_outages_count_once_and_an_extension_keeps_its_minutes(world: World, stack: Service) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    session = await world.session(customer, mitra)
    before = await view(mitra, session)
    servers = running(stack.root)
    assert servers is not None
    began = time.monotonic()
    stack.kill("realtime")
    stack.kill("realtime2")
    payment = await world.request(customer, is_extension=True, session_id=session)
    await world.webhook(payment)
    await asyncio.sleep(2.5)
    signal_server(servers.postgres_pid, signal.SIGSTOP)
    await asyncio.sleep(5)
    signal_server(servers.postgres_pid, signal.SIGCONT)
    await asyncio.sleep(2.5)
    found = await world.until(
        lambda: stack.sql("SELECT id::text FROM session_extensions WHERE session_id = $1::uuid", session), bool
    )
    path = f"/api/shared/chat/sessions/{session}/extensions/{found[0]['id']}/answer"
    await again(lambda: mitra.post(path, {"accept": True}))
    lifted = time.monotonic() - began
    stack.begin("realtime")
    await asyncio.to_thread(stack.await_ready, "realtime")
    true = lifted, time.monotonic() - began
    await asyncio.to_thread(stack.restart_cleanly, "realtime2")
    given = await credited(world, session)
    check("no realtime process, and in between a frozen database", given, true)
    ends = await stack.sql(
        "SELECT extract(EPOCH FROM expires_at - $2::text::timestamptz)::float AS more FROM chat_sessions WHERE id = $1::uuid",
        session,
        before["expires_at"],
    )
    assert ends[0]["more"] == pytest.approx(12 * 60 + given, abs=0.01)


@pytest.mark.parametrize("when", When)
async def test_credit_is_given_once_if_its_process_dies_at_the_commit(world: World, stack: Service, when: When) -> None:
    mitra = await world.mitra()
    sessions = [await world.session(await world.customer(), mitra) for _ in range(2)]
    places = [
        node.postgres.park("^COMMIT", when=when, within="INSERT INTO session_time_credits") for node in stack.of("jobs")
    ]
    began = time.monotonic()
    stack.kill("realtime")
    stack.kill("realtime2")
    await asyncio.sleep(5)
    lifted = time.monotonic() - began
    stack.begin("realtime")
    await asyncio.to_thread(stack.await_ready, "realtime")
    true = lifted, time.monotonic() - began
    waits = [asyncio.ensure_future(place.reached(20)) for place in places]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    assert any(wait.done() and wait.exception() is None for wait in waits)
    for wait in waits:  # only one process holds the lock
        wait.cancel()
    await asyncio.gather(*waits, return_exceptions=True)
    await asyncio.gather(*(asyncio.to_thread(stack.restart_cleanly, key) for key in ("jobs", "jobs2", "realtime2")))
    for session in sessions:
        check(f"the jobs process died {when.value} the commit", await credited(world, session), true)
