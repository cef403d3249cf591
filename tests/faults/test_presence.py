"""Mitras whose phones are alive stay online through every outage, with the default configuration.

The services run at four times real speed, so 45 s of silence take 11 s and an outage of 15 s counts as 60 s. Four
services run at the same time.
"""

import asyncio
import concurrent.futures
import contextlib
import os
import random
import signal
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import aiohttp
import pytest

from core.cluster.outages.rules import LEASE_S
from realtime.connections import SOCKETS_A_USER
from tests.faults.proxy import Mode
from tests.faults.service import Service
from tests.faults.together import Part, Together
from tests.sockets.plain_socket import bare_and_known
from tests.stack import World, within
from tools.driving.device import Device
from tools.driving.sesi_client import Refused
from tools.embedded.ownership import running

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(240)]
TOGETHER = Together()
LANES = 4

SCALE = 4
AWAY_S = 60 / SCALE
NOTICED_S = 1.5  # an outage begins with the last renewal of a lease before it; one is due each second
CADENCE_S, STALE_S = 30 / SCALE, 45 / SCALE
SOCKETS, REST = 9, 3
CROWD = 1_000
OUTAGES = (
    """SELECT kind, extract(epoch FROM ended_at - began_at)::float / $1 AS seconds FROM outages ORDER BY began_at"""
)
BEFORE = "UPDATE service_processes SET since_at = since_at - interval '1 hour'"


@pytest.fixture(scope="module")
def stacks() -> Iterator[list[Service]]:
    """Yield services with the default configuration, behind proxies."""

    def start() -> Service:
        return Service(scale=SCALE, counts={"realtime": 2, "jobs": 2}, ACCESS_TOKEN_SECONDS="86400")

    with concurrent.futures.ThreadPoolExecutor(LANES) as pool, contextlib.ExitStack() as closing:
        starting = [pool.submit(start) for _ in range(LANES)]
        for one in concurrent.futures.as_completed(starting):
            if one.exception() is None:
                closing.callback(one.result().close)
        yield [one.result() for one in starting]


class Mitras:
    """Twelve mitras with live phones, some over sockets and some over REST, and one mitra whose phone is dead."""

    def __init__(self, world: World, stack: Service) -> None:
        self.world = world
        self.service = stack
        self.phones: list[Device] = []
        self.alive: list[str] = []
        self.dead: Device
        self._beats: list[asyncio.Task[None]] = []

    async def go_online(self) -> None:
        """Go online and start to send heartbeats."""
        for n in range(SOCKETS + REST):
            client = await self.world.mitra(f"M{n}")
            client.addresses = self.service.at(n)
            self.alive.append(client.user["id"])
            if n < SOCKETS:
                client.presence.heartbeats = True  # the first one comes after the cadence
                self.phones.append(await client.start("pairing"))
                await client.until(lambda client=client: client.connection == "open")
                await client.connections["pairing"].send({"type": "heartbeat"})
            else:
                self._beats.append(asyncio.create_task(self._over_rest(client)))
        await self.world.until(self._over_sockets, lambda count: count == SOCKETS)
        await self.world.stack.sql(BEFORE)  # as if the service had run for long

    async def _over_sockets(self) -> int:
        rows = await self.world.stack.sql(
            "SELECT 1 FROM mitra_online_status WHERE heartbeat_channel = 'socket' AND mitra_id = ANY($1::uuid[])",
            self.alive,
        )
        return len(rows)

    async def _over_rest(self, client: Device) -> None:
        while True:
            with contextlib.suppress(OSError, aiohttp.ClientError, TimeoutError, Refused):
                await client.post("/api/mitra/status/heartbeat")
            await asyncio.sleep(CADENCE_S)

    async def online(self) -> set[str]:
        """Return the ids of the live mitras who are online."""
        rows = await self.world.stack.sql(
            "SELECT mitra_id::text FROM mitra_online_status WHERE is_online AND mitra_id = ANY($1::uuid[])", self.alive
        )
        return {row["mitra_id"] for row in rows}

    async def leave(self) -> None:
        """Close all phones."""
        for beat in self._beats:
            beat.cancel()
        for phone in self.phones:
            await phone.stop()


