"""Weeks of searches in a database, for simulations. They are deleted at the end."""

import contextlib
import datetime as dt
import random
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any

from core.base import ids

DAYS, HOURS, EVERY = 16, range(8, 22), dt.timedelta(minutes=40)
CHAT = dt.timedelta(minutes=12)
# Triggers and foreign keys are off: payments and accounts would add nothing.
OFF = "SET LOCAL session_replication_role = replica"
CUSTOMERS = "INSERT INTO customers (id, created_at) SELECT id, now() FROM unnest($1::uuid[]) AS c (id)"
MITRAS = """INSERT INTO mitras (id, phone, display_name)
  SELECT id, '+62877' || right(id::text, 7), 'Past' FROM unnest($1::uuid[]) AS m (id)"""
SHIFTS = """INSERT INTO mitra_online_logs (id, mitra_id, status, timestamp)
  SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::timestamptz[])"""
SEARCHES = """INSERT INTO chat_sessions (id, customer_id, payment_request_id, mitra_id, status, created_at, paired_at, ended_at,
    ended_by, expires_at, duration_minutes)
  SELECT id, id, id, mitra_id, CASE WHEN mitra_id IS NULL THEN 'failed' ELSE 'completed' END, began_at,
    CASE WHEN mitra_id IS NOT NULL THEN found_at END, ended_at,
    CASE WHEN mitra_id IS NOT NULL THEN 'timer' END, CASE WHEN mitra_id IS NOT NULL THEN ended_at END, 12
  FROM unnest($1::uuid[], $2::uuid[], $3::timestamptz[], $4::timestamptz[], $5::timestamptz[])
    AS s (id, mitra_id, began_at, found_at, ended_at)"""
REQUESTS = """INSERT INTO chat_request_notifications (id, session_id, mitra_id, notified_at, answer_by, response, responded_at)
  SELECT id, session_id, mitra_id, at, at + interval '1 minute', response, responded_at
  FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::timestamptz[], $5::text[], $6::timestamptz[])
    AS n (id, session_id, mitra_id, at, response, responded_at)"""
DELETED = (
    ("chat_request_notifications", "session_id"), ("chat_sessions", "id"), ("customers", "id"),
    ("mitra_online_logs", "mitra_id"), ("mitras", "id"),
)  # fmt: skip


@contextlib.asynccontextmanager
async def past_weeks(
    transaction: Callable[[], AbstractAsyncContextManager[Any]], *, days: int = DAYS
) -> AsyncIterator[None]:
    """Insert the searches of some days before now: four mitras are online by day, and each search asks three.

    `transaction` opens one of the database.
    """
    made = random.Random(7)
    mitras = [ids.new_id() for _ in range(4)]
    today = dt.datetime.now(dt.UTC).replace(minute=0, second=0, microsecond=0)
    mornings = [today - dt.timedelta(days=n, hours=today.hour) for n in range(days, 0, -1)]
    searches = [_search(made, mitras, at) for morning in mornings for at in _times(morning)]
    requests = [one for search, others in searches for one in _requests(made, search, others)]
    shifts = [
        (ids.new_id(), mitra, status, morning + dt.timedelta(hours=hour))
        for morning in mornings
        for mitra in mitras
        for status, hour in (("online", HOURS.start), ("offline", HOURS.stop))
    ]
    async with transaction() as connection:
        await connection.execute(OFF)
        await connection.execute(CUSTOMERS, [search[0] for search, _ in searches])
        await connection.execute(MITRAS, mitras)
        for statement, rows in ((SHIFTS, shifts), (SEARCHES, [search for search, _ in searches]), (REQUESTS, requests)):
            await connection.execute(statement, *map(list, zip(*rows, strict=True)))
    try:
        yield
    finally:
        gone = [*mitras, *(search[0] for search, _ in searches)]
        async with transaction() as connection:
            await connection.execute(OFF)
            for table, column in DELETED:
                await connection.execute(f"DELETE FROM {table} WHERE {column} = ANY($1::uuid[])", gone)
            # An audit of the service may have found searches without payments.
            await connection.execute("DELETE FROM ledger_audit_results WHERE violations > 0")


def _times(morning: dt.datetime) -> Iterator[dt.datetime]:
    at = morning + dt.timedelta(hours=HOURS.start)
    while at < morning + dt.timedelta(hours=HOURS.stop):
        yield at
        at += EVERY


def _search(made: random.Random, mitras: list[str], at: dt.datetime) -> tuple[tuple[Any, ...], tuple[str, ...]]:
    """Return (id, mitra, began, found, ended) and the three mitras that are asked. One of ten finds no mitra."""
    first, second, third = made.sample(mitras, 3)
    if made.random() < 0.1:
        end = at + dt.timedelta(minutes=5)
        return (ids.new_id(), None, at, end, end), (first, second, third)
    found = at + dt.timedelta(seconds=made.uniform(4, 50))
    return (ids.new_id(), first, at, found, found + CHAT), (first, second, third)


def _requests(made: random.Random, search: tuple[Any, ...], asked: tuple[str, ...]) -> Iterator[tuple[Any, ...]]:
    session_id, winner, began, found, _ = search
    for mitra in asked:
        if mitra == winner:
            yield ids.new_id(), session_id, mitra, began, "ACCEPTED", found
        elif winner is not None:
            rejected = made.random() < 0.5
            at = began + (found - began) / 2 if rejected else found
            yield ids.new_id(), session_id, mitra, began, "REJECTED" if rejected else "MISSED", at
        else:
            yield ids.new_id(), session_id, mitra, began, "IGNORED", began + dt.timedelta(minutes=1)
