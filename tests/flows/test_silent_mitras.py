"""Silent mitras are taken offline in batches, with the same effects as alone, whatever is locked, dies or fails."""

import asyncio
import collections
import datetime as dt
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import attrs
import pytest
from structlog.testing import capture_logs

from core.accounts.mitras import store as mitras
from core.accounts.mitras.rules import HeartbeatChannel, StatusReason
from core.base import ids
from core.base.actor import Actor
from core.pairing import presence
from core.pairing import start as pairing_start
from core.pairing.presence import AT_ONCE, INVITATIONS_AT_ONCE
from core.sessions import transitions
from core.storage.transaction import Tx
from tests.flows.conftest import WISH, Harness, rows
from tests.flows.steady_processes import begin_steady
from tests.stack import within

STALE_S = 45
CROWD = """WITH made AS (
  INSERT INTO mitras (id, phone, display_name, is_active)
  SELECT i, '+6282' || lpad(n::text, 9, '0'), 'Ayu', true FROM unnest($1::uuid[]) WITH ORDINALITY AS x (i, n)
), signed AS (
  INSERT INTO auth_sessions (id, user_type, user_id, refresh_token_hash, expires_at)
  SELECT i, 'mitra', i, i::text, now() + interval '30 days' FROM unnest($1::uuid[]) AS i
)
INSERT INTO mitra_online_status (id, mitra_id, is_online, last_online_at, last_heartbeat_at)
SELECT i, i, true, $2, $2 FROM unnest($1::uuid[]) AS i"""
SILENT = "UPDATE mitra_online_status SET last_heartbeat_at = $1, heartbeat_channel = 'rest' WHERE is_online"
ONLINE = "SELECT mitra_id::text FROM mitra_online_status WHERE is_online ORDER BY mitra_id"
OFFLINE_LOGS = "SELECT mitra_id::text FROM mitra_online_logs WHERE status = 'offline' ORDER BY mitra_id"
EVENTS = """SELECT recipient_id::text, event, session_id::text, payload::jsonb ->> 'reason' AS reason
  FROM deliveries WHERE event IN ('mitra_status_changed', 'chat_request_closed', 'pairing_status') ORDER BY id"""
INVITATIONS = """SELECT mitra_id::text, session_id::text, response, responded_at IS NOT NULL AS responded
  FROM chat_request_notifications"""
SESSIONS = """SELECT id::text, status, ended_at IS NOT NULL AS ended, wave_ends_at <= $1 AS wave_over FROM chat_sessions
  WHERE payment_request_id IS NOT NULL"""
PAYMENTS = "SELECT id::text, status FROM payment_requests"
LOGS = "SELECT mitra_id::text, status FROM mitra_online_logs ORDER BY timestamp, id"
TRAIL = "SELECT recipient_id::text, event, stage FROM delivery_trail ORDER BY recipient_id, event"
INVITE = """INSERT INTO chat_request_notifications
    (id, session_id, mitra_id, round_number, notified_at, answer_by, active_session_count)
  SELECT gen_random_uuid(), s.id, m.id, 1, now(), now() + interval '1 hour', 0 FROM chat_sessions AS s, mitras AS m"""
REFUSE = """CREATE FUNCTION refuse_a_log() RETURNS TRIGGER LANGUAGE plpgsql AS $$
    BEGIN
      IF NEW.status = 'offline' AND (SELECT display_name FROM mitras WHERE id = NEW.mitra_id) = 'Refused' THEN
        RAISE EXCEPTION 'refused by the test';
      END IF;
      RETURN NEW;
    END $$;
  CREATE TRIGGER refuse_a_log BEFORE INSERT ON mitra_online_logs FOR EACH ROW EXECUTE FUNCTION refuse_a_log()"""
ALLOW = "DROP TRIGGER refuse_a_log ON mitra_online_logs; DROP FUNCTION refuse_a_log()"


@pytest.fixture
def steady(clean_harness: Harness) -> Iterator[Harness]:
    """Yield an empty database whose processes could take heartbeats all day."""

    async def begin() -> None:
        await clean_harness.empty("delivery_trail")
        async with clean_harness.runtime.transaction() as tx:
            await begin_steady(tx)

    clean_harness.run(begin())
    yield clean_harness
    clean_harness.run(clean_harness.empty("service_processes", "outages"))


async def crowd(harness: Harness, count: int) -> list[str]:
    """Create online mitras; return their ids."""
    found = [ids.new_id() for _ in range(count)]
    await harness.runtime.db.fetch(CROWD, found, harness.runtime.now())
    return found


async def fall_silent(harness: Harness) -> None:
    """Let the last heartbeat of every online mitra be old enough."""
    await harness.runtime.db.fetch(SILENT, harness.runtime.now() - dt.timedelta(seconds=STALE_S + 1))


