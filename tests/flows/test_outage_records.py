"""Gaps between the leases of processes are recorded as outages, each once, whichever process comes back first."""

import asyncio
import contextlib
import datetime as dt
import os
import pathlib
import re
import socket
import time
from collections.abc import Iterator
from typing import Any

import asyncpg
import pytest

from core.accounts.mitras import store as mitras
from core.accounts.mitras.rules import AvailabilityPolicy
from core.cluster import process_lease
from core.cluster.outages import store
from core.cluster.outages.rules import BREAK_S, EXCUSE_S, GIVE_UP_S, LEASE_S, OutageKind, ProcessKind
from core.cluster.outages.store import ProcessIdentity
from core.cluster.process_lease import LATE_S, ProcessLease
from core.pairing import presence
from core.telemetry import metrics
from tests.flows.conftest import Harness

AGO = f"""UPDATE service_processes SET since_at = since_at - make_interval(secs => $2), alive_at = alive_at - make_interval(secs => $2),
  lost_at = least(lost_at, alive_at + interval '{LEASE_S} s') - make_interval(secs => $2), given_up_at = given_up_at - make_interval(secs => $2) WHERE place = ANY($1)"""
# A lease that a test does not renew, and that lasts however slow the machine is.
LASTING = "UPDATE service_processes SET lost_at = lost_at + interval '1 hour' WHERE place = $1"
LONGER = "UPDATE service_processes SET since_at = since_at - interval '1 hour' WHERE place = $1"
ALIVE = "SELECT alive_at FROM service_processes WHERE place = $1"
ABLE_SINCE = "SELECT kind_able_since($1, $2)"


def place(kind: ProcessKind, n: int = 1) -> ProcessIdentity:
    """Return the key of a process."""
    return ProcessIdentity(name=f"{kind} host:{n}", kind=kind, scale=1)


HUB, HUB2 = place(ProcessKind.REALTIME), place(ProcessKind.REALTIME, 2)
JOBS, API = place(ProcessKind.JOBS), place(ProcessKind.API)


@pytest.fixture
def empty(harness: Harness) -> Iterator[Harness]:
    """Remove all leases and outages."""
    harness.run(harness.empty("service_processes", "outages"))
    yield harness
    harness.run(harness.empty("service_processes", "outages"))


async def begin(harness: Harness, where: ProcessIdentity, *, renewed_at: dt.datetime | None = None) -> dt.datetime:
    """Start a series of lease renewals for a process; return its start."""
    async with harness.runtime.transaction() as tx:
        now, _ = await store.begin(tx, where, renewed_at=renewed_at)
    return now


async def begin_lasting(harness: Harness, where: ProcessIdentity) -> None:
    """Start a process whose lease does not end during the test, unless `ago` moves its last renewal back."""
    await begin(harness, where)
    await harness.runtime.db.fetch(LASTING, where.name)


async def ago(harness: Harness, seconds: float, *places: ProcessIdentity) -> None:
    """Move the last renewal of these processes back by `seconds`."""
    await harness.runtime.db.fetch(AGO, [one.name for one in places], seconds)


def about(seconds: float, *, since: float, margin: float = 1.0) -> Any:
    """Return what equals a length that has grown by at most the time since a moment (monotonic seconds)."""
    return pytest.approx(seconds, abs=margin + time.monotonic() - since)


async def recorded(harness: Harness) -> list[tuple[str, float]]:
    """Return kind and length in seconds of each outage, in order."""
    rows = await harness.runtime.db.fetch("SELECT kind, began_at, ended_at FROM outages ORDER BY began_at, kind")
    return [(row["kind"], (row["ended_at"] - row["began_at"]).total_seconds()) for row in rows]


def test_lease_can_be_renewed_until_it_expires(empty: Harness) -> None:
    async def play() -> None:
        db = empty.runtime.db
        assert not (await store.renew(db, HUB, steady=True)).renewed
        since = await begin(empty, HUB)
        seen = await store.renew(db, HUB, steady=True)
        assert (seen.renewed, seen.alive) == (True, {"realtime"})
        assert await db.fetchval(ABLE_SINCE, "realtime", seen.now) == since
        await ago(empty, LEASE_S, HUB)
        assert not (await store.renew(db, HUB, steady=True)).renewed  # a late renewal changes nothing
        assert not (await store.renew(db, HUB, steady=True)).renewed

    empty.run(play())


