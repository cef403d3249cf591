"""Processes that are suspended for a while and resumed, several processes of a kind, and clocks that jump."""

import asyncio
import datetime as dt
import time
from collections.abc import AsyncIterator, Iterator

import pytest

from core.base.clock import Clock, monotonic
from tests.faults import people as app
from tests.faults.proxy import When
from tests.faults.service import Service
from tests.stack import World, within
from tools.driving.device import Device

pytestmark = pytest.mark.anyio
JOBS = ["jobs", "jobs2", "jobs3", "jobs4", "jobs5"]


@pytest.fixture(scope="module")
def stack() -> Iterator[Service]:
    """Yield a service at real speed with five jobs processes and two of each other kind."""
    made = Service(counts={"api": 2, "realtime": 2, "jobs": 5})
    yield made
    made.close()


@pytest.fixture
async def world(stack: Service) -> AsyncIterator[World]:
    """Yield the users of the test; a mitra may have many sessions."""
    made = World(stack)
    await made.config("max_customers_per_mitra", 40)
    yield made
    for key in stack.nodes:
        stack.thaw(key)
    await made.close()


async def sessions(world: World, count: int) -> tuple[list[Device], list[str]]:
    """Return customers with one active session each, all with the same mitra, and the ids of the sessions."""
    mitra = await world.mitra()
    customers = [await world.customer(f"C{n}") for n in range(count)]
    return customers, [await app.paired(world, customer, mitra) for customer in customers]


async def check_each_arrives_once(phones: list[Device], ids: list[str], event: str, *, seconds: float) -> None:
    """Check that each session's event arrives in time and only once."""
    timeout = within(seconds)
    for phone, session_id in zip(phones, ids, strict=True):
        assert await phone.wait(event, where=lambda f, wanted=session_id: f["session"]["id"] == wanted, timeout=timeout)
    await asyncio.sleep(1.0)  # wait for duplicates
    for phone, session_id in zip(phones, ids, strict=True):
        mine = [f for f in phone.events if f["type"] == event and f["session"]["id"] == session_id]
        assert len(mine) == 1


async def test_deadline_with_three_of_five_jobs_processes_suspended_takes_effect_once(
    world: World, stack: Service
) -> None:
    customers, ids = await sessions(world, 8)
    async with app.phones(*customers) as phones:
        for key in JOBS[:3]:
            stack.freeze(key)
        await app.end_now(world, ids, in_s=1.0)
        # 2 s late
        await check_each_arrives_once(phones, ids, "session_expired", seconds=1.0 + 2.0 + 1.5)
        for key in JOBS[:3]:
            stack.thaw(key)  # resume them with what they knew when they were suspended
        await app.end_now(world, ids, in_s=0.5, column="grace_ends_at")
        await check_each_arrives_once(phones, ids, "session_completed", seconds=4.5)


async def test_jobs_process_suspended_in_a_transaction_delays_the_others_by_seconds(
    world: World, stack: Service
) -> None:
    customers, ids = await sessions(world, 2)
    # All processes poll for due deadlines; the one that finds a deadline publishes the event.
    places = [
        stack.nodes[key].postgres.park("^COMMIT", when=When.BEFORE, within="INSERT INTO deliveries") for key in JOBS
    ]
    async with app.phones(*customers) as phones:
        began = time.monotonic()
        await app.end_now(world, ids)
        await world.until(lambda: asyncio.sleep(0, [p for p in places if p.is_held]), bool)
        held = next(place for place in places if place.is_held)
        for key in JOBS:
            stack.nodes[key].postgres.remove_parks()
        for other in places:
            if other is not held:  # if two poll at the same moment, each may have claimed one session
                other.release()
        paused = next(key for key in JOBS if stack.nodes[key].postgres is held.proxy)
        stack.freeze(paused)
        # The database ends a suspended transaction (idle_in_transaction_session_timeout).
        await check_each_arrives_once(phones, ids, "session_expired", seconds=8.0 + 3.5)
        assert time.monotonic() - began < within(13.5)
        held.release()  # its COMMIT arrives late, after the database has ended the transaction
        stack.thaw(paused)
        await check_no_repeats(phones, ids)


async def check_no_repeats(phones: list[Device], ids: list[str]) -> None:
    """Check that no event arrives a second time."""
    await asyncio.sleep(1.0)
    for phone, session_id in zip(phones, ids, strict=True):
        assert sum(f["type"] == "session_expired" and f["session"]["id"] == session_id for f in phone.events) == 1


async def test_suspended_api_process_delays_its_clients_but_loses_nothing(world: World, stack: Service) -> None:
    customer, other = await world.customer(), await world.customer()
    other.addresses = stack.at(1)
    other._base = other.addresses.public
    stack.freeze("api")
    try:
        asked = asyncio.create_task(app.request(customer))
        assert (await app.request(other))["status"] == "pending"  # the other process still serves
        await asyncio.sleep(2)
        assert not asked.done()
    finally:
        stack.thaw("api")
    assert (await asked)["status"] == "pending"


async def test_suspended_realtime_process_loses_nothing(world: World, stack: Service) -> None:
    customer, mitra = await world.customer(), await world.mitra()
    mitra.addresses = stack.at(1)
    session_id = await app.paired(world, customer, mitra)
    async with app.phones(customer, mitra) as (phone, desk):
        await phone.say(session_id, "before")
        stack.freeze("realtime")
        said = asyncio.create_task(phone.say(session_id, "into the ice"))
        for n in range(5):
            await desk.say(session_id, f"meanwhile {n}")
        await asyncio.sleep(2)
        stack.thaw("realtime")
        await said
        for one in (phone, desk):
            await one.until(lambda one=one: len(one.transcript(session_id)) == 7)
            await app.wait_for_transcript(world, one, session_id)


def test_service_clock_follows_only_the_database_clock() -> None:
    anchor = dt.datetime(2026, 11, 21, 6, tzinfo=dt.UTC)
    for scale in (1, 60):
        clock = Clock(anchor=anchor, scale=scale)
        clock.set_real(anchor + dt.timedelta(hours=1), at_monotonic=monotonic())
        deadline = clock.now() + dt.timedelta(minutes=10)
        for jump in (dt.timedelta(hours=2), dt.timedelta(hours=-2)):  # the clock of the database's machine is corrected
            before, left = clock.now(), clock.real_seconds_until(deadline)
            moved = clock.set_real(clock.real_now() + jump, at_monotonic=monotonic())
            assert moved == pytest.approx(jump.total_seconds(), abs=0.5)
            assert (clock.now() - before).total_seconds() == pytest.approx(jump.total_seconds() * scale, abs=scale)
            assert clock.real_seconds_until(deadline) == pytest.approx(left - jump.total_seconds(), abs=1)
