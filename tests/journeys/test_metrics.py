"""The metrics of a service say what has happened in it: figures of the cluster and counters of the processes."""

import asyncio
import importlib.metadata
import json
import platform
import time
from collections.abc import Iterator
from typing import Any

import pytest

from core.desk.audits.rules import Depth
from core.desk.ledger.audit_rules import RULES
from core.pairing.rules import WHEN_CANCELLED
from tests.audits import make_due
from tests.forked import CONSTANTS
from tests.http.extensions.steps import create_extension_payment
from tests.scrape import Samples, scrape
from tests.sockets.plain_socket import end_early
from tests.stack import Stack, World, refused

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
SEQ, SEARCHING = "seq is 1 to n without gaps", "a searching session has a confirmed payment request"
KINDS = ("INTERNAL", "REALTIME", "JOBS")
OFTEN = {
    "jobs.cluster_metrics.READ_EVERY_S": 0.5,
    "jobs.cluster_metrics.RENEW_EVERY_S": 0.5,
    "jobs.cluster_metrics.LEASE_S": 7.0,  # a killed process leaves its lease behind
    "jobs.ledger_audits.BEGIN_AFTER_S": 0.5,
    "jobs.ledger_audits.LOOK_EVERY_S": 0.5,
}


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """Run a separate service, because all that happens in it is counted. Its replica is the primary, which is current.

    It looks for audits and reads the figures of the cluster more often than a service does.
    """
    made = Stack(only_database=True, **{CONSTANTS: json.dumps(OFTEN)})
    made.env["DATABASE_READ_URL"] = made.database_url
    made.start_all()
    yield made
    made.close()


async def cluster(stack: Stack) -> Samples:
    """Return the metrics of the jobs process."""
    return await asyncio.to_thread(scrape, stack.ports["JOBS"])


async def total(stack: Stack, name: str, *labels: str) -> float:
    """Return the sum of a counter over all processes, for values of labels in the order of the labels' names."""
    found = [await asyncio.to_thread(scrape, stack.ports[kind]) for kind in KINDS]
    return sum(samples.get(name, {}).get(labels, 0.0) for samples in found)


async def shows(world: World, **wanted: dict[tuple[str, ...], float]) -> Samples:
    """Wait until the cluster's metrics have these samples among others; return all."""

    async def look() -> Samples:
        seen = await cluster(world.stack)
        return {name: {labels: seen.get(name, {}).get(labels, -1) for labels in wanted[name]} for name in wanted}

    await world.until(look, lambda seen: seen == wanted, timeout=40)
    return await cluster(world.stack)


async def broken(stack: Stack, statement: str, *args: Any) -> None:
    """Change rows as only a defect could: without triggers."""
    async with stack.transaction() as connection:
        await connection.execute("SET LOCAL session_replication_role = replica")
        await connection.execute(statement, *args)


async def test_figures_of_the_cluster_equal_the_database(world: World, stack: Stack) -> None:
    empty = await shows(world, sesi_sessions={("searching",): 0}, sesi_failures_oldest_seconds={(): 0})
    assert set(empty["sesi_failures_open"].values()) == {0}
    assert empty["sesi_audit_violations"].keys() == {(rule.name,) for rule in RULES}
    busy, free = await world.mitra("Ayu"), await world.mitra("Bima", online=False)
    await world.mitra("Citra", online=False)
    chatting, ending, leaving, searching, asking, paying = [await world.customer() for _ in range(6)]
    past = {"customer_id": asking.user["id"], "mitra_id": free.user["id"]}
    await (await world.operator()).post("/internal/_test/seed-history-session", past)
    await world.session(chatting, busy)
    closing = await world.session(ending, busy)
    await end_early(world, ending, closing)
    left = await world.paid(leaving)
    await leaving.post("/api/client/chat/cancel", {"payment_request_id": left["payment_request_id"]})
    await busy.post("/api/mitra/status/offline")
    await world.paid(searching)
    await free.post("/api/mitra/status/online")
    async with world.setting(returning_chat_confirmation_timeout_seconds=60):
        await world.paid(asking, targeted_mitra_id=free.user["id"])
    await world.request(paying)
    async with world.setting(max_customers_per_mitra=1):
        await busy.post("/api/mitra/status/online")
        seen = await shows(
            world,
            sesi_mitras={("offline",): 1, ("available",): 1, ("full",): 1, ("unavailable",): 0},
            sesi_searches={("blast",): 1, ("targeted",): 1},
            sesi_sessions={("searching",): 2, ("active",): 1, ("expired",): 0, ("closing",): 1},
            sesi_payment_requests={("pending",): 1, ("confirmed",): 2},
        )
    (failure,) = await stack.sql(
        """SELECT cause_tag, amount, extract(EPOCH FROM now() - created_at)::float AS age FROM pairing_failures
           WHERE cause_tag = 'customer_cancelled'"""
    )
    assert seen["sesi_failures_open"][failure["cause_tag"],] == 1
    assert seen["sesi_failures_open_amount"][failure["cause_tag"],] == failure["amount"] == 12_000
    assert 0 < seen["sesi_failures_oldest_seconds"][()] <= failure["age"]
    await shows(world, sesi_overdue_work=dict.fromkeys(seen["sesi_overdue_work"], 0))  # a wave may be due at times
    assert "sesi_standby_lag_seconds" in seen
    assert seen["sesi_standby_lag_seconds"] == {}
    assert seen["sesi_log_unarchived_seconds"] == {(): 0}
    operator = await world.operator()
    items = (await operator.get("/internal/failed-pairings"))["items"]
    (row,) = [one for one in items if one["cause_tag"] == failure["cause_tag"]]
    await operator.call("PATCH", f"/internal/failed-pairings/{row['id']}", {"operator_action": "refunded"})
    await shows(world, sesi_failures_open={(failure["cause_tag"],): 0})