def test_renewal_finds_other_realtime_processes_that_had_a_lease_lately(empty: Harness) -> None:
    async def play() -> None:
        db = empty.runtime.db
        for where in (HUB, JOBS, API):
            await begin(empty, where)
        assert not (await store.renew(db, HUB, steady=True)).other_hubs
        await begin(empty, HUB2)
        assert (await store.renew(db, HUB, steady=True)).other_hubs
        await store.end(db, HUB2)
        assert (await store.renew(db, HUB, steady=True)).other_hubs  # it may come back
        await ago(empty, GIVE_UP_S - 10, HUB2)
        assert (await store.renew(db, HUB, steady=True)).other_hubs
        await ago(empty, 10, HUB2)
        assert not (await store.renew(db, HUB, steady=True)).other_hubs

    empty.run(play())


def test_first_process_ever_records_no_outage(empty: Harness) -> None:
    async def play() -> None:
        for where in (HUB, JOBS, API):
            await begin(empty, where)
        assert await recorded(empty) == []

    empty.run(play())


def test_death_of_all_processes_is_one_outage_of_each_kind(empty: Harness) -> None:
    async def play() -> None:
        since = time.monotonic()
        for where in (HUB, HUB2, JOBS, API):
            await begin(empty, where)
        await ago(empty, 90, HUB, HUB2, JOBS, API)
        for where in (HUB2, HUB, JOBS, API):
            await begin(empty, where)
        assert sorted(await recorded(empty)) == [("api", about(90, since=since)), ("realtime", about(90, since=since))]

    empty.run(play())


@pytest.mark.parametrize("order", [(HUB, JOBS, API), (API, HUB, JOBS), (JOBS, API, HUB)])
def test_database_outage_is_recorded_once(empty: Harness, order: tuple[ProcessIdentity, ...]) -> None:
    async def play() -> None:
        since = time.monotonic()
        for where in order:
            await begin(empty, where)
        began = {}
        for n, where in enumerate(order):  # each had its last successful renewal at another moment
            await ago(empty, 30 + n / 4, where)
            began[where] = await empty.runtime.db.fetchval(
                "SELECT alive_at FROM service_processes WHERE place = $1", where.name
            )
        for where in order:
            await begin(empty, where, renewed_at=began[where])
        assert await recorded(empty) == [("database", about(30, since=since))]

    empty.run(play())


def test_realtime_outage_around_one_of_the_database_leaves_no_gap(empty: Harness) -> None:
    async def play() -> None:
        since = time.monotonic()
        await begin(empty, HUB)
        await ago(empty, 20.5, HUB)
        now = empty.runtime.now()
        frozen = (now - dt.timedelta(seconds=18), now - dt.timedelta(seconds=2))
        await empty.runtime.db.fetch(
            "INSERT INTO outages (id, kind, began_at, ended_at) VALUES (gen_random_uuid(), 'database', $1, $2)", *frozen
        )
        await begin(empty, HUB)
        assert await recorded(empty) == [
            ("realtime", about(2, since=since, margin=0.5)),
            ("database", 16),
            ("realtime", about(2, since=since, margin=0.5)),
        ]

    empty.run(play())


def test_single_process_cut_off_records_no_database_outage(empty: Harness) -> None:
    async def play() -> None:
        await begin(empty, HUB2)
        renewed_at = await begin(empty, HUB)
        await begin(empty, JOBS)
        await ago(empty, 20, HUB)
        for where in (JOBS, HUB2):
            await empty.runtime.db.fetch(LONGER, where.name)
        await begin(empty, HUB, renewed_at=renewed_at - dt.timedelta(seconds=20))
        assert await recorded(empty) == []

    empty.run(play())