async def blast(harness: Harness) -> str:
    """Begin a search that asks the mitras who are online; return its session."""
    request_id = await harness.paid(await harness.customer())
    await pairing_start.start(harness.runtime, payment_request_id=request_id)
    return (await harness.session_of(request_id)).id


async def targeted(harness: Harness, mitra_id: str) -> str:
    """Begin a search for one mitra; return its session."""
    customer, before = await harness.customer(), harness.runtime.now() - dt.timedelta(days=1)
    async with harness.runtime.transaction() as tx:  # only a mitra of an earlier session may be chosen
        await transitions.create_completed(
            tx,
            ids.new_id(),
            customer_id=customer.user_id,
            mitra_id=mitra_id,
            began_at=before,
            ended_at=before,
            topics=None,
        )
    request_id = await harness.paid(customer, attrs.evolve(WISH, targeted_mitra_id=mitra_id))
    await pairing_start.start(harness.runtime, payment_request_id=request_id)
    return (await harness.session_of(request_id)).id


async def sweep(harness: Harness) -> None:
    """Sweep, without waiting for a lock."""
    async with asyncio.timeout(within(2)):
        await presence.sweep_stale(harness.runtime)


async def one_at_a_time(harness: Harness) -> None:
    """Take the silent mitras offline one after another, as for any other reason."""
    for row in await harness.runtime.db.fetch(ONLINE):
        async with harness.runtime.transaction() as tx:
            found = await mitras.lock_stale(
                tx, stale_after_seconds=STALE_S, now=tx.now, limit=1, only=[row["mitra_id"]]
            )
            for mitra_id in found:
                await presence.take_offline(tx, mitra_id, StatusReason.STALE)


async def online(harness: Harness) -> list[str]:
    return [row["mitra_id"] for row in await harness.runtime.db.fetch(ONLINE)]


async def check_each_once(harness: Harness, mitra_ids: list[str]) -> None:
    """Check that all of these mitras are offline, each with one row of the log and one event."""
    assert await online(harness) == []
    logged = [row["mitra_id"] for row in await harness.runtime.db.fetch(OFFLINE_LOGS)]
    assert logged == sorted(mitra_ids)
    told = collections.Counter(
        row["recipient_id"]
        for row in await harness.runtime.db.fetch(EVENTS)
        if (row["event"], row["reason"]) == ("mitra_status_changed", "stale")
    )
    assert told == dict.fromkeys(mitra_ids, 1)


async def play_scene(harness: Harness, take: Callable[[Harness], Awaitable[None]]) -> dict[str, Any]:
    """Let mitras in every situation fall silent, take them offline, and return everything written, without the ids.

    The situations: in a session, asked by no search, by one, by two, by one with waves, by one for them alone, with an
    unread event, offline, and with a heartbeat in time.
    """
    runtime, names = harness.runtime, dict[str, str]()

    def name(value: str | None) -> str | None:
        return names.get(value, value) if value is not None else None

    async def mitra(label: str) -> Actor:
        made = await harness.mitra()
        await presence.go_online(runtime, made)
        names[made.user_id] = label
        return made

    busy = await mitra("busy")
    names[await harness.start_session(await harness.customer(), busy)] = "session"
    with rows(runtime, max_customers_per_mitra=1):
        for number in range(3):
            await mitra(f"asked {number}")
        names[await blast(harness)] = "first blast"
        with rows(runtime, max_customers_per_mitra=1, blast_size=2, blast_wave_seconds=60):
            names[await blast(harness)] = "blast with waves"
        names[await targeted(harness, (await mitra("wanted")).user_id)] = "targeted"
    await mitra("free")
    awake, away = await mitra("awake"), await mitra("away")
    unread = await mitra("unread")
    async with runtime.transaction() as tx:
        await presence.take_offline(tx, unread.user_id, StatusReason.OPERATOR)
        await mitras.go_online(tx, unread.user_id)
    await presence.go_offline(runtime, mitra_id=away.user_id)
    await fall_silent(harness)
    await presence.heartbeat(runtime, awake, HeartbeatChannel.REST)
    await take(harness)
    db = runtime.db
    payments = {row["id"]: row["status"] for row in await db.fetch(PAYMENTS)}
    events = collections.defaultdict(list)
    for row in await db.fetch(EVENTS):
        events[name(row["recipient_id"])].append((row["event"], name(row["session_id"]), row["reason"]))
    customers = [events.pop(one) for one in list(events) if one not in names.values()]
    found = {
        "online": sorted(names[one] for one in await online(harness)),
        "events": dict(events),
        "customers' events": sorted(customers),
        "invitations": sorted(
            (names[row["session_id"]], names[row["mitra_id"]], str(row["response"]), row["responded"])
            for row in await db.fetch(INVITATIONS)
        ),
        "sessions": sorted(
            (names[row["id"]], row["status"], row["ended"], row["wave_over"])
            for row in await db.fetch(SESSIONS, runtime.now())
        ),
        "payments": sorted(payments.values()),
        "logs": sorted((names[row["mitra_id"]], row["status"]) for row in await db.fetch(LOGS)),
        "trail": [(name(row["recipient_id"]), row["event"], row["stage"]) for row in await db.fetch(TRAIL)],
    }
    await harness.clear()
    return found


