"""Parties of a session who are away, over real processes, sockets and requests (docs/fairness.md#absent-party).

The services run at four times real speed, so that the silence of 24 s takes 6 s. The tests of the first service that kill
processes follow those that don't; no process of the second one is killed.
"""

import asyncio
import contextlib
import datetime as dt
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from tests.faults.service import Service
from tests.faults.together import Part, Together
from tests.stack import World
from tools.driving.device import Device, RecordedSocket

pytestmark = pytest.mark.anyio
TOGETHER = Together()
LONGEST = 2  # the lane of a test that runs on the second service during all steps of the others

SCALE = 4
AFTER = 24  # service seconds of silence
AFTER_S = AFTER / SCALE
ROWS = """SELECT (SELECT count(*) FROM session_presence)::int AS presence,
  (SELECT count(*) FROM session_absences)::int AS absences"""
ABSENCES = "SELECT user_type, ended_at, returned FROM session_absences WHERE session_id = $1::uuid ORDER BY id"
SEEN = """SELECT extract(epoch FROM mitra_seen_at)::float AS mitra, extract(epoch FROM customer_seen_at)::float AS customer
  FROM session_presence WHERE session_id = $1::uuid"""

# A presence check that was sent after the last heartbeat, and whose time for the answer is not over.
CHECK = """UPDATE mitra_online_status SET checked_at = last_heartbeat_at + interval '1 ms',
  check_ends_at = last_heartbeat_at + interval '1 hour' WHERE mitra_id = $1::uuid"""


@pytest.fixture(scope="module")
def stacks() -> Iterator[list[Service]]:
    """Yield two services with two realtime and two jobs processes each."""
    with contextlib.ExitStack() as closing:
        made = []
        for _ in range(2):
            made.append(Service(scale=SCALE, counts={"realtime": 2, "jobs": 2}, ACCESS_TOKEN_SECONDS="86400"))
            closing.callback(made[-1].close)
        yield made


@contextlib.asynccontextmanager
async def a_world(stack: Service) -> AsyncIterator[World]:
    """Yield new users of a service; run the audit at the end."""
    made = World(stack, heartbeats=False)
    try:
        yield made
    finally:
        await made.close()


@pytest.fixture(scope="module")
async def plays(stacks: list[Service], request: pytest.FixtureRequest) -> AsyncIterator[None]:
    """Run the tests over services that look for absent parties."""
    for stack in stacks:
        async with a_world(stack) as world:
            await world.config("mitra_stale_after_seconds", 3600)
            await world.config("peer_absent_seconds", AFTER)

    async def run(part: Part) -> None:
        stack = stacks[min(part.lane, 1)]
        async with a_world(stack) as world:
            await part.body(world, stack)

    TOGETHER.start(run, request.session.items)
    yield
    await TOGETHER.stop()


class Pair:
    """A session with a customer at the second realtime process and a mitra at the first."""

    customer: Device
    mitra: Device
    session_id: str

    async def begin(self, world: World, stack: Service) -> "Pair":
        """Begin the session."""
        self.world = world
        self.customer, self.mitra = await world.customer(), await world.mitra()
        self.mitra.addresses, self.customer.addresses = stack.at(0), stack.at(1)
        self.session_id = await world.session(self.customer, self.mitra)
        return self

    async def absences(self) -> list[tuple[str, bool, bool]]:
        """Return the (party, has ended, returned) of each absence."""
        rows = await self.world.stack.sql(ABSENCES, self.session_id)
        return [(row["user_type"], row["ended_at"] is not None, row["returned"]) for row in rows]

    async def no_absence_for(self, seconds: float) -> None:
        """Check for some real seconds that there is no absence."""
        async with asyncio.timeout(seconds + 5):
            until = asyncio.get_running_loop().time() + seconds
            while asyncio.get_running_loop().time() < until:
                assert await self.absences() == []
                await asyncio.sleep(0.2)

    async def get(self) -> Any:
        """Read the session as the mitra does, over REST."""
        return await self.mitra.get(f"/api/shared/chat/sessions/{self.session_id}")


@TOGETHER.test()
async def test_with_the_row_off_nothing_is_written(world: World, stack: Service) -> None:
    await world.config("peer_absent_seconds", 0)
    await world.until(lambda: look_at_config(world), lambda value: value == 0)
    await asyncio.sleep(1.5)  # each process has seen the change
    try:
        await stack.sql("TRUNCATE session_presence, session_absences")
        pair = await Pair().begin(world, stack)
        phones = [await pair.customer.open("chat"), await pair.mitra.open("chat")]
        await phones[0].say(pair.session_id, "halo")
        await pair.get()
        for phone in phones:
            await phone.close()
        await asyncio.sleep(1.5)
        assert tuple((await stack.sql(ROWS))[0]) == (0, 0)
    finally:
        await world.config("peer_absent_seconds", AFTER)


async def look_at_config(world: World) -> Any:
    """Return the configured silence."""
    operator = await world.operator()
    rows = await operator.get("/internal/config")
    return next(row["value"] for row in rows["items"] if row["key"] == "peer_absent_seconds")