def test_only_realtime_process_cut_off_is_a_realtime_outage(empty: Harness) -> None:
    async def play() -> None:
        since = time.monotonic()
        renewed_at = await begin(empty, HUB)
        await begin(empty, JOBS)
        await ago(empty, 20, HUB)
        await empty.runtime.db.fetch(LONGER, JOBS.name)
        await begin(empty, HUB, renewed_at=renewed_at - dt.timedelta(seconds=20))
        assert await recorded(empty) == [("realtime", about(19.5, since=since))]

    empty.run(play())


def test_death_of_one_of_two_realtime_processes_is_not_an_outage(empty: Harness) -> None:
    async def play() -> None:
        await begin(empty, HUB)
        await begin(empty, HUB2)
        await ago(empty, 90, HUB)
        await begin(empty, HUB)
        assert await recorded(empty) == []

    empty.run(play())


def test_processes_that_return_together_record_one_outage(empty: Harness) -> None:
    async def play() -> None:
        hubs = [place(ProcessKind.REALTIME, n) for n in range(8)]
        for where in hubs:
            await begin(empty, where)
        await ago(empty, 40, *hubs)
        renewed_at = await empty.runtime.db.fetchval("SELECT max(alive_at) FROM service_processes")
        async with asyncio.TaskGroup() as group:
            for n, where in enumerate(hubs):
                group.create_task(begin(empty, where, renewed_at=renewed_at if n % 2 else None))
        kinds = [kind for kind, _ in await recorded(empty)]
        assert kinds in (["database"], ["database", "realtime"])  # the latter if a process without memory was first
        assert kinds.count("database") == 1

    empty.run(play())


def test_overlaps_clips_and_joins_outages_of_the_requested_kinds(empty: Harness) -> None:
    async def play() -> None:
        runtime, now = empty.runtime, empty.runtime.now()

        def at(seconds: float) -> dt.datetime:
            return now + dt.timedelta(seconds=seconds)

        for n, (kind, began, ended) in enumerate(
            [("database", 0, 10), ("realtime", 5, 20), ("api", 20, 30), ("realtime", 40, 60)]
        ):
            await runtime.db.fetch(
                "INSERT INTO outages (id, kind, began_at, ended_at) VALUES ($1, $2, $3, $4)",
                f"00000000-0000-7000-8000-00000000000{n}", kind, at(began), at(ended),
            )  # fmt: skip
        chat = (OutageKind.DATABASE, OutageKind.REALTIME)
        assert await store.overlaps(runtime.db, chat, (at(2), at(50))) == [(at(2), at(20)), (at(40), at(50))]
        assert await store.overlaps(runtime.db, chat, (at(20), at(40))) == []

    empty.run(play())


def test_silence_counts_only_while_the_service_could_accept_heartbeats(empty: Harness) -> None:
    async def play() -> None:
        db = empty.runtime.db

        async def able_since() -> tuple[dt.datetime, dt.datetime]:
            now = empty.runtime.now()
            return await db.fetchval(ABLE_SINCE, "realtime", now), now

        found, now = await able_since()
        assert found == now  # no process is alive, so no heartbeat can arrive
        await begin(empty, HUB)
        since = await begin(empty, HUB2)
        assert (await able_since())[0] == since
        await ago(empty, LEASE_S + 1, HUB)  # dead, or cut off
        found, now = await able_since()
        assert found == now
        await ago(empty, GIVE_UP_S, HUB)  # long enough to count as dead
        assert (await able_since())[0] == since
        again = await begin(empty, HUB)
        assert (await able_since())[0] == again
        await store.end(db, HUB)  # an orderly stop: its phones reconnect elsewhere
        found, now = await able_since()
        assert again < found < now
        await begin(empty, HUB)
        seen = await store.renew(db, HUB, steady=False)
        assert (await able_since())[0] == seen.now  # it refused clients

    empty.run(play())


async def create_online_mitra(harness: Harness, seconds_ago: float, channel: str = "socket") -> str:
    """Create an online mitra whose last heartbeat is `seconds_ago` old; return the id."""
    mitra = await harness.mitra()
    await presence.go_online(harness.runtime, mitra)
    await harness.runtime.db.fetch(
        "UPDATE mitra_online_status SET last_heartbeat_at = $2, heartbeat_channel = $3 WHERE mitra_id = $1",
        mitra.user_id, harness.runtime.now() - dt.timedelta(seconds=seconds_ago), channel,
    )  # fmt: skip
    return mitra.user_id


