"""Webhook calls are removed after their retention: by months, and singly without a valid token
(core/privacy/retention.py)."""

import asyncio
import datetime as dt

import asyncpg
import msgspec
import pytest

from core.base import ids
from core.base.errors import Unavailable
from core.base.id_ranges import month_of, months_after
from core.desk.ledger.audit import audit
from core.payments.webhooks import replay as webhook_replay
from core.payments.webhooks.store import REMOVED_AT_ONCE, Received
from core.privacy import partition_upkeep, retention
from core.runtime.container import Runtime
from core.storage import partitions
from tests.clock import HandClock
from tests.flows.conftest import Harness, rows

pytestmark = pytest.mark.slow

DAY = dt.timedelta(days=1)
ADD = """INSERT INTO webhook_logs (id, received_at, source_ip, token_valid, raw_body, http_status, processing_result)
  SELECT x.id, x.at, '127.0.0.1', $3, '', $4, $5 FROM unnest($1::uuid[], $2::timestamptz[]) AS x (id, at)"""
LEFT = "SELECT array_agg(id::text ORDER BY id) FROM webhook_logs"
NAMES = "SELECT array_agg(relname::text ORDER BY relname) FROM pg_class WHERE relname LIKE 'webhook_logs%' AND relkind IN ('r', 'p')"
REPLAYED = """INSERT INTO operator_audit_log (id, operator_id, action, object_type, object_id, after, created_at)
  SELECT $1, $1, 'webhook.replayed', 'webhook_log', $2::uuid::text, jsonb_build_object('webhook_log_id', $3::uuid), now()"""
DETACHING = "SELECT count(*) FROM pg_inherits WHERE inhdetachpending"
KEPT = """SELECT count(*) FROM pg_inherits
  WHERE inhparent IN ('chat_messages'::regclass, 'chat_request_notifications'::regclass)"""


async def add(runtime: Runtime, *moments: dt.datetime, token_valid: bool = True) -> list[str]:
    """Insert a call for each moment; return their ids."""
    made = [ids.id_of(at, b"%d" % n) for n, at in enumerate(moments)]
    result = (200, "duplicate") if token_valid else (401, "unauthorized")
    await runtime.db.fetch(ADD, made, list(moments), token_valid, *result)
    return made


async def first_of(runtime: Runtime) -> partitions.Partition:
    """Return the oldest partition of the calls."""
    return next(one for one in await partitions.partitions(runtime.db) if one.of == "webhook_logs")


@pytest.fixture
def later(empty_harness: Harness) -> Harness:
    """Return a harness whose clock stands at the 20th of a month, 15 months from now."""
    runtime = empty_harness.runtime
    runtime.clock = HandClock(months_after(month_of(runtime.now()), 15) + 19 * DAY)
    empty_harness.run(partition_upkeep.make_ahead(runtime))
    return empty_harness


def test_month_is_removed_when_all_of_it_is_past_the_retention(later: Harness) -> None:
    runtime = later.runtime
    present = month_of(runtime.now())
    moments = [months_after(present, -n) + dt.timedelta(hours=1) for n in range(12)]

    async def play() -> None:
        calls = await add(runtime, *moments)
        with rows(runtime, retention_webhook_days=0):
            await retention.remove_webhook_months(runtime)
        assert len(await runtime.db.fetchval(LEFT)) == 12
        with rows(runtime, retention_webhook_days=100):
            await retention.remove_webhook_months(runtime)
        ended = month_of(runtime.now() - 100 * DAY)  # in the middle of it the retention ends
        kept = sorted(call for call, at in zip(calls, moments, strict=True) if at >= ended)
        assert len(kept) in (4, 5)
        assert await runtime.db.fetchval(LEFT) == kept
        names = await runtime.db.fetchval(NAMES)
        assert f"webhook_logs_{ended:%Y_%m}" in names
        assert f"webhook_logs_{months_after(ended, -1):%Y_%m}" not in names
        assert not any("before" in name for name in names)
        assert await partition_upkeep.make_ahead(runtime) == []

    later.run(play())


