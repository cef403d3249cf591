"""A process dies in the middle of a blast to thousands: the jobs processes ask the others, each once
(docs/product.md#waves)."""

import asyncio

import pytest

from tests.faults.proxy import When
from tests.faults.service import Service
from tests.http.pairing.steps import cancelling
from tests.stack import World

pytestmark = pytest.mark.anyio

COUNT = 5_000
CROWD = """WITH made AS (
  INSERT INTO mitras (id, phone, display_name, is_active)
  SELECT gen_random_uuid(), '+6289' || lpad(n::text, 9, '0'), 'Ayu', true FROM generate_series(1, $1::int) AS n RETURNING id
), signed AS (
  INSERT INTO auth_sessions (id, user_type, user_id, refresh_token_hash, expires_at)
  SELECT id, 'mitra', id, id::text, now() + interval '30 days' FROM made
)
INSERT INTO mitra_online_status (id, mitra_id, is_online, last_online_at, last_heartbeat_at)
SELECT gen_random_uuid(), id, true, now(), now() + interval '10 minutes' FROM made"""
ONLINE = "UPDATE mitra_online_status SET is_online = $1"
INVITED = """SELECT count(*)::int AS made, count(DISTINCT mitra_id)::int AS mitras
FROM chat_request_notifications WHERE session_id = $1"""
EVENTS = """SELECT count(*)::int, count(DISTINCT recipient_id)::int FROM deliveries
WHERE session_id = $1 AND event = 'chat_request'"""
SECOND = "UPDATE chat_sessions SET asked_repeat_at"  # only transactions after the first one have this statement


async def test_blast_of_a_dead_process_asks_every_mitra_once(proxied_world: World, proxied_stack: Service) -> None:
    stack, world = proxied_stack, proxied_world
    await stack.sql(CROWD, COUNT)
    for when, commit in ((When.BEFORE, False), (When.BEFORE, True), (When.AFTER, True)):
        await stack.sql(ONLINE, True)
        customer = await world.customer()
        proxy = stack.nodes["api"].postgres
        place = proxy.park("^COMMIT", when=when, within=SECOND) if commit else proxy.park(SECOND, when=when)
        payment = await world.paid(customer)
        await place.reached(15)
        assert place.is_held
        stack.processes["api"].kill()
        await asyncio.to_thread(stack.restart_cleanly, "api")
        (invited,) = await world.until(
            lambda one=payment: stack.sql(INVITED, one["session_id"]), lambda rows: rows[0]["mitras"] >= COUNT
        )
        assert tuple(invited) == (COUNT, COUNT)
        assert [tuple(row) for row in await stack.sql(EVENTS, payment["session_id"])] == [(COUNT, COUNT)]
        await stack.sql(ONLINE, False)
        await cancelling(customer, payment)