@pytest.mark.parametrize(("threshold", "free"), [(60, False), (60.25, False), (60.75, True), (61, True)])
def test_silence_threshold_keeps_its_fraction_of_a_second(empty: Harness, threshold: float, free: bool) -> None:
    async def play() -> None:
        runtime = empty.runtime
        await begin(empty, HUB)
        await runtime.db.fetch(LONGER, HUB.name)
        mitra_id = await create_online_mitra(empty, 60.5)
        now = await runtime.db.fetchval(
            "SELECT last_heartbeat_at FROM mitra_online_status WHERE mitra_id = $1", mitra_id
        )
        now += dt.timedelta(seconds=60.5)
        limits = AvailabilityPolicy(require_ping=True, stale_after_seconds=threshold, capacity=3)
        rows = await runtime.db.fetch(
            "SELECT mitra_id::text FROM free_mitras($1, $2, $3, $4)",
            now, limits.require_ping, limits.stale_after_seconds, limits.capacity,
        )  # fmt: skip
        assert (mitra_id in {row["mitra_id"] for row in rows}) == free
        async with runtime.transaction() as tx:
            found = await mitras.lock_stale(tx, stale_after_seconds=threshold, now=now, limit=500)
        assert (mitra_id in found) != free
        await presence.go_offline(runtime, mitra_id=mitra_id)

    empty.run(play())


async def silences(harness: Harness) -> dict[str, float]:
    """Return the seconds of silence that count for each mitra."""
    now = harness.runtime.now()
    rows = await harness.runtime.db.fetch("SELECT mitra_id::text, silent_since FROM mitra_silences($1)", now)
    found = {row["mitra_id"]: (now - row["silent_since"]).total_seconds() for row in rows}
    longest = await harness.runtime.db.fetchval("SELECT longest_silence_since($1)", now)
    assert (now - longest).total_seconds() == pytest.approx(max(found.values()))
    return found


async def steady(harness: Harness, *places: ProcessIdentity) -> None:
    """Create the leases of processes that have run for an hour."""
    for where in places:
        await begin(harness, where)
        await harness.runtime.db.fetch(LONGER, where.name)


# What happens to the processes, the seconds since the last heartbeat, and the seconds that count as silence.
DISTURBANCES = {
    "none": {20: 20, 1000: 1000},
    "one of two has just started": {20: 0, EXCUSE_S - 10: 0, EXCUSE_S + 100: 100},
    "one of two has just died": {20: 0, EXCUSE_S - 10: 0, EXCUSE_S + 100: 100},
    "the only one is late": {20: 0, EXCUSE_S - 10: 0, EXCUSE_S + 100: 100},
    "the only one restarted within the time of a break": {20: 0, EXCUSE_S - 10: 0, EXCUSE_S + 100: 100},
    "all were dead for longer": {20: 0, EXCUSE_S - 10: 0, EXCUSE_S + 100: 0},
    "all are dead": {20: 0, EXCUSE_S - 10: 0, EXCUSE_S + 100: 0},
}


@pytest.mark.parametrize("disturbance", DISTURBANCES)
def test_silence_is_excused_for_a_bounded_time_unless_no_process_served(empty: Harness, disturbance: str) -> None:
    async def play() -> None:
        harness = empty
        await steady(harness, HUB, API)
        match disturbance:
            case "one of two has just started":
                await begin(harness, HUB2)
            case "one of two has just died":
                await steady(harness, HUB2)
                await ago(harness, LEASE_S, HUB2)
            case "the only one is late":
                await store.renew(harness.runtime.db, HUB, steady=False)
            case "the only one restarted within the time of a break":
                await ago(harness, BREAK_S - 1, HUB)
                await begin(harness, HUB)
            case "all were dead for longer":
                await ago(harness, BREAK_S + 2, HUB)
                await begin(harness, HUB)
            case "all are dead":
                await ago(harness, LEASE_S, HUB)
        expected = {
            await create_online_mitra(harness, seconds): counts for seconds, counts in DISTURBANCES[disturbance].items()
        }
        found = await silences(harness)
        assert {mitra_id: found[mitra_id] for mitra_id in expected} == pytest.approx(expected, abs=2)

    empty.run(empty.runtime.db.fetch("UPDATE mitra_online_status SET is_online = false"))
    empty.run(play())


