"""The claim of an audit while it runs: a rule may take longer than the claim of a process that has died."""

import asyncio
import datetime as dt

import attrs
import pytest

from core.base import ids
from core.base.clock import real_sleep
from core.cluster.leases import store as leases
from core.desk.audits import run as ledger_audits
from core.desk.audits.rules import CLAIM_S, RENEW_EVERY_S, Depth, lease_of
from core.desk.audits.run import ClaimLost
from core.runtime.container import Runtime
from jobs.ledger_audits import audit
from tests.flows.conftest import Harness

LEASE = lease_of(Depth.FULL)


async def claim_at(runtime: Runtime) -> tuple[str, dt.datetime]:
    """Return who has the claim and when it ends."""
    (row,) = await runtime.db.fetch("SELECT holder::text, until_real_at FROM cluster_leases WHERE name = $1", LEASE)
    return row["holder"], row["until_real_at"]


async def claim(runtime: Runtime) -> None:
    await runtime.db.fetch("DELETE FROM cluster_leases")
    await ledger_audits.prepare(runtime, Depth.FULL)
    assert await ledger_audits.claim(runtime, Depth.FULL)


def test_claim_is_renewed_while_a_rule_takes_long(clean_harness: Harness) -> None:
    assert 3 * RENEW_EVERY_S < CLAIM_S
    runtime = clean_harness.runtime

    async def play() -> None:
        await claim(runtime)
        _, end = await claim_at(runtime)
        async with runtime.db.pool.acquire() as connection, connection.transaction():
            await connection.execute("LOCK TABLE chat_sessions IN ACCESS EXCLUSIVE MODE")
            running = asyncio.create_task(audit(runtime, Depth.FULL, renew_every_s=0.01))
            async with asyncio.timeout(30):
                while await claim_at(runtime) == (runtime.node, end):
                    assert not running.done()
                    await real_sleep(0.01)
        await running
        assert LEASE in await leases.finished(runtime.db, [LEASE])

    clean_harness.run(play())


def test_lost_claim_is_not_renewed(clean_harness: Harness) -> None:
    """A process that was frozen goes on while another one has the claim."""
    runtime = clean_harness.runtime
    other = attrs.evolve(runtime, node=ids.new_id())

    async def play() -> None:
        await claim(other)
        claimed = await claim_at(runtime)
        with pytest.raises(ClaimLost):
            await audit(runtime, Depth.FULL, renew_every_s=0.0)
        assert await claim_at(runtime) == claimed

    clean_harness.run(play())