@pytest.fixture(scope="module")
async def plays(stacks: list[Service], request: pytest.FixtureRequest) -> AsyncIterator[None]:
    """Run the tests, each with its own mitras; after each, wait until every process is ready."""

    async def run(part: Part) -> None:
        stack = stacks[part.lane]
        world = World(stack, heartbeats=False)  # these phones send their own heartbeats
        mitras = Mitras(world, stack)
        try:
            await mitras.go_online()
            await stack.sql("DELETE FROM outages")
            await part.body(mitras, stack)
        finally:
            await stack.network("postgres", Mode.PASS)
            await mitras.leave()
            for key in stack.nodes:
                await asyncio.to_thread(stack.await_ready, key)
            await world.close()

    TOGETHER.start(run, request.session.items)
    yield
    await TOGETHER.stop()


async def outages(stack: Service, *kinds: str) -> list[tuple[str, float]]:
    """Wait until outages of these kinds are recorded; return the kind and the real seconds of each outage."""
    found: list[Any] = []
    async with asyncio.timeout(15):
        while not {*kinds} <= {row["kind"] for row in found}:
            found = await stack.sql(OUTAGES, float(SCALE))
            await asyncio.sleep(0.1)
    return [(row["kind"], row["seconds"]) for row in found]


async def check_recorded(stack: Service, kind: str, away_s: float, *, starts_s: float = NOTICED_S) -> None:
    """Check that one outage is recorded: of this kind, and as long as the fault was, plus `starts_s` under no load.

    Processes of one kind that return later than the first one are an outage of that kind for the rest of this time.
    """
    found = await outages(stack, kind)
    [seconds] = [seconds for recorded, seconds in found if recorded == kind]
    assert seconds >= AWAY_S - NOTICED_S
    assert sum(seconds for _, seconds in found) <= away_s + within(starts_s)


async def check_still_online(mitras: Mitras) -> None:
    """Check after the longest tolerated silence that all mitras are online and free for requests."""
    for _ in range(3):
        assert await mitras.online() == set(mitras.alive)
        await asyncio.sleep((STALE_S + 2) / 3)
    assert await mitras.online() == set(mitras.alive)
    offline = await mitras.world.stack.sql(
        "SELECT 1 FROM mitra_online_logs WHERE status = 'offline' AND mitra_id = ANY($1::uuid[])", mitras.alive
    )
    assert offline == []
    free = await mitras.world.stack.sql(
        "SELECT count(*)::int FROM free_mitras((SELECT anchor + (now() - anchor) * $1::float8 FROM service_clock), true, 45, 3)",
        float(SCALE),
    )
    assert free[0][0] == len(mitras.alive)


async def check_outage_of_the_database(mitras: Mitras, stack: Service, how: str) -> None:
    """Check that all mitras stay online when the database is frozen, refuses connections or is killed."""
    began = time.monotonic()
    if how == "killed":
        servers = running(stack.root)
        assert servers is not None
        os.kill(servers.postgres_pid, signal.SIGKILL)
        await asyncio.sleep(AWAY_S)
        assert "postgres" in await asyncio.to_thread(stack.servers.watch)
    else:
        await stack.network("postgres", Mode.HANG if how == "frozen" else Mode.CUT)
        await asyncio.sleep(AWAY_S)
        await stack.network("postgres", Mode.PASS)
    away_s = time.monotonic() - began
    await check_recorded(stack, "database", away_s)
    await check_still_online(mitras)


@TOGETHER.test()
async def test_live_mitras_stay_online_when_the_database_is_frozen_for_a_minute(mitras: Mitras, stack: Service) -> None:
    await check_outage_of_the_database(mitras, stack, "frozen")


@TOGETHER.test(lane=1)
async def test_live_mitras_stay_online_when_the_database_refuses_connections_for_a_minute(
    mitras: Mitras, stack: Service
) -> None:
    await check_outage_of_the_database(mitras, stack, "refused")


@TOGETHER.test(lane=2)
async def test_live_mitras_stay_online_when_the_database_is_dead_for_a_minute(mitras: Mitras, stack: Service) -> None:
    await check_outage_of_the_database(mitras, stack, "killed")