def test_months_of_messages_and_invitations_are_never_removed(later: Harness) -> None:
    runtime = later.runtime

    async def play() -> None:
        before = await runtime.db.fetchval(KEPT)
        with rows(runtime, retention_webhook_days=1, retention_invalid_webhook_days=1):
            await retention.remove_webhook_months(runtime)
            await retention.remove_unproven_calls(runtime)
        assert await runtime.db.fetchval(KEPT) == before

    later.run(play())


def test_interrupted_removal_is_finished_by_the_next(later: Harness) -> None:
    """A concurrent detachment that waits for a reader is cancelled, as by the statement's timeout."""
    runtime = later.runtime

    async def play() -> None:
        first = await first_of(runtime)
        async with runtime.db.pool.acquire() as reader, reader.transaction(isolation="repeatable_read"):
            await reader.fetchval("SELECT count(*) FROM webhook_logs")
            async with runtime.db.pool.acquire() as connection:
                pid = await connection.fetchval("SELECT pg_backend_pid()")
                detaching = asyncio.create_task(partitions.detach(connection, first, concurrently=True))
                await later.until(DETACHING, 1)
                await runtime.db.fetchval("SELECT pg_cancel_backend($1)", pid)
                with pytest.raises(asyncpg.QueryCanceledError):
                    await detaching
            assert await runtime.db.fetchval(DETACHING) == 1
            assert await runtime.db.fetchval("SELECT count(*) FROM webhook_logs") == 0
        with rows(runtime, retention_webhook_days=0):
            await retention.remove_webhook_months(runtime)
        assert await runtime.db.fetchval(DETACHING) == 0
        assert first.name not in await runtime.db.fetchval(NAMES)

    later.run(play())


def test_detached_month_of_a_process_that_died_is_dropped_by_the_next(later: Harness) -> None:
    runtime = later.runtime

    async def play() -> None:
        first = await first_of(runtime)
        async with runtime.db.connection() as connection:
            await partitions.detach(connection, first, concurrently=True)
        assert first.name in await runtime.db.fetchval(NAMES)
        await retention.remove_webhook_months(runtime)
        assert first.name not in await runtime.db.fetchval(NAMES)

    later.run(play())


@pytest.mark.slow
def test_removal_waits_for_the_next_sweep_while_a_statement_reads_the_month(later: Harness) -> None:
    runtime = later.runtime

    async def play() -> None:
        first = await first_of(runtime)
        async with runtime.db.pool.acquire() as reader, reader.transaction(isolation="repeatable_read"):
            await reader.fetchval("SELECT count(*) FROM webhook_logs")
            with rows(runtime, retention_webhook_days=30):
                await retention.remove_webhook_months(runtime)
            assert await reader.fetchval("SELECT count(*) FROM webhook_logs") == 0
            assert first.name in await runtime.db.fetchval(NAMES)
        with rows(runtime, retention_webhook_days=30):
            await retention.remove_webhook_months(runtime)
        assert first.name not in await runtime.db.fetchval(NAMES)

    later.run(play())


def test_calls_are_stored_while_months_are_removed(later: Harness) -> None:
    runtime = later.runtime
    stored = list[str]()

    async def write(stop: asyncio.Event) -> None:
        while not stop.is_set():
            stored.extend(await add(runtime, runtime.now() + len(stored) * dt.timedelta(milliseconds=1)))

    async def play() -> None:
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(write(stop))
            with rows(runtime, retention_webhook_days=30):
                await retention.remove_webhook_months(runtime)
            stop.set()
        assert stored
        assert await runtime.db.fetchval(LEFT) == sorted(stored)

    later.run(play())