async def test_overdue_work_is_shown_with_the_age_of_the_oldest(world: World, stack: Stack) -> None:
    """The service does due work at once, so the work is made due under a lock that it skips."""
    mitra, customer = await world.mitra(), await world.customer()
    session_id = await world.session(customer, mitra)
    await stack.sql(
        """UPDATE chat_sessions SET warn_at = NULL, expires_at = now() + interval '1 s',
             paired_at = now() + interval '1 s' - interval '12 minutes' WHERE id = $1""",
        session_id,
    )
    async with stack.transaction() as connection:
        await connection.execute("SELECT FROM chat_sessions WHERE id = $1 FOR UPDATE", session_id)
        seen = await shows(world, sesi_overdue_work={("session expiry",): 1})
        assert 0 < seen["sesi_overdue_oldest_seconds"]["session expiry",] < 60
    await shows(world, sesi_overdue_work={("session expiry",): 0})


async def test_counters_rise_with_what_happens(world: World, stack: Stack) -> None:
    session, extension = "session", "extension"
    names = [
        ("sesi_payments_total", session, "requested"),
        ("sesi_payments_total", session, "confirmed"),
        ("sesi_payments_total", session, "consumed"),
        ("sesi_payments_total", session, "failed"),
        ("sesi_payments_total", session, "abandoned"),
        ("sesi_payments_total", extension, "requested"),
        ("sesi_payments_total", extension, "abandoned"),
        ("sesi_sessions_ended_total", "customer", "completed"),
        ("sesi_sessions_ended_total", WHEN_CANCELLED.value, "cancelled"),
        ("sesi_otp_requested_total", "mitra"),
        ("sesi_otp_verified_total", "verified", "mitra"),
        ("sesi_otp_verified_total", "OTP_INVALID", "mitra"),
        ("sesi_webhook_calls_total", "confirmed"),
        ("sesi_webhook_calls_total", "unauthorized"),
        ("sesi_payment_to_accept_seconds_count",),
        ("sesi_provider_seconds_count", "send", "otp"),
    ]
    before = [await total(stack, *name) for name in names]
    mitra, customer, other = await world.mitra(), await world.customer(), await world.customer()
    stranger = world.client()
    asked = await stranger.post("/api/mitra/auth/otp/request", {"phone": await world.mitra_account("Dian")})
    await refused(
        stranger.post("/api/mitra/auth/otp/verify", {"otp_request_id": asked["otp_request_id"], "code": "000000"}),
        400,
        "OTP_INVALID",
    )
    session_id = await world.session(customer, mitra)
    assert (await create_extension_payment(customer, session_id))["status"] == "pending"
    await end_early(world, customer, session_id)
    for party in (customer, mitra):
        await party.post(f"/api/shared/chat/sessions/{session_id}/closure", {"message": "sampai jumpa"})
    left = await world.paid(other)
    await other.post("/api/client/chat/cancel", {"payment_request_id": left["payment_request_id"]})
    given_up = await world.request(other)
    await world.webhook(given_up, token="wrong")
    await other.post("/api/client/chat/cancel", {"payment_request_id": given_up["payment_request_id"]})
    rises = dict.fromkeys(names, 1.0) | {
        ("sesi_payments_total", session, "requested"): 3.0,
        ("sesi_payments_total", session, "confirmed"): 2.0,
        ("sesi_otp_requested_total", "mitra"): 2.0,
        ("sesi_provider_seconds_count", "send", "otp"): 2.0,
        ("sesi_webhook_calls_total", "confirmed"): 2.0,
    }

    async def risen() -> dict[tuple[str, ...], float]:
        after = [await total(stack, *name) for name in names]
        return {name: new - old for name, new, old in zip(names, after, before, strict=True)}

    await world.until(risen, lambda seen: seen == rises)