@TOGETHER.test(step=1)
async def test_live_mitras_stay_online_when_all_realtime_processes_are_dead_for_a_minute(
    mitras: Mitras, stack: Service
) -> None:
    began = time.monotonic()
    for key in ("realtime", "realtime2"):
        stack.kill(key)
    await asyncio.sleep(AWAY_S)
    for key in ("realtime", "realtime2"):
        stack.begin(key)
    away_s = time.monotonic() - began
    await check_recorded(stack, "realtime", away_s, starts_s=4)  # includes the start of a process
    await check_still_online(mitras)


@TOGETHER.test(lane=2, step=1)
async def test_live_mitras_stay_online_when_one_realtime_process_loses_the_database(
    mitras: Mitras, stack: Service
) -> None:
    await stack.network("postgres", Mode.CUT, ["realtime2"])
    await asyncio.sleep(AWAY_S)
    assert await mitras.online() == set(mitras.alive)
    await stack.network("postgres", Mode.PASS, ["realtime2"])
    await check_still_online(mitras)
    assert await stack.sql("SELECT 1 FROM outages") == []  # the other process served


async def reopen_socket(client: Device, path: str) -> None:
    """Open a socket, retrying until the service accepts it, and keep it."""
    while True:
        try:
            await bare_and_known(client, path)
        except (aiohttp.ClientError, OSError, TimeoutError, TypeError):  # refused, or closed again
            await asyncio.sleep(random.uniform(0.2, 1.0))
        else:
            return


@TOGETHER.test(lane=3)
async def test_live_mitras_stay_online_while_slow_processes_serve_a_thousand_reconnects(
    mitras: Mitras, stack: Service
) -> None:
    hubs = ("realtime", "realtime2")
    crowd = [await mitras.world.customer() for _ in range(CROWD // (SOCKETS_A_USER * 2))]
    for n, client in enumerate(crowd):
        client.addresses = stack.at(n)
    for key in hubs:
        stack.kill(key)
        stack.begin(key)
    coming = [
        asyncio.create_task(reopen_socket(client, path))
        for client in crowd
        for path in ("chat", "pairing")
        for _ in range(SOCKETS_A_USER)
    ]
    for key in hubs:
        await asyncio.to_thread(stack.await_ready, key)
    began = time.monotonic()
    while time.monotonic() - began < 1.5 * STALE_S:  # too late to accept clients most of the time
        for key in hubs:
            stack.freeze(key)
        await asyncio.sleep(LEASE_S - 0.6)
        for key in hubs:
            stack.thaw(key)
        await asyncio.sleep(0.4)
    async with asyncio.timeout(60):
        await asyncio.gather(*coming)
    await check_still_online(mitras)


@TOGETHER.test(lane=1, step=1)
async def test_live_mitras_stay_online_when_every_process_is_dead_for_a_minute(mitras: Mitras, stack: Service) -> None:
    for key in stack.nodes:
        stack.kill(key)
    await asyncio.sleep(AWAY_S)
    for key in stack.nodes:
        stack.begin(key)
    found = await outages(stack, "api", "realtime")
    await check_still_online(mitras)
    assert sorted(kind for kind, _ in found) == ["api", "realtime"]


@TOGETHER.test(lane=3, step=1)
async def test_silent_mitra_is_taken_offline_in_time_while_the_other_channel_is_down(
    mitras: Mitras, stack: Service
) -> None:
    silent = await mitras.world.mitra("Silent")
    desk = await silent.open("pairing")
    await desk.send({"type": "heartbeat"})
    channel = "SELECT heartbeat_channel, is_online FROM mitra_online_status WHERE mitra_id = $1::uuid"
    await mitras.world.until(
        lambda: mitras.world.stack.sql(channel, silent.user["id"]),
        lambda rows: rows[0]["heartbeat_channel"] == "socket",
    )
    await desk.close()
    stack.kill("api")
    try:
        await mitras.world.until(
            lambda: mitras.world.stack.sql(channel, silent.user["id"]),
            lambda rows: not rows[0]["is_online"],
            timeout=STALE_S + 5,
        )
        await asyncio.sleep(3)  # heartbeats over REST are overdue by now
        assert await mitras.online() == set(mitras.alive)
    finally:
        stack.begin("api")
        await asyncio.to_thread(stack.await_ready, "api")
