"""Many searches among many mitras: the query for mitras to invite uses an index on both (docs/scale.md)."""

import datetime as dt
from collections.abc import AsyncIterator, Iterator

import asyncpg
import pytest

from core.accounts.mitras.rules import AvailabilityPolicy
from core.pairing import store as pairing
from core.pairing.rules import Waves
from core.storage.transaction import Tx
from tests import plans
from tests.stack import Stack

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
async def crowded(database: Stack) -> AsyncIterator[asyncpg.Connection]:
    """Yield a connection to the filled database."""
    connection = await asyncpg.connect(database.database_url)
    try:
        await connection.execute("SET session_replication_role = replica")  # the searches have no payments
        for sql, count in zip(CROWD, (SEARCHES, MITRAS, MITRAS, MITRAS, SEARCHES, PAST, MITRAS), strict=True):
            await connection.execute(sql, count)
        await connection.execute("ANALYZE")
        yield connection
    finally:
        await connection.execute("TRUNCATE customers, mitras CASCADE")
        await connection.close()


async def test_mitras_left_to_invite_are_found_by_session_and_mitra(crowded: asyncpg.Connection) -> None:
    now, limits = dt.datetime.now(dt.UTC), AvailabilityPolicy(require_ping=False, stale_after_seconds=60, capacity=3)
    waves = Waves(size=0, length=dt.timedelta())
    everybody = [str(row["id"]) for row in await crowded.fetch("SELECT id FROM mitras")]
    session = str(await crowded.fetchval("SELECT id FROM chat_sessions WHERE status = 'searching' LIMIT 1"))
    async with plans.explained(crowded) as seen:
        for only in (None, everybody[:1]):
            assert await pairing.inviting_sessions(crowded, limits, waves, now=now, only=only) == []
        assert not await pairing.anyone_eligible(crowded, session, limits, now=now)
        invited = await pairing.invite(Tx(crowded, lambda: now), session, limits, round_number=2, answer_by=now)
        assert invited.mitra_ids == []
        assert await pairing.last_response(crowded, session, everybody[0]) in ((True, None), (True, "REJECTED"))
    # The indexes of the only partition that has rows.
    first = await crowded.fetchval(f"SELECT DISTINCT tableoid::regclass::text FROM {REQUESTS}")
    indexes = {
        read.index.removeprefix(first) for plan in seen for read in plan.reads if read.partition == first and read.index
    }
    # by session and mitra: any other index reads all rows of the session or of the mitra for each pair
    assert indexes
    assert [name for name in indexes if not name.rstrip("0123456789").endswith("_session_id_mitra_id_idx")] == []
    assert max(plan.rows for plan in seen) <= 2 * SEARCHES * MITRAS
