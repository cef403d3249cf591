"""The scheduled audits: when they are due, who runs them, what they store, and what happens if a process dies."""

import asyncio
import datetime as dt

import attrs
import pytest

from core.base import ids
from core.base.clock import real_sleep
from core.cluster.leases import store as leases
from core.desk.audits import accept, store
from core.desk.audits import run as ledger_audits
from core.desk.audits.rules import CLAIM_S, NIGHT_HOUR, RETRY_S, Depth, RuleResult, due_since, lease_of
from core.desk.audits.run import ClaimLost
from core.desk.ledger.audit import RulesTooSlow, results
from core.desk.ledger.audit import audit as full_audit
from core.desk.ledger.audit_rules import RULES, Rule, rules_of
from core.pairing import start as pairing_start
from core.runtime.container import Runtime
from jobs.ledger_audits import audit
from tests.flows.conftest import Harness
from tests.stack import EMAIL

SEQ, SEARCHING = "seq is 1 to n without gaps", "a searching session has a confirmed payment request"


async def claimed(runtime: Runtime, depth: Depth, *, length_s: float = CLAIM_S) -> bool:
    """Claim an audit for the runtime's node, however long ago it was finished."""
    await leases.ensure(runtime.db, lease_of(depth))
    soon = runtime.clock.real_now() + dt.timedelta(days=1)
    return await leases.claim_due(runtime.db, lease_of(depth), node=runtime.node, length_s=length_s, done_before=soon)


@pytest.fixture
def broken(clean_harness: Harness) -> Harness:
    """Yield a database with a searching session that breaks two rules, a cheap one and another, and no results."""

    async def break_rules() -> None:
        request_id = await clean_harness.paid(await clean_harness.customer())
        await pairing_start.start(clean_harness.runtime, payment_request_id=request_id)
        async with clean_harness.runtime.db.pool.acquire() as connection, connection.transaction():
            await connection.execute("SET LOCAL session_replication_role = replica")
            await connection.execute("DELETE FROM ledger_audit_results; DELETE FROM cluster_leases")
            await connection.execute("UPDATE chat_sessions SET last_seq = 3")
            await connection.execute("UPDATE payment_requests SET status = 'failed_pairing'")

    clean_harness.run(break_rules())
    return clean_harness


def found(harness: Harness) -> dict[str, int]:
    """Return the stored violations of each rule that has some."""
    stored = harness.run(store.violations(harness.runtime.db))
    return {rule: count for rule, count in stored.items() if count}


def test_cheap_audit_stores_the_rules_about_open_work_only(broken: Harness) -> None:
    runtime = broken.runtime
    assert broken.run(claimed(runtime, Depth.CHEAP))
    broken.run(audit(runtime, Depth.CHEAP))
    stored = broken.run(store.violations(runtime.db))
    assert set(stored) == {rule.name for rule in rules_of(Depth.CHEAP)}
    assert found(broken) == {SEARCHING: 1}


def test_cheap_audit_stores_quick_results_together(broken: Harness) -> None:
    """Each commit is a write to disk, and a cheap audit runs every minute."""
    runtime = broken.runtime

    async def play() -> int:
        count = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
        assert await claimed(runtime, Depth.CHEAP)
        before = await runtime.db.fetchval(count)
        await audit(runtime, Depth.CHEAP)
        return await runtime.db.fetchval(count) - before

    writes, rules = broken.run(play()), len(rules_of(Depth.CHEAP))
    assert len(broken.run(store.violations(runtime.db))) == rules
    assert writes < rules / 2, writes


def test_full_audit_stores_every_rule_and_forgets_removed_ones(broken: Harness) -> None:
    runtime = broken.runtime

    async def keep_a_removed_rule() -> None:
        async with runtime.transaction() as tx:
            removed = RuleResult(rule="a rule of an old version", violations=2, first_ids=["x"])
            await store.keep(tx, [removed], depth=Depth.FULL)

    broken.run(keep_a_removed_rule())
    assert broken.run(claimed(runtime, Depth.FULL))
    broken.run(audit(runtime, Depth.FULL))
    assert set(broken.run(store.violations(runtime.db))) == {rule.name for rule in RULES}
    assert found(broken).keys() >= {SEARCHING, SEQ}
    assert lease_of(Depth.FULL) in broken.run(leases.finished(runtime.db, [lease_of(Depth.FULL)]))