def test_calls_without_a_valid_token_are_deleted_after_their_shorter_retention(later: Harness) -> None:
    runtime = later.runtime
    now, minute, second = runtime.now(), dt.timedelta(minutes=1), dt.timedelta(seconds=1)
    many = [now - 8 * DAY - n * minute for n in range(2 * REMOVED_AT_ONCE + 1)]

    async def play() -> None:
        genuine = await add(runtime, now - 300 * DAY, now - 8 * DAY + second)
        await add(runtime, *many, now - 7 * DAY - second, token_valid=False)
        recent = await add(runtime, now - 7 * DAY + second, now, token_valid=False)
        with rows(runtime, retention_invalid_webhook_days=0):
            await retention.remove_unproven_calls(runtime)
        assert await runtime.db.fetchval("SELECT count(*) FROM webhook_logs") == len(many) + 5
        await retention.remove_unproven_calls(runtime)
        assert await runtime.db.fetchval(LEFT) == sorted(genuine + recent)

    later.run(play())


def test_call_without_a_result_is_deleted_with_those_without_a_token_unless_it_names_a_uuid(later: Harness) -> None:
    runtime = later.runtime
    old = runtime.now() - 8 * DAY
    named = [None, "order-17", ids.id_of(old, b"request"), ids.id_of(old, b"request").upper()]

    async def play() -> None:
        made = await add(runtime, *(old + n * dt.timedelta(seconds=1) for n in range(4)), token_valid=False)
        await runtime.db.fetch("UPDATE webhook_logs SET http_status = 500, processing_result = 'error'")
        for call, external_id in zip(made, named, strict=True):
            await runtime.db.fetch("UPDATE webhook_logs SET external_id = $2 WHERE id = $1", call, external_id)
        await retention.remove_unproven_calls(runtime)
        assert await runtime.db.fetchval(LEFT) == made[2:]

    later.run(play())


def test_audit_accepts_a_replay_whose_call_was_removed(later: Harness) -> None:
    runtime = later.runtime

    async def rules() -> set[str]:
        return {one.rule for one in (await audit(runtime)).violations}

    async def play() -> None:
        old, replay = await add(runtime, runtime.now() - 200 * DAY, runtime.now())
        await runtime.db.fetch("UPDATE webhook_logs SET replay_of = $1 WHERE id = $2", old, replay)
        async with runtime.db.pool.acquire() as connection, connection.transaction():
            await connection.execute("SET LOCAL session_replication_role = replica")  # the operator has no row
            await connection.execute(REPLAYED, ids.id_of(runtime.now(), b"audit"), old, replay)
        assert await rules() == set()
        with rows(runtime, retention_webhook_days=100):
            await retention.remove_webhook_months(runtime)
        assert await runtime.db.fetchval(LEFT) == [replay]
        assert await rules() == set()
        unknown = ids.id_of(runtime.now() - DAY, b"unknown")
        await runtime.db.fetch("UPDATE webhook_logs SET replay_of = $1 WHERE id = $2", unknown, replay)
        await add(runtime, runtime.now() - 99 * DAY)
        assert await rules() == {"a replayed call had a valid token, and its replay has one audit row"}

    later.run(play())


def test_call_past_its_retention_is_not_imported(later: Harness) -> None:
    runtime = later.runtime

    def line(at: dt.datetime) -> bytes:
        return msgspec.json.encode(
            Received(
                id=ids.id_of(at, b"call"), received_at=at, source_ip="127.0.0.1", headers={}, token_valid=True, external_id=None,
                gateway_invoice_id=None, status="PAID", amount=None, app_tag=None, raw_body=b"{}", truncated=False,
            )
        )  # fmt: skip

    async def play() -> None:
        with rows(runtime, retention_webhook_days=100):
            await retention.remove_webhook_months(runtime)
            with pytest.raises(ValueError, match="retention_webhook_days"):
                await webhook_replay.import_call(runtime, line(runtime.now() - 101 * DAY), trust_unsealed=True)
            kept = await webhook_replay.import_call(runtime, line(runtime.now() - 99 * DAY), trust_unsealed=True)
        assert kept is not None
        assert kept.http_status == 400
        async with runtime.db.pool.acquire() as other, other.transaction():
            await other.execute("LOCK TABLE operator_audit_log IN ACCESS EXCLUSIVE MODE")
            with pytest.raises(Unavailable):
                await webhook_replay.import_call(runtime, line(runtime.now() - 99 * DAY), trust_unsealed=True)

    later.run(play())
