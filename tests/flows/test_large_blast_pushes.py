"""The pushes of a large blast are planned, claimed and settled by the hundred (docs/events.md)."""

import datetime as dt
from collections.abc import Iterator

import pytest

from core.base import ids
from core.providers.push_sender import DeadToken, Later, Outcome, PushRefused, Sent
from core.sessions import push_fallback
from core.telemetry.metrics import REGISTRY
from tests.flows.conftest import Harness

SIGNED_IN = """WITH m AS (
  INSERT INTO mitras (id, phone, display_name, is_active)
  SELECT gen_random_uuid(), '+6281' || lpad(n::text, 9, '0'), 'Ayu', true FROM generate_series(1, $1::int) AS n RETURNING id
)
INSERT INTO auth_sessions (id, user_type, user_id, refresh_token_hash, created_at, last_used_at, expires_at, push_token, push_token_at)
SELECT gen_random_uuid(), 'mitra', id, md5(id::text), now(), now(), now() + interval '1 day', 'token-' || id, now() FROM m"""
UNACKNOWLEDGED = """INSERT INTO deliveries (id, recipient_id, recipient_type, event, session_id, payload, created_at)
SELECT event_id, m.id, 'mitra', 'chat_request', gen_random_uuid(), $1, now() - interval '1 minute'
FROM unnest($2::uuid[]) WITH ORDINALITY AS e (event_id, n)
JOIN (SELECT id, row_number() OVER () AS n FROM mitras) AS m USING (n)"""
EARLIER = """INSERT INTO deliveries (id, recipient_id, recipient_type, event, session_id, payload, created_at)
SELECT gen_random_uuid(), $2, 'mitra', 'chat_request', gen_random_uuid(), $1, now() - interval '2 seconds'
FROM generate_series(1, $3::int)"""
LEFT = "SELECT id::text, due_real_at > now() + interval '30 s' AS is_later FROM pushes ORDER BY id"
TOKENS = "SELECT count(push_token)::int FROM auth_sessions WHERE user_type = 'mitra'"
# One for each transaction of this process. The server's transaction ids also count those of autovacuum.
CHECKOUTS = "sesi_database_pool_wait_seconds_count", {"pool": "write"}
REQUEST = '{"type": "chat_request", "request": {"answer_by": "2999-01-01T00:00:00Z"}}'


@pytest.fixture
def devices(clean_harness: Harness) -> Iterator[Harness]:
    """Yield a service without devices, and leave none behind."""
    empty = "WITH p AS (DELETE FROM pushes) DELETE FROM auth_sessions"
    clean_harness.run(clean_harness.runtime.db.fetch(empty))
    yield clean_harness
    clean_harness.run(clean_harness.runtime.db.fetch(empty))


async def unacknowledged(harness: Harness, count: int) -> None:
    """Create mitras with one device and one unacknowledged event each."""
    await harness.runtime.db.fetch(SIGNED_IN, count)
    event_ids = [ids.new_event_id(harness.runtime.now()) for _ in range(count)]
    await harness.runtime.db.fetch(UNACKNOWLEDGED, REQUEST, event_ids)


def test_events_of_a_large_blast_are_planned_once_in_a_few_transactions(
    devices: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(push_fallback, "PLAN_AT_ONCE", 100)

    async def play() -> None:
        await unacknowledged(devices, 230)
        assert [await push_fallback.plan_events(devices.runtime) for _ in range(4)] == [100, 100, 30, 0]
        planned = "SELECT count(DISTINCT push_token)::int, count(*)::int FROM pushes"
        (row,) = await devices.runtime.db.fetch(planned)
        assert tuple(row) == (230, 230)

    devices.run(play())


def test_recipient_with_many_new_events_holds_up_no_push_of_another(
    devices: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The devices of one mitra are connected and acknowledge nothing; the others have no socket."""
    monkeypatch.setattr(push_fallback, "LOOKED_AT", 10)
    monkeypatch.setattr(push_fallback, "PLAN_AT_ONCE", 3)

    async def play() -> None:
        runtime = devices.runtime
        await unacknowledged(devices, 6)
        connected, *away = [row["id"] for row in await runtime.db.fetch("SELECT id::text FROM mitras ORDER BY id")]
        await runtime.db.fetch("UPDATE deliveries SET created_at = now()")
        await runtime.db.fetch(EARLIER, REQUEST, connected, 34)

        async def unheard(user_ids: set[str]) -> set[str]:
            return user_ids - {connected}

        planner = push_fallback.UnheardPlanner(unheard)
        # Four parts of ten; the fourth has six new events more than those of the one mitra. Then it begins again.
        assert [await planner.plan(runtime) for _ in range(4)] == [0, 0, 0, 3]
        assert sum([await planner.plan(runtime) for _ in range(5)]) == 2
        pushed = "SELECT array_agg(DISTINCT recipient_id::text) FROM deliveries WHERE pushed_real_at IS NOT NULL"
        assert sorted(await runtime.db.fetchval(pushed)) == sorted(away)

    devices.run(play())


def test_results_of_many_pushes_are_stored_together_each_by_its_kind(devices: Harness) -> None:
    async def play() -> None:
        runtime = devices.runtime
        await unacknowledged(devices, 40)
        await push_fallback.plan_events(runtime)
        claimed = await push_fallback.claim_due(runtime, limit=100)
        assert await push_fallback.claim_due(runtime, limit=100) == []
        kinds: list[Outcome] = [Sent(), PushRefused(), Later(after_s=60), DeadToken()]
        results = [(push, kinds[number % 4]) for number, push in enumerate(claimed)]
        before = REGISTRY.get_sample_value(*CHECKOUTS) or 0
        await push_fallback.settle(runtime, results)
        used = (REGISTRY.get_sample_value(*CHECKOUTS) or 0) - before
        later = {push.id for push, outcome in results if isinstance(outcome, Later)}
        left = await runtime.db.fetch(LEFT)
        assert {row["id"] for row in left} == later
        assert all(row["is_later"] for row in left)
        assert await runtime.db.fetchval(TOKENS) == 30
        assert used <= 1 + 10 + 10  # one for all that are done, and one for each of the others

    devices.run(play())


def test_failing_result_does_not_keep_others_from_being_stored(devices: Harness) -> None:
    async def play() -> None:
        runtime = devices.runtime
        await unacknowledged(devices, 3)
        await push_fallback.plan_events(runtime)
        one, two, three = await push_fallback.claim_due(runtime, limit=3)
        endless = Later(after_s=dt.timedelta.max.total_seconds() * 10)  # the database refuses the moment
        await push_fallback.settle(runtime, [(one, endless), (two, Sent()), (three, Later(after_s=60))])
        assert {row["id"]: row["is_later"] for row in await runtime.db.fetch(LEFT)} == {one.id: False, three.id: True}

    devices.run(play())
