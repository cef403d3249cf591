"""Store a made-up world in a database, as the service would have it after the world's days."""

import datetime as dt
from collections.abc import Sequence
from typing import Any

from core.base import ids
from tests.flows.past_searches import TRIGGERS_OFF
from tests.unit.made_up_worlds import WatchedReplay, World

MITRAS = """INSERT INTO mitras (id, phone, display_name, is_active)
  SELECT id, '+6281' || n, 'Ayu', true FROM unnest($1::uuid[]) WITH ORDINALITY AS m (id, n)"""
LOGS = """INSERT INTO mitra_online_logs (id, mitra_id, status, timestamp)
  SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::timestamptz[])"""
CUSTOMERS = "INSERT INTO customers (id) SELECT DISTINCT * FROM unnest($1::uuid[])"
SESSIONS = """INSERT INTO chat_sessions (id, customer_id, payment_request_id, status, created_at, mitra_id, paired_at,
    expires_at, ended_at, ended_by, duration_minutes)
  SELECT id, customer_id, id, CASE outcome WHEN 'paired' THEN 'completed' ELSE outcome END, began_at, mitra_id,
    CASE outcome WHEN 'paired' THEN ended_at END, began_at, coalesce(freed_at, ended_at), 'timer', minutes
  FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::timestamptz[], $5::uuid[], $6::timestamptz[], $7::timestamptz[],
    $8::int[]) AS s (id, customer_id, outcome, began_at, mitra_id, ended_at, freed_at, minutes)"""
INVITATIONS = """INSERT INTO chat_request_notifications (id, session_id, mitra_id, notified_at, answer_by, response,
    responded_at, active_session_count)
  SELECT id, session_id, mitra_id, at, at, response, ended_at, load
  FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::timestamptz[], $5::text[], $6::timestamptz[], $7::int[])
    AS n (id, session_id, mitra_id, at, response, ended_at, load)"""


def columns(rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]


async def store(connection: Any, world: World, lived: WatchedReplay | None = None) -> None:
    """Store the world's mitras, shifts, searches and requests, as it has `lived`: by default under VALUES."""
    lived = lived or world.live()
    runs = world.runs(lived)
    sessions = {run: ids.new_id() for run in runs}
    customers = {run.past.customer: ids.new_id() for run in runs}
    past = [(sessions[run], customers[run.past.customer], world.past(run, number)) for number, run in enumerate(runs)]
    async with connection.transaction():
        await connection.execute(TRIGGERS_OFF)
        await connection.fetch(MITRAS, world.names)
        shifts = [
            (ids.new_id(), mitra, "online" if is_online else "offline", at) for at, mitra, is_online in world.shifts
        ]
        await connection.fetch(LOGS, *columns(shifts))
        await connection.fetch(CUSTOMERS, list(customers.values()))
        searches = [
            (
                session_id, customer_id, one.outcome, one.began_at, one.mitra, one.ended_at, one.freed_at, one.minutes,
            )
            for session_id, customer_id, one in past
        ]  # fmt: skip
        await connection.fetch(SESSIONS, *columns(searches))
        invitations = [
            (
                ids.new_id(), sessions[one.run], one.mitra, one.at, one.response or "IGNORED",
                one.at + dt.timedelta(seconds=one.seconds), one.load,
            )
            for one in lived.noted
            if one.run in sessions
        ]  # fmt: skip
        await connection.fetch(INVITATIONS, *columns(invitations))