async def test_pools_and_event_loops_are_measured_in_every_process(world: World, stack: Stack) -> None:
    of_all = {"write", "lease", "read", "positions"}
    for kind, pools in (("INTERNAL", of_all), ("REALTIME", of_all | {"messages"}), ("JOBS", of_all)):
        seen = await world.until(
            lambda kind=kind: asyncio.to_thread(scrape, stack.ports[kind]),
            lambda seen: seen["sesi_database_pool_connections"]["write", "idle"] > 0,  # at times all are busy
        )
        assert {name for (name,) in seen["sesi_database_pool_size"]} == pools
        assert {pool for pool, _ in seen["sesi_database_pool_connections"]} == pools
        assert seen["sesi_database_pool_wait_seconds_count"]["lease",] > 0
        assert seen["sesi_event_loop_lag_seconds_count"][()] > 0


async def test_every_process_shows_its_use_of_the_machine_and_its_version(stack: Stack) -> None:
    for kind in KINDS:
        seen = await asyncio.to_thread(scrape, stack.ports[kind])
        assert 30e6 < seen["process_resident_memory_bytes"][()] < 500e6
        assert seen["process_cpu_seconds_total"][()] > 0
        assert 5 < seen["process_open_fds"][()] < seen["process_max_fds"][()]
        assert 0 < time.time() - seen["process_start_time_seconds"][()] < 600
        python, version = platform.python_version(), importlib.metadata.version("sesi")
        assert seen["sesi_build_info"] == {(python, version): 1}


@pytest.mark.slow
async def test_planted_violation_is_measured_survives_a_restart_and_ends_with_the_repair(
    world: World, stack: Stack
) -> None:
    customer = await world.customer()
    session_id = (await world.paid(customer))["session_id"]
    await shows(world, sesi_audit_violations={(SEARCHING,): 0})

    async def finished_at() -> float:
        """Return when the last full audit finished, in seconds; 0 if none has."""
        return (await cluster(stack))["sesi_audit_finished_timestamp_seconds"].get(("full",), 0.0)

    before = await world.until(finished_at, lambda at: at > 0, timeout=40)
    money = "UPDATE payment_requests SET status = $2 WHERE id = (SELECT payment_request_id FROM chat_sessions WHERE id = $1)"
    seq = "UPDATE chat_sessions SET last_seq = $2 WHERE id = $1"
    await broken(stack, money, session_id, "failed_pairing")
    await broken(stack, seq, session_id, 3)
    try:
        await make_due(world, Depth.CHEAP)
        await shows(world, sesi_audit_violations={(SEARCHING,): 1, (SEQ,): 0})
        await make_due(world, Depth.FULL)
        seen = await shows(world, sesi_audit_violations={(SEARCHING,): 1, (SEQ,): 1})
        # An audit that is killed keeps its claim for minutes.
        await world.until(finished_at, lambda at: at > before, timeout=40)
        assert seen["sesi_reports_total"]["replica",] > 0  # the audits read the replica
        stack.restart("jobs")
        await shows(world, sesi_audit_violations={(SEARCHING,): 1, (SEQ,): 1})
        operator = await world.operator()
        items = (await operator.get("/internal/ledger/broken-rules"))["items"]
        of_seq = next(one for one in items if one["rule"] == SEQ)
        assert (of_seq["violations"], of_seq["first_ids"]) == (1, [session_id])
        assert of_seq["since_at"] <= of_seq["checked_at"]
    finally:
        await broken(stack, money, session_id, "confirmed")
        await broken(stack, seq, session_id, 0)
    await make_due(world, Depth.FULL)
    await shows(world, sesi_audit_violations={(SEARCHING,): 0, (SEQ,): 0})
    assert (await operator.get("/internal/ledger/broken-rules"))["items"] == []