@TOGETHER.test(lane=1)
async def test_lost_socket_is_an_absence_until_the_phone_returns_over_rest(world: World, stack: Service) -> None:
    pair = await Pair().begin(world, stack)
    other, phone = await pair.customer.open("chat"), await pair.mitra.open("chat")
    phone.abort()
    absent = await other.wait("peer_absent")
    assert (absent["session_id"], absent["user_type"]) == (pair.session_id, "mitra")
    operator = await world.operator()
    seen = await operator.get(f"/internal/sessions/{pair.session_id}")
    assert (seen["mitra_absent_since"], seen["customer_absent_since"]) == (absent["since"], None)
    assert (await operator.get("/internal/overview"))["absent"] >= 1
    again = await pair.customer.open("chat")
    [session] = again.frames[0]["sessions"]
    assert session["peer_absent_since"] == absent["since"]
    await pair.get()
    returned = await other.wait("peer_returned")
    assert (returned["session_id"], returned["user_type"]) == (pair.session_id, "mitra")
    assert await pair.absences() == [("mitra", True, True)]
    await again.close()


@TOGETHER.test(lane=1, step=1)
async def test_return_of_the_mitra_gives_the_time_back_once_with_the_fair_clock(world: World, stack: Service) -> None:
    async with world.setting(fair_clock=True):
        pair = await Pair().begin(world, stack)
        before = dt.datetime.fromisoformat((await pair.get())["expires_at"])
        other, phone = await pair.customer.open("chat"), await pair.mitra.open("chat")
        phone.abort()
        since = dt.datetime.fromisoformat((await other.wait("peer_absent"))["since"])
        pair.mitra.addresses = stack.at(1)
        again = await pair.mitra.open("chat")
        await other.wait("peer_returned")
        adjusted = await other.wait("session_clock_adjusted")
        await again.wait("session_clock_adjusted")
        given = dt.datetime.fromisoformat(adjusted["session"]["expires_at"]) - before
        assert (adjusted["reason"], adjusted["added_seconds"]) == ("mitra_absent", round(given.total_seconds()))
        [row] = await stack.sql(ABSENCES, pair.session_id)
        assert abs(given - (row["ended_at"] - since)) < dt.timedelta(milliseconds=2)
        assert AFTER <= given.total_seconds() < AFTER + 20 * SCALE


@TOGETHER.test(lane=1, step=2)
async def test_answer_to_a_presence_check_is_no_sign_of_life_and_other_heartbeats_are(
    world: World, stack: Service
) -> None:
    async with world.setting(reachability_probe=True):
        pair = await Pair().begin(world, stack)
        other, phone = await pair.customer.open("chat"), await pair.mitra.open("chat")
        phone.abort()
        waiting = asyncio.create_task(other.wait("peer_absent"))
        async with asyncio.timeout(3 * AFTER_S):
            while not waiting.done():  # the phone answers without a human
                await stack.sql(CHECK, pair.mitra.user["id"])
                await pair.mitra.post("/api/mitra/status/heartbeat")
                await asyncio.wait([waiting], timeout=0.5)
        assert (await waiting)["user_type"] == "mitra"
        await stack.sql("UPDATE mitra_online_status SET checked_at = NULL, check_ends_at = NULL")
        await pair.mitra.post("/api/mitra/status/heartbeat")
        assert (await other.wait("peer_returned"))["user_type"] == "mitra"


@TOGETHER.test(lane=1)
async def test_second_device_keeps_its_user_present(world: World, stack: Service) -> None:
    pair = await Pair().begin(world, stack)
    other = await pair.customer.open("chat")
    one, two = await pair.mitra.open("chat"), await pair.mitra.open("pairing")
    one.abort()
    await pair.no_absence_for(1.5 * AFTER_S)
    two.abort()
    assert (await other.wait("peer_absent"))["user_type"] == "mitra"


@TOGETHER.test(lane=LONGEST)
async def test_socket_that_dies_without_a_sign_is_noticed_by_its_pings(world: World, stack: Service) -> None:
    pair = await Pair().begin(world, stack)
    other, phone = await pair.customer.open("chat"), await pair.mitra.open("chat")
    silence(phone)
    assert (await other.wait("peer_absent", timeout=60))["user_type"] == "mitra"
    assert await pair.absences() == [("mitra", False, False)]
    assert not phone.closed
    await pair.get()
    await other.wait("peer_returned")


def silence(socket: RecordedSocket) -> None:
    """Let a client read nothing more, and so answer no ping; its connection stays open."""
    connection = socket._ws._response.connection
    assert connection is not None
    assert connection.transport is not None
    connection.transport.pause_reading()  # pyright: ignore[reportAttributeAccessIssue]


@TOGETHER.test(step=1)
async def test_users_of_a_killed_hub_are_not_absent_and_return_at_the_other(world: World, stack: Service) -> None:
    pair = await Pair().begin(world, stack)
    other, phone = await pair.customer.open("chat"), await pair.mitra.open("chat")
    await world.until(lambda: stack.sql(SEEN, pair.session_id), lambda rows: rows and rows[0]["mitra"])
    stack.kill("realtime")
    try:
        await phone.wait_closed()
        await pair.no_absence_for(1.5 * AFTER_S)
        pair.mitra.addresses = stack.at(1)
        await pair.mitra.open("chat")
        await pair.no_absence_for(AFTER_S)
        assert not other.closed
    finally:
        await asyncio.to_thread(stack.restart_cleanly, "realtime")


@TOGETHER.test(step=2)
async def test_no_party_is_absent_because_of_an_outage(world: World, stack: Service) -> None:
    pair = await Pair().begin(world, stack)
    for client in (pair.customer, pair.mitra):
        await client.open("chat")
    for key in ("realtime", "realtime2"):
        stack.kill(key)
    await asyncio.sleep(1.5 * AFTER_S)
    for key in ("realtime", "realtime2"):
        stack.begin(key)
    for key in ("realtime", "realtime2"):
        await asyncio.to_thread(stack.await_ready, key)
    for client in (pair.customer, pair.mitra):
        await client.open("chat")
    await pair.no_absence_for(1.5 * AFTER_S)