def test_batch_writes_and_sends_what_mitras_get_who_are_taken_one_at_a_time(steady: Harness) -> None:
    async def play() -> None:
        alone = await play_scene(steady, one_at_a_time)
        await steady.empty("delivery_trail")
        together = await play_scene(steady, sweep)
        assert together == alone
        assert together["online"] == ["awake"]
        assert ("targeted", "failed", True, None) in together["sessions"]
        assert ("blast with waves", "searching", False, True) in together["sessions"]
        assert together["events"]["asked 0"][-3:] == [
            ("mitra_status_changed", None, "stale"),
            ("chat_request_closed", "first blast", "timeout"),
            ("chat_request_closed", "blast with waves", "timeout"),
        ]
        assert together["trail"] == [("unread", "mitra_status_changed", "given_up")]

    steady.run(play())


def test_two_jobs_processes_take_each_silent_mitra_once(steady: Harness) -> None:
    async def play() -> None:
        everyone = await crowd(steady, 2 * AT_ONCE + 50)
        await fall_silent(steady)
        await asyncio.gather(*(sweep(steady) for _ in range(3)))
        await sweep(steady)
        await check_each_once(steady, everyone)

    steady.run(play())


@pytest.mark.parametrize(
    "lock",
    [
        "SELECT 1 FROM mitras WHERE id = $1 FOR NO KEY UPDATE",
        "SELECT 1 FROM mitra_online_status WHERE mitra_id = $1 FOR NO KEY UPDATE",
        """SELECT 1 FROM chat_sessions AS s JOIN chat_request_notifications AS n ON n.session_id = s.id
           WHERE n.mitra_id = $1 FOR NO KEY UPDATE OF s""",
    ],
    ids=["mitra", "presence", "session"],
)
def test_locked_row_keeps_no_other_mitra_online(steady: Harness, lock: str) -> None:
    async def play() -> None:
        held = (await crowd(steady, 1))[0]
        await blast(steady)
        others = await crowd_of_others(steady, AT_ONCE + 1)
        await fall_silent(steady)
        async with steady.runtime.transaction() as tx:
            await tx.execute(lock, held)
            await sweep(steady)
            assert await online(steady) == [held]
        await sweep(steady)
        await check_each_once(steady, [held, *others])

    steady.run(play())


async def crowd_of_others(harness: Harness, count: int) -> list[str]:
    """Create online mitras without an invitation, because the searches have begun before."""
    found = [ids.new_id() for _ in range(count)]
    await harness.runtime.db.fetch(CROWD.replace("+6282", "+6283"), found, harness.runtime.now())
    return found


def test_more_locked_sessions_than_a_batch_keep_no_other_mitra_online(steady: Harness) -> None:
    async def play() -> None:
        held = await crowd(steady, AT_ONCE + 50)
        session_id = await blast(steady)
        others = await crowd_of_others(steady, 50)
        await fall_silent(steady)
        async with steady.runtime.transaction() as tx:
            await tx.execute("SELECT 1 FROM chat_sessions WHERE id = $1 FOR NO KEY UPDATE", session_id)
            await sweep(steady)
            assert await online(steady) == sorted(held)
        await sweep(steady)
        await check_each_once(steady, [*held, *others])

    steady.run(play())


def test_targeted_search_of_a_mitra_with_a_locked_session_goes_on(steady: Harness) -> None:
    async def play() -> None:
        wanted, other = await crowd(steady, 2)
        locked, free = await targeted(steady, wanted), await targeted(steady, wanted)
        await fall_silent(steady)
        async with steady.runtime.transaction() as tx:
            await tx.execute("SELECT 1 FROM chat_sessions WHERE id = $1 FOR NO KEY UPDATE", locked)
            await sweep(steady)
            assert await online(steady) == [wanted]
            found = await steady.runtime.db.fetch("SELECT status FROM chat_sessions WHERE id = $1", free)
            assert [row["status"] for row in found] == ["searching"]
        await sweep(steady)
        await check_each_once(steady, [wanted, other])
        found = await steady.runtime.db.fetch(SESSIONS, steady.runtime.now())
        assert [row["status"] for row in found] == ["failed"] * 2

    steady.run(play())