def test_result_keeps_when_the_rule_was_first_broken(broken: Harness) -> None:
    runtime = broken.runtime

    async def run() -> dict[str, store.BrokenRule]:
        assert await claimed(runtime, Depth.CHEAP)
        await audit(runtime, Depth.CHEAP)
        return {one.rule: one for one in await store.broken(runtime.db)}

    async def repair(status: str) -> None:
        async with runtime.db.pool.acquire() as connection, connection.transaction():
            await connection.execute("SET LOCAL session_replication_role = replica")
            await connection.execute("UPDATE payment_requests SET status = $1", status)

    first = broken.run(run())[SEARCHING]
    (session_id,) = broken.run(runtime.db.fetch("SELECT id::text FROM chat_sessions"))[0]
    assert (first.violations, first.first_ids, first.since_at) == (1, [session_id], first.checked_at)
    again = broken.run(run())[SEARCHING]
    assert (again.since_at, again.checked_at > first.checked_at) == (first.since_at, True)
    broken.run(repair("confirmed"))
    assert broken.run(run()) == {}
    broken.run(repair("failed_pairing"))
    assert broken.run(run())[SEARCHING].since_at > again.checked_at


def test_broken_rule_of_the_full_audit_is_checked_again_after_an_hour(broken: Harness) -> None:
    runtime = broken.runtime

    async def run(depth: Depth) -> set[str]:
        assert await claimed(runtime, depth)
        await audit(runtime, depth)
        return {one.rule for one in await store.broken(runtime.db)}

    assert SEQ in broken.run(run(Depth.FULL))
    broken.run(runtime.db.fetch("UPDATE chat_sessions SET last_seq = 0"))
    assert SEQ in broken.run(run(Depth.CHEAP))
    broken.run(runtime.db.fetch("UPDATE ledger_audit_results SET checked_at = checked_at - interval '61 minutes'"))
    assert SEQ not in broken.run(run(Depth.CHEAP))


def test_accepted_violation_is_not_counted_by_the_next_audit(broken: Harness) -> None:
    runtime = broken.runtime

    async def run() -> None:
        assert await claimed(runtime, Depth.CHEAP)
        await audit(runtime, Depth.CHEAP)

    broken.run(run())
    assert found(broken) == {SEARCHING: 1}
    operator_id = broken.run(runtime.db.fetchval("SELECT id::text FROM control_center_users LIMIT 1"))
    kept = broken.run(
        accept.accept(runtime, rule_name=SEARCHING, object_ids=None, reason="a test", operator_id=operator_id)
    )
    assert kept == 1
    broken.run(run())
    assert found(broken) == {}
    (explained,) = [one for one in broken.run(full_audit(runtime)).accepted if one.rule == SEARCHING]
    assert (explained.reason, explained.operator) == ("a test", EMAIL)
    assert SEARCHING not in {one.rule for one in broken.run(full_audit(runtime)).violations}
    broken.run(runtime.db.fetch("DELETE FROM accepted_violations"))


def test_audit_of_a_process_that_died_is_run_by_another_when_the_claim_ends(broken: Harness) -> None:
    """The first process stops after some results. The other finishes; the first can store nothing more."""
    first = broken.runtime
    second = attrs.evolve(first, node=ids.new_id())

    async def play() -> None:
        assert await claimed(first, Depth.FULL)
        assert not await claimed(second, Depth.FULL)
        stored = 0
        async for result in results(first, rules_of(Depth.FULL)):
            async with first.transaction() as tx:
                await store.keep(tx, [result], depth=Depth.FULL)
            stored += 1
            if stored == 3:
                break  # the process dies
        assert len(await store.violations(first.db)) == 3
        await first.db.fetch("UPDATE cluster_leases SET until_real_at = now()")  # time passes
        assert await claimed(second, Depth.FULL)
        with pytest.raises(ClaimLost):
            await audit(first, Depth.FULL)  # it was only frozen, and goes on
        assert len(await store.violations(first.db)) == 3
        await audit(second, Depth.FULL)
        assert len(await store.violations(first.db)) == len(RULES)

    broken.run(play())