@pytest.mark.parametrize("places", [1, 20], ids=["at one place", "each at a new place"])
def test_restarting_process_keeps_a_silent_mitra_online_for_a_bounded_time(empty: Harness, places: int) -> None:
    async def play() -> None:
        await steady(empty, HUB, API)
        silent = await create_online_mitra(empty, 0)
        loop = [place(ProcessKind.REALTIME, n + 2) for n in range(places)]
        found = 0.0
        for n in range(20):  # every 30 s
            await begin(empty, loop[n % places])
            found = (await silences(empty))[silent]
            assert found <= max(5.0, 30 * n - EXCUSE_S + 5)
            await empty.runtime.db.fetch(
                "UPDATE mitra_online_status SET last_heartbeat_at = last_heartbeat_at - interval '30 seconds'"
            )
            await ago(empty, 30, *loop)
        assert found >= 30 * 19 - EXCUSE_S - 5

    empty.run(empty.runtime.db.fetch("UPDATE mitra_online_status SET is_online = false"))
    empty.run(play())


def test_sql_of_silence_uses_the_durations_of_the_leases(empty: Harness) -> None:
    async def play() -> None:
        assert pytest.approx(EXCUSE_S / 10) == BREAK_S
        for scale in (1, 60):
            now = await begin(empty, ProcessIdentity(name="hub", kind=ProcessKind.REALTIME, scale=scale))
            excuse = await empty.runtime.db.fetchval("SELECT longest_excuse($1)", now)
            assert excuse == dt.timedelta(seconds=EXCUSE_S * scale)
            await empty.empty("service_processes")

    empty.run(play())