def test_batch_closes_a_bounded_number_of_invitations_and_the_next_one_goes_on(steady: Harness) -> None:
    async def play() -> None:
        everyone = await crowd(steady, 150)
        with rows(steady.runtime, blast_size=1, blast_wave_seconds=60):  # each search asks only one mitra
            for _ in range(10):
                await blast(steady)
        await steady.runtime.db.fetch("DELETE FROM chat_request_notifications")
        await steady.runtime.db.fetch(INVITE)
        await fall_silent(steady)
        async with steady.runtime.transaction() as tx:
            found = await mitras.lock_stale(tx, stale_after_seconds=STALE_S, now=tx.now, limit=AT_ONCE)
            left = await presence.take_silent_offline(tx, found, most_invitations=INVITATIONS_AT_ONCE)
            assert len(found) - len(left.postponed) == INVITATIONS_AT_ONCE / 10
        async with steady.runtime.transaction() as tx:  # more invitations than allowed, but of the first mitra
            left = await presence.take_silent_offline(tx, list(left.postponed), most_invitations=1)
            assert len(left.postponed) == len(everyone) - INVITATIONS_AT_ONCE / 10 - 1
        await sweep(steady)
        await check_each_once(steady, everyone)

    steady.run(play())


def test_mitra_whose_change_fails_keeps_no_other_mitra_online(steady: Harness) -> None:
    async def play() -> None:
        refused, *others = await crowd(steady, 4)
        await steady.runtime.db.fetch("UPDATE mitras SET display_name = 'Refused' WHERE id = $1", refused)
        await fall_silent(steady)
        async with steady.runtime.db.connection() as connection:
            await connection.execute(REFUSE)
        try:
            with capture_logs() as logged:
                await sweep(steady)
            assert await online(steady) == [refused]
            assert [sorted(line["mitra_ids"]) for line in logged] == [sorted([refused, *others]), [refused]]
        finally:
            async with steady.runtime.db.connection() as connection:
                await connection.execute(ALLOW)
        await sweep(steady)
        await check_each_once(steady, [refused, *others])

    steady.run(play())


def test_process_that_dies_at_a_statement_changes_nothing_and_the_next_one_goes_on(
    steady: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connection is lost before each statement in turn."""
    run: dict[str, Callable[..., Awaitable[Any]]] = {
        name: getattr(Tx, name) for name in ("fetch", "fetchval", "execute")
    }
    left = 0

    def dying(name: str) -> Callable[..., Awaitable[Any]]:
        async def call(tx: Tx, sql: str, *args: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                raise asyncio.CancelledError
            return await run[name](tx, sql, *args)

        return call

    async def play() -> None:
        nonlocal left
        everyone = await crowd(steady, 3)
        session_id = await blast(steady)
        await targeted(steady, everyone[0])
        await fall_silent(steady)
        before, dead_at = await steady.runtime.db.fetch(EVENTS), 0
        with monkeypatch.context() as patch:
            for name in run:
                patch.setattr(Tx, name, dying(name))
            while await online(steady) == sorted(everyone):  # until the batch of the others is committed
                left = dead_at
                dead_at += 1
                try:
                    await presence.sweep_stale(steady.runtime)
                except asyncio.CancelledError:
                    if await online(steady) == sorted(everyone):
                        assert await steady.runtime.db.fetch(EVENTS) == before
                        assert await steady.runtime.db.fetch(OFFLINE_LOGS) == []
        assert dead_at > 8
        assert await online(steady) == [everyone[0]]  # whose targeted search fails in another transaction
        async with asyncio.timeout(within(2)):
            while await online(steady):  # a sweep skips a row that the server has not rolled back yet
                await sweep(steady)
        await check_each_once(steady, everyone)
        found = await steady.runtime.db.fetch(INVITATIONS)
        assert sorted(row["response"] for row in found if row["session_id"] == session_id) == ["IGNORED"] * 3

    steady.run(play())


def test_heartbeat_during_the_sweep_keeps_its_mitra_online(steady: Harness) -> None:
    async def play() -> None:
        alive, silent = await crowd(steady, 2)
        await fall_silent(steady)
        async with steady.runtime.transaction() as tx:
            await mitras.heartbeat(tx, alive, HeartbeatChannel.REST)
            sweeping = asyncio.create_task(sweep(steady))
            await sweeping
        await sweep(steady)
        assert await online(steady) == [alive]
        assert [row["mitra_id"] for row in await steady.runtime.db.fetch(OFFLINE_LOGS)] == [silent]

    steady.run(play())
