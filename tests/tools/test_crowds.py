"""Many searches among many mitras: the query for mitras to invite uses an index on both (docs/scale.md)."""

import datetime as dt
from collections.abc import AsyncIterator, Iterator

import asyncpg
import pytest

from core.accounts.mitras.rules import AvailabilityPolicy
from core.pairing import store as pairing
from core.pairing.rules import Waves
from core.storage.transaction import Tx
from tests.stack import Stack
from tools.bench.plan_watch import PlanWatch
from tools.bench.plans import ONLY_WHERE_NEEDED

pytestmark = pytest.mark.anyio

REQUESTS = "chat_request_notifications"
SEARCHES, MITRAS, PAST = 20, 300, 3_000
# All mitras are online and were invited to every search; some rejected. Earlier searches invited few.
CROWD = (
    """INSERT INTO customers (id, display_name) SELECT gen_random_uuid(), 'Customer ' || n FROM generate_series(1, $1::int) n""",
    """INSERT INTO mitras (id, phone, display_name, is_active)
       SELECT gen_random_uuid(), '+62811' || n, 'Mitra ' || n, true FROM generate_series(1, $1::int) n""",
    """INSERT INTO mitra_online_status (id, mitra_id, is_online, last_online_at, last_heartbeat_at)
       SELECT gen_random_uuid(), id, true, now(), now() FROM mitras LIMIT $1::int""",
    """INSERT INTO auth_sessions (id, user_type, user_id, refresh_token_hash, expires_at)
       SELECT id, 'mitra', id, id::text, now() + interval '30 days' FROM mitras LIMIT $1::int""",
    """INSERT INTO chat_sessions (id, customer_id, status, round_number, round_ends_at, search_ends_at, duration_minutes)
       SELECT uuidv7(), id, 'searching', 1, now() + interval '1 hour', now() + interval '1 hour', 12 FROM customers LIMIT $1::int""",
    """INSERT INTO chat_sessions (id, customer_id, status, created_at, ended_at, duration_minutes)
       SELECT uuidv7(), (SELECT id FROM customers LIMIT 1), 'failed', now(), now(), 12 FROM generate_series(1, $1::int)""",
    """INSERT INTO chat_request_notifications (id, session_id, mitra_id, round_number, notified_at, answer_by, response, responded_at, active_session_count)
       SELECT gen_random_uuid(), s.id, m.id, 1, now(), now() + interval '1 hour', r.answer, r.at, 0
       FROM chat_sessions s CROSS JOIN (SELECT *, row_number() OVER () AS n FROM mitras LIMIT $1::int) m
       CROSS JOIN LATERAL (SELECT CASE WHEN s.status = 'failed' THEN 'MISSED' WHEN m.n % 7 = 0 THEN 'REJECTED' END AS answer,
         CASE WHEN s.status = 'failed' OR m.n % 7 = 0 THEN now() END AS at) r
       WHERE s.status = 'searching' OR m.n % 60 = 1""",
)


@pytest.fixture(scope="module")
def database() -> Iterator[Stack]:
    """Yield a database without any other connection."""
    made = Stack(only_database=True)
    yield made
    made.close()


@pytest.fixture
async def watch(database: Stack) -> AsyncIterator[PlanWatch]:
    """Yield a connection to the filled database whose plans are recorded."""
    connection = await asyncpg.connect(database.database_url)
    try:
        await connection.execute("SET session_replication_role = replica")  # the searches have no payments
        for sql, count in zip(CROWD, (SEARCHES, MITRAS, MITRAS, MITRAS, SEARCHES, PAST, MITRAS), strict=True):
            await connection.execute(sql, count)
        await connection.execute("ANALYZE")
        async with connection.transaction():
            await connection.execute(ONLY_WHERE_NEEDED)
            yield await PlanWatch.open(connection)
    finally:
        await connection.execute("TRUNCATE customers, mitras CASCADE")
        await connection.close()


async def test_mitras_left_to_invite_are_found_by_session_and_mitra(watch: PlanWatch) -> None:
    now, limits = dt.datetime.now(dt.UTC), AvailabilityPolicy(require_ping=False, stale_after_seconds=60, capacity=3)
    waves, connection = Waves(size=0, length=dt.timedelta()), watch.connection
    everybody = [str(row["id"]) for row in await connection.fetch("SELECT id FROM mitras")]
    session = str(await connection.fetchval("SELECT id FROM chat_sessions WHERE status = 'searching' LIMIT 1"))
    for only in (None, everybody[:1]):
        assert await pairing.inviting_sessions(watch, limits, waves, now=now, only=only) == []
    assert not await pairing.anyone_eligible(watch, session, limits, now=now)
    invited = await pairing.invite(Tx(watch, lambda: now), session, limits, round_number=2, answer_by=now)
    assert invited.mitra_ids == []
    assert await pairing.last_response(watch, session, everybody[0]) in ((True, None), (True, "REJECTED"))
    # The indexes of the only partition that has rows.
    first = await connection.fetchval(f"SELECT DISTINCT tableoid::regclass::text FROM {REQUESTS}")
    indexes = {
        index.removeprefix(first)
        for seen in watch.seen.values()
        for index in seen.nodes.split()
        if index.startswith(first)
    }
    # by session and mitra: any other index reads all rows of the session or of the mitra for each pair. The primary key
    # serves the count of a wave, which reads the rows of a session once.
    assert indexes == {"_asked", "_pkey"}
    assert len(watch.seen) == 4
    assert max(seen.read for seen in watch.seen.values()) <= 2 * SEARCHES * MITRAS