def test_rule_that_takes_too_long_is_named_after_all_others_were_checked(broken: Harness) -> None:
    slow = Rule(name="slow", proves="I1", is_cheap=True, sql="SELECT 'x'::text, pg_sleep(600)::text", arguments=None)
    # A process that has only prepared the statement would ignore the cancellation.
    sleeping = "FROM pg_stat_activity WHERE query LIKE '%pg_sleep(600)%' AND wait_event = 'PgSleep'"

    async def cancel() -> None:
        async with asyncio.timeout(30):
            while not await broken.runtime.db.fetchval(f"SELECT count(*) {sleeping}"):
                await real_sleep(0.01)
        await broken.runtime.db.fetchval(f"SELECT pg_cancel_backend(pid) {sleeping}")

    async def check(checked: list[str]) -> None:
        async for result in results(broken.runtime, [slow, *rules_of(Depth.CHEAP)]):
            checked.append(result.rule)

    async def play() -> None:
        checked: list[str] = []
        canceling = asyncio.create_task(cancel())
        with pytest.raises(RulesTooSlow, match=r"^slow$"):
            await check(checked)
        assert checked == [rule.name for rule in rules_of(Depth.CHEAP)]
        await canceling

    broken.run(play())


@pytest.mark.parametrize("depth", Depth)
def test_failed_audit_is_not_repeated_at_once(broken: Harness, depth: Depth) -> None:
    async def play() -> None:
        runtime = broken.runtime
        assert await claimed(runtime, depth)
        await ledger_audits.postpone(runtime, depth)
        ends_in = (
            "SELECT extract(epoch FROM until_real_at - clock_timestamp())::float FROM cluster_leases WHERE name = $1"
        )
        assert RETRY_S[depth] - 10 < await runtime.db.fetchval(ends_in, lease_of(depth)) <= RETRY_S[depth]
        assert not await claimed(runtime, depth)

    broken.run(play())


def test_claim_is_free_only_when_due_and_not_held(broken: Harness) -> None:
    runtime, lease = broken.runtime, lease_of(Depth.CHEAP)
    other = ids.new_id()

    async def play() -> None:
        real_now = runtime.clock.real_now()
        await leases.ensure(runtime.db, lease)
        # A minute is more than the clocks of the process and of the database differ.
        claim = {"length_s": 60.0, "done_before": real_now - dt.timedelta(minutes=1)}
        assert await leases.claim_due(runtime.db, lease, node=runtime.node, **claim)
        assert not await leases.claim_due(runtime.db, lease, node=other, **claim)
        assert not await leases.renew(runtime.db, lease, node=other, length_s=60)
        assert not await leases.finish(runtime.db, lease, node=other)
        assert await leases.finish(runtime.db, lease, node=runtime.node)
        assert not await leases.claim_due(runtime.db, lease, node=other, **claim)  # it is not due
        later = {**claim, "done_before": real_now + dt.timedelta(hours=1)}
        assert await leases.claim_due(runtime.db, lease, node=other, **later)
        await leases.release(runtime.db, [lease], node=runtime.node)  # not its own
        assert await leases.renew(runtime.db, lease, node=other, length_s=60)
        await leases.release(runtime.db, [lease], node=other)
        assert not await leases.renew(runtime.db, lease, node=other, length_s=60)

    broken.run(play())


@pytest.mark.parametrize(
    ("now", "since"),
    [
        ("2026-11-25T19:59:59", "2026-11-24T20:00:00"),
        ("2026-11-25T20:00:00", "2026-11-25T20:00:00"),
        ("2026-11-26T03:00:00", "2026-11-25T20:00:00"),
    ],
)
def test_full_audit_is_due_once_a_night(now: str, since: str) -> None:
    at, expected = (dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC) for text in (now, since))
    assert NIGHT_HOUR == 20
    assert due_since(Depth.FULL, at) == expected
    assert due_since(Depth.CHEAP, at) == at - dt.timedelta(minutes=1)