class Lease:
    """The lease of a running realtime process."""

    def __init__(self, harness: Harness) -> None:
        self._runtime = harness.runtime
        self._lease = ProcessLease(harness.runtime, ProcessKind.REALTIME, host="127.0.0.1", port=1)

    async def __aenter__(self) -> "Lease":
        self._watcher = await asyncpg.connect(self._runtime.settings.database_url)
        self._life = asyncio.create_task(self._lease.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._life.cancel()
        await self._lease.end()
        await self._watcher.close()

    async def renewed(self, after: dt.datetime) -> tuple[dt.datetime, dt.datetime]:
        """Wait until the lease is renewed after a moment; return the start of its series and the renewal."""
        async with asyncio.timeout(20):
            while True:
                row = await self._watcher.fetchrow(
                    "SELECT since_at, alive_at FROM service_processes WHERE kind = 'realtime'"
                )
                if row is not None and row["alive_at"] > after:
                    return row["since_at"], row["alive_at"]
                await asyncio.sleep(0.05)

    async def steady(self) -> tuple[dt.datetime, dt.datetime]:
        """Wait until a series has two renewals; return its start and the last renewal."""
        since, alive = await self.renewed(self._runtime.now())
        while True:
            before = since
            since, alive = await self.renewed(alive)
            if since == before:
                return since, alive


@pytest.mark.slow
def test_silence_does_not_count_while_the_event_loop_of_a_process_is_late(empty: Harness) -> None:
    async def play() -> None:
        async with Lease(empty) as lease:
            await lease.steady()
            time.sleep(LATE_S + 1.2)  # noqa: ASYNC251 - the event loop is busy, as with thousands of handshakes
            late = empty.runtime.now()
            since, _ = await lease.renewed(late)
            assert since >= late - dt.timedelta(seconds=1)
            assert await recorded(empty) == []  # the lease was kept

    empty.run(play())


@pytest.mark.slow
def test_silence_does_not_count_while_a_process_refuses_clients(empty: Harness) -> None:
    async def play() -> None:
        async with Lease(empty) as lease:
            before, _ = await lease.steady()
            empty.runtime.note_overload()
            since, _ = await lease.renewed(empty.runtime.now())
            assert since > before
            await lease.steady()  # it accepts clients again
            assert await recorded(empty) == []

    empty.run(play())


@pytest.mark.slow
def test_lease_is_renewed_while_every_other_connection_is_busy(empty: Harness) -> None:
    async def play() -> None:
        pool = empty.runtime.db.pool
        async with Lease(empty) as lease, contextlib.AsyncExitStack() as busy:
            await lease.steady()
            for _ in range(pool.get_max_size()):
                await busy.enter_async_context(pool.acquire())
            held = empty.runtime.now()
            await lease.renewed(held + dt.timedelta(seconds=2 * LEASE_S))
            await busy.aclose()
            assert await recorded(empty) == []

    empty.run(play())


def test_lease_reconnects_after_a_lost_connection(empty: Harness) -> None:
    async def play() -> None:
        end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND application_name = 'sesi'"
        async with Lease(empty) as lease:
            await lease.steady()
            await empty.runtime.db.fetch(end)
            await lease.renewed(empty.runtime.now())
            assert await recorded(empty) == []

    empty.run(play())


def test_processes_of_one_port_on_other_addresses_or_networks_have_separate_leases(
    empty: Harness, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    """A process that is started again at the same place takes the lease over."""

    async def play() -> list[Any]:
        for host, network in (("127.0.0.1", "a"), ("127.0.0.2", "a"), ("127.0.0.1", "b"), ("127.0.0.1", "a")):
            (tmp_path / network).touch()
            monkeypatch.setattr(process_lease, "NETWORK", tmp_path / network)
            lease = ProcessLease(empty.runtime, ProcessKind.API, host=host, port=8000)
            life = asyncio.create_task(lease.run())
            async with asyncio.timeout(20):
                while await empty.runtime.db.fetchval(ALIVE, lease._process.name) is None:  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
            life.cancel()
        return await empty.runtime.db.fetch("SELECT place, pid FROM service_processes ORDER BY place")

    rows = empty.run(play())
    host = socket.gethostname()
    assert {row["pid"] for row in rows} == {os.getpid()}
    assert all(re.fullmatch(rf"api {host}/[0-9a-f]{{8}} 127\.0\.0\.[12]:8000", row["place"]) for row in rows)
    assert len(rows) == 3


def test_kind_that_has_not_started_yet_is_missed_only_after_a_while(
    empty: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_api = metrics.OUTAGE_OPEN.labels(OutageKind.API)._value

    async def play() -> None:
        async with Lease(empty) as lease:
            await lease.steady()
            await lease.steady()
            assert open_api.get() == 0
            lease._lease._began_at -= process_lease.START_S
            async with asyncio.timeout(20):
                while open_api.get() != 1:  # noqa: ASYNC110
                    await asyncio.sleep(0.02)

    monkeypatch.setattr(process_lease, "START_S", 3600.0)
    open_api.set(0)
    empty.run(play())
    open_api.set(0)


def test_purge_keeps_the_newest_row_of_each_kind(empty: Harness) -> None:
    async def play() -> None:
        for where in (HUB, HUB2, JOBS):
            await begin(empty, where)
        await ago(empty, 3 * 86400, HUB, JOBS)
        await ago(empty, 2 * 86400, HUB2)
        await begin(empty, HUB2)
        await ago(empty, 2 * 86400, HUB2)
        yesterday = empty.runtime.now() - dt.timedelta(days=1)
        for before, gone in (
            (yesterday, 1),
            (empty.runtime.now(), 1),
        ):  # the older realtime lease, then the outage between the two
            async with empty.runtime.transaction() as tx:
                assert await store.purge(tx, processes_before=yesterday, outages_before=before) == gone
        rows = await empty.runtime.db.fetch("SELECT place FROM service_processes ORDER BY place")
        assert [row["place"] for row in rows] == [JOBS.name, HUB2.name]

    empty.run(play())
