"""The activity of mitras: compared with a plain model, and read by index only when there are many rows."""

import bisect
import collections
import datetime as dt
import json
import random
import statistics
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import asyncpg
import pytest

from core.base.ids import id_of
from core.base.pages import Page
from core.desk import activity
from core.desk.activity import ActivityFilter
from tests.http.operators.steps import every
from tests.stack import Stack, World, new_id, refused

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

LOG, SUMMARY = "/internal/mitra-activity/log", "/internal/mitra-activity/summary"
RESPONSES = ("ACCEPTED", "REJECTED", "MISSED", "IGNORED", "CANCELLED", None)
FIRST = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
DAYS = 20
COPY_SESSIONS = """INSERT INTO chat_sessions (id, customer_id, mitra_id, status, created_at, paired_at, expires_at, ended_at, ended_by,
    duration_minutes, topic_sensitivity)
  SELECT $1::text::uuid, $2::text::uuid, $3::text::uuid, 'completed', $4, $4, $4, $4, 'timer', 12, $5"""
ASKED = """INSERT INTO chat_request_notifications (id, session_id, mitra_id, notified_at, answer_by, response, responded_at,
    active_session_count, lost_by_ms)
  SELECT $1::text::uuid, $2::text::uuid, $3::text::uuid, $4, $4, $5, $6, $7, $8"""
EARNED = """INSERT INTO customer_transactions (id, session_id, customer_id, type, amount, refund_id)
  SELECT gen_random_uuid(), $1::text::uuid, $2::text::uuid, $3, $4, CASE WHEN $4 < 0 THEN gen_random_uuid() END"""


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """Run a separate service, because its rows are counted."""
    made = Stack()
    yield made
    made.close()


@pytest.fixture
async def world(stack: Stack) -> AsyncIterator[World]:
    """Return a World on that service.

    The ledger audit is not checked: the generated requests have no payments and no answers.
    """
    made = World(stack)
    yield made
    for client in made.clients:
        await client.close()


def written_in_order(count: int) -> list[str]:
    """Return `count` ids in ascending order, like those of rows written one after the other."""
    return sorted(new_id() for _ in range(count))


class Model:
    """The same rows in memory, with the plainest computation of what the routes report."""

    def __init__(self, seed: int) -> None:
        chance = self.chance = random.Random(seed)
        self.mitras = [new_id() for _ in range(7)]
        self.customer = new_id()
        self.turns: dict[str, list[tuple[dt.datetime, str]]] = {}
        for mitra in self.mitras[:-1]:  # one mitra was never online and never invited
            # Two changes with the same time are reported in the order in which they were written.
            times = sorted(self.moment() for _ in range(chance.randrange(0, 60)))
            times += times[-1:]
            self.turns[mitra] = [(at, chance.choice(("online", "offline"))) for at in times]
        self.sessions = [
            (id_of(at, b"%d" % n), chance.choice(self.mitras[:5]), at, chance.choice(("regular", "sensitive")))
            for n, at in enumerate(self.moment() for _ in range(80))
        ]
        self.asked: list[dict[str, Any]] = []
        for session, winner, began, _ in self.sessions:
            for mitra in chance.sample(self.mitras[:-1], chance.randrange(0, 6)):
                last = "ACCEPTED" if mitra == winner else chance.choice(RESPONSES[1:])
                # A search lasts a day at most. All but the last round ended without an answer.
                rounds = sorted(began + (self.moment() - FIRST) / DAYS for _ in range(chance.choice((1, 1, 2, 4))))
                for at in rounds:
                    response = last if at == rounds[-1] else "IGNORED"
                    answer = dt.timedelta(milliseconds=chance.randrange(1, 30_000))
                    lost_by = chance.randrange(9_000) if response == "MISSED" and chance.random() < 0.5 else None
                    self.asked.append(
                        {
                            "id": new_id(), "session_id": session, "mitra": mitra, "notified_at": at, "response": response,
                            "responded_at": at + answer if response else None, "count": chance.randrange(4), "lost_by": lost_by,
                        }
                    )  # fmt: skip

        # What a session and an extension have earned, and what of it was refunded.
        self.ledger = [
            (session, kind, amount)
            for session, *_ in self.sessions[::3]
            for kind, amount in (("session", 12_000), ("extension", 9_000), ("refund", -chance.randrange(1, 12_000)))
        ]

    def moment(self) -> dt.datetime:
        """Return a second of the period. Whole hours are frequent, so that ranges often end exactly at a row."""
        step = self.chance.choice((1, 3600))
        return FIRST + dt.timedelta(seconds=self.chance.randrange(DAYS * 86_400 // step) * step)

    async def put(self, connection: Any) -> None:
        """Insert the rows."""
        await connection.execute("INSERT INTO customers (id) SELECT $1::text::uuid", self.customer)
        for n, mitra in enumerate(self.mitras):
            await connection.execute(
                "INSERT INTO mitras (id, phone, display_name, is_active) SELECT $1::text::uuid, $2, $3, true",
                mitra, f"+6281299{n:06d}", f"Mitra {n}",
            )  # fmt: skip
        for mitra, turns in self.turns.items():
            await connection.executemany(
                'INSERT INTO mitra_online_logs (id, mitra_id, status, "timestamp") SELECT $1::text::uuid, $2::text::uuid, $3, $4',
                [
                    (row, mitra, status, at)
                    for row, (at, status) in zip(written_in_order(len(turns)), turns, strict=True)
                ],
            )
        rows = [(session, self.customer, mitra, at, flag) for session, mitra, at, flag in self.sessions]
        await connection.executemany(COPY_SESSIONS, rows)
        asked = [
            (
                one["id"],
                one["session_id"],
                one["mitra"],
                one["notified_at"],
                one["response"],
                one["responded_at"],
                one["count"],
                one["lost_by"],
            )
            for one in self.asked
        ]
        await connection.executemany(ASKED, asked)
        async with connection.transaction():
            await connection.execute("SET LOCAL session_replication_role = replica")  # no payments belong to these rows
            await connection.executemany(EARNED, [(session, self.customer, *row) for session, *row in self.ledger])

    def online_seconds(self, mitra: str, since: dt.datetime, until: dt.datetime) -> int:
        """Return how long the mitra was online in the range; each online interval ends at the next change."""
        turns = self.turns.get(mitra, [])
        total = 0.0
        for n, (at, status) in enumerate(turns):
            ends = turns[n + 1][0] if n + 1 < len(turns) else until
            if status == "online":
                total += max(0.0, (min(ends, until) - max(at, since)).total_seconds())
        return round(total)

    def summary(self, mitra: str, since: dt.datetime, until: dt.datetime) -> dict[str, Any]:
        """Return the figures that the summary reports."""
        mine = [one for one in self.asked if one["mitra"] == mitra and since <= one["notified_at"] < until]
        by_search = {one["session_id"]: one["response"] for one in sorted(mine, key=lambda one: one["notified_at"])}
        counted = collections.Counter(by_search.values())
        judged = counted["ACCEPTED"] + counted["REJECTED"] + counted["IGNORED"]
        own = [one for one in self.sessions if one[1] == mitra and since <= one[2] < until]
        chats, ids = [flag for *_, flag in own], {session for session, *_ in own}
        online = self.online_seconds(mitra, since, until)
        answered = [one for one in mine if one["response"] in ("ACCEPTED", "REJECTED")]
        times = [(one["responded_at"] - one["notified_at"]) // dt.timedelta(milliseconds=1) for one in answered]
        lost = [one["lost_by"] for one in mine if one["lost_by"] is not None]
        return {
            "online_since": None,
            "notified": len(by_search),
            "accepted": counted["ACCEPTED"],
            "rejected": counted["REJECTED"],
            "missed": counted["MISSED"],
            "ignored": counted["IGNORED"],
            "acceptance_rate": round(counted["ACCEPTED"] / judged, 4) if judged else None,
            "sessions": len(chats),
            "sensitive_sessions": chats.count("sensitive"),
            "online_seconds": online,
            "share_per_hour_online": round(len(chats) * 3600 / online, 4) if online else None,
            "median_answer_ms": statistics.median_low(times) if times else None,
            "lost": len(lost),
            "lost_by_ms": statistics.median_low(lost) if lost else None,
            "earned_idr": sum(amount for session, _, amount in self.ledger if session in ids),
        }


@pytest.fixture(scope="module")
async def model(stack: Stack) -> Model:
    """Generate rows, in the database and in the model."""
    made = Model(seed=20261121)
    connection = await asyncpg.connect(stack.database_url)
    try:
        await made.put(connection)
    finally:
        await connection.close()
    return made


def ranges(model: Model) -> list[tuple[dt.datetime, dt.datetime]]:
    """Return the whole period, ranges from one change to the next, and random ones."""
    moments = sorted(model.moment() for _ in range(24))
    turns = sorted(at for turns in model.turns.values() for at, _ in turns)
    exact = [(turns[n], turns[bisect.bisect_right(turns, turns[n])]) for n in (0, 9, 40)]
    wide = [(FIRST - dt.timedelta(days=9), FIRST + dt.timedelta(days=60)), (FIRST, FIRST + dt.timedelta(days=DAYS))]
    return [*wide, *exact, *[(a, b) for a, b in zip(moments[::2], moments[1::2], strict=True) if a < b]]


async def test_activity_summary_matches_the_model_for_any_range(world: World, model: Model) -> None:
    operator = await world.operator()
    rates = set()
    for since, until in ranges(model):
        rows = (await operator.get(SUMMARY, **{"from": since.isoformat(), "to": until.isoformat()}))["items"]
        found = {row["mitra"]["id"]: {name: value for name, value in row.items() if name != "mitra"} for row in rows}
        for mitra in model.mitras:
            expected = model.summary(mitra, since, until)
            assert found[mitra] == expected, (since, until, model.mitras.index(mitra))
            rates.add(expected["acceptance_rate"])
        one = model.mitras[2]
        of_one = await operator.get(SUMMARY, **{"from": since.isoformat(), "to": until.isoformat()}, mitra_id=one)
        assert of_one["items"] == [row for row in rows if row["mitra"]["id"] == one]
        assert [row["notified"] for row in rows] == sorted((row["notified"] for row in rows), reverse=True)
    assert None in rates
    assert len(rates) > 5
    never = model.mitras[-1]
    assert model.summary(never, FIRST, FIRST + dt.timedelta(days=DAYS))["online_seconds"] == 0


async def test_activity_log_matches_the_model_for_all_filters(world: World, model: Model) -> None:
    operator = await world.operator()
    for since, until in ranges(model)[:8]:
        for mitra in (None, model.mitras[0], model.mitras[-1]):
            query = {"from": since.isoformat(), "to": until.isoformat()} | ({"mitra_id": mitra} if mitra else {})
            rows = await every(operator, LOG, limit=37, **query)
            expected = [
                one
                for one in sorted(model.asked, key=lambda one: (one["notified_at"], one["id"]), reverse=True)
                if since <= one["notified_at"] < until and mitra in (None, one["mitra"])
            ]
            assert [row["id"] for row in rows] == [one["id"] for one in expected]
            for row, one in zip(rows, expected, strict=True):
                assert row["mitra"]["id"] == one["mitra"]
                assert (row["session_id"], row["response"]) == (one["session_id"], one["response"])
                assert (row["responded_at"] is None, row["active_session_count"]) == (
                    one["response"] is None,
                    one["count"],
                )
                assert dt.datetime.fromisoformat(row["notified_at"]) == one["notified_at"]


async def test_activity_with_invalid_range_or_filter_is_422(world: World, model: Model) -> None:
    operator = await world.operator()
    for query in (
        {"from": FIRST.isoformat(), "to": FIRST.isoformat()},
        {"from": "2026-05-02T00:00:00Z", "to": "2026-05-01T00:00:00Z"},
        {"from": "9999-12-31T23:59:59Z"},
        {"to": "0001-01-01T00:00:00Z"},
        {"from": "x"},
        {"to": "2026-05-01"},
    ):
        await refused(operator.get(SUMMARY, **query), 422, "VALIDATION_ERROR")
    await refused(operator.get(LOG, mitra_id="x"), 422, "VALIDATION_ERROR")
    assert (await operator.get(LOG, mitra_id=new_id()))["items"] == []
    whole = await operator.get(SUMMARY, **{"from": "0001-01-01T00:00:00Z", "to": "9999-12-31T23:59:59Z"})
    assert {row["mitra"]["id"] for row in whole["items"]} == set(model.mitras)
    assert (await operator.get(SUMMARY))["items"]  # the last thirty days


async def test_current_online_interval_ends_now(world: World) -> None:
    """Check that an interval that has not ended ends with the range, or now."""
    operator, mitra = await world.operator(), await world.mitra()
    (row,) = await world.stack.sql(
        """UPDATE mitra_online_logs SET "timestamp" = date_trunc('second', "timestamp") - interval '100 seconds'
           WHERE mitra_id = $1::text::uuid RETURNING "timestamp" """,
        mitra.user["id"],
    )
    began: dt.datetime = row[0]

    async def online(since: dt.datetime, until: dt.datetime) -> int:
        rows = (await operator.get(SUMMARY, **{"from": since.isoformat(), "to": until.isoformat()}))["items"]
        (mine,) = [row for row in rows if row["mitra"]["id"] == mitra.user["id"]]
        assert (await mitra.get("/api/mitra/status"))["last_online_at"] == mine["online_since"]
        return mine["online_seconds"]

    second = dt.timedelta(seconds=1)
    assert await online(began - 50 * second, began + 60 * second) == 60
    assert await online(began + 10 * second, began + 60 * second) == 50
    assert 100 <= await online(began, began + 3600 * second) < 130
    assert await online(began - 50 * second, began) == 0
    later = began + dt.timedelta(days=1)
    assert await online(later, later + 60 * second) == 0


# -- many rows

MANY = 150_000
GENERATED = (
    """INSERT INTO mitras (id, phone, display_name, is_active)
       SELECT gen_random_uuid(), '+62813' || lpad(n::text, 8, '0'), 'Many ' || n, true FROM generate_series(1, 60) n""",
    """CREATE TEMP TABLE many AS SELECT id, row_number() OVER (ORDER BY id) - 1 AS n FROM mitras WHERE display_name LIKE 'Many %'""",
    f"""CREATE TEMP TABLE chats AS SELECT uuidv7(at - now()) AS id, n, at FROM generate_series(0, {MANY // 10 - 1}) n
        CROSS JOIN LATERAL (SELECT now() - interval '60 days' * (1 - n / {MANY / 10}) AS at)""",
    """INSERT INTO chat_sessions (id, customer_id, mitra_id, status, created_at, paired_at, expires_at, ended_at, ended_by,
         duration_minutes)
       SELECT c.id, (SELECT id FROM customers LIMIT 1), m.id, 'completed', c.at, c.at, c.at, c.at, 'timer', 12
       FROM chats c JOIN many m ON m.n = c.n % 60""",
    """INSERT INTO chat_request_notifications (id, session_id, mitra_id, notified_at, answer_by, response, responded_at)
       SELECT gen_random_uuid(), c.id, m.id, c.at + interval '1 millisecond' * j, c.at, CASE WHEN j = 0 THEN 'ACCEPTED'
         ELSE (ARRAY['REJECTED', 'MISSED', 'IGNORED'])[1 + (c.n + j) % 3] END, c.at + interval '5 seconds'
       FROM chats c CROSS JOIN generate_series(0, 9) j JOIN many m ON m.n = (c.n + j) % 60""",
    """INSERT INTO mitra_online_logs (id, mitra_id, status, "timestamp")
       SELECT gen_random_uuid(), m.id, CASE k % 2 WHEN 0 THEN 'online' ELSE 'offline' END, now() - interval '60 days' + interval '4 hours' * k
       FROM many m CROSS JOIN generate_series(0, 359) k""",
)


def scans(plan: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield every scan of a plan: its kind, its table, its index."""
    if "Relation Name" in plan:
        yield plan["Node Type"], plan["Relation Name"], plan.get("Index Name", "")
    for part in plan.get("Plans", []):
        yield from scans(part)


# The partitions with rows; those of coming months are empty.
PARTITIONS = """SELECT inhrelid::regclass::text, inhparent::regclass::text
  FROM pg_inherits LEFT JOIN pg_index ON indexrelid = inhrelid
  WHERE coalesce(indrelid, inhrelid)::regclass::text LIKE '%_before_%'"""


def literal(value: Any) -> str:
    return str(value) if isinstance(value, int) else f"'{value}'"


async def plan_of(connection: Any, statement: str, args: list[Any], *, generic: bool) -> tuple[set[Any], float]:
    """Return the scans of a prepared statement's plan, and the milliseconds that it took.

    A scan of a partition counts as one of its table.
    """
    whole = dict(await connection.fetch(PARTITIONS))
    await connection.execute(f"SET plan_cache_mode = force_{'generic' if generic else 'custom'}_plan")
    await connection.execute(f"PREPARE desk AS {statement}")
    try:
        values = ", ".join(literal(one) for one in args)
        (text,) = await connection.fetchrow(f"EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE desk ({values})")
    finally:
        await connection.execute("DEALLOCATE desk")
    (made,) = json.loads(text)
    found = {(how, whole.get(table, table), whole.get(index, index)) for how, table, index in scans(made["Plan"])}
    return found, made["Execution Time"]


@pytest.fixture(scope="module")
async def many(stack: Stack, model: Model) -> None:
    """Insert 150,000 requests over sixty days."""
    connection = await asyncpg.connect(stack.database_url)
    try:
        for statement in GENERATED:
            await connection.execute(statement)
        for table in ("chat_request_notifications", "chat_sessions", "mitra_online_logs", "mitras"):
            await connection.execute(f"VACUUM ANALYZE {table}")
    finally:
        await connection.close()


@pytest.mark.parametrize("generic", [False, True], ids=["planned for its values", "planned once"])
@pytest.mark.slow
async def test_activity_reads_of_many_rows_use_an_index(stack: Stack, many: None, generic: bool) -> None:
    """Run with `-s` to see how long each read took."""
    connection = await asyncpg.connect(stack.database_url)
    try:
        mitra = str(await connection.fetchval("SELECT id FROM mitras WHERE display_name = 'Many 7'"))
        now = await connection.fetchval("SELECT now()")
        old, day = now - dt.timedelta(days=40), dt.timedelta(days=1)
        place = Page(limit=50, before_at=old, before_id=new_id())
        for name, page, which, index in (
            ("newest", Page(), ActivityFilter(), "newest"),
            ("an old day", Page(), ActivityFilter(since=old, until=old + day), "newest"),
            ("a page far back", place, ActivityFilter(), "newest"),
            ("one mitra", Page(), ActivityFilter(mitra_id=mitra), "mitra"),
            ("one mitra, an old day", Page(), ActivityFilter(mitra_id=mitra, since=old, until=old + day), "mitra"),
            ("one mitra, a page far back", place, ActivityFilter(mitra_id=mitra), "mitra"),
        ):
            seen, took = await plan_of(connection, *activity.log_query(page, which, which.since), generic=generic)
            print(f"log, {name}: {took:.2f} ms")  # noqa: T201
            by = {(how, at) for how, table, at in seen if table == "chat_request_notifications"}
            allowed = {f"chat_request_notifications_{one}" for one in (index, "activity")}
            assert by, name
            assert all("Index" in how and at in allowed for how, at in by), (name, seen)
        for name, begin in (("a day", now - day), ("an old day", old)):
            seen, took = await plan_of(
                connection, activity.SUMMARY, activity.summary_args(begin, begin + day, now), generic=generic
            )
            print(f"summary, {name}: {took:.2f} ms")  # noqa: T201
            assert ("Index Only Scan", "chat_request_notifications", "chat_request_notifications_activity") in seen
            assert ("Index Only Scan", "chat_request_notifications", "chat_request_notifications_answers") in seen
            assert ("Index Only Scan", "chat_sessions", "chat_sessions_paired") in seen
            whole = {table for how, table, _ in seen if how == "Seq Scan"}
            # One row for each mitra, and few rows here.
            assert not whole - {"mitras", "mitra_online_status", "customer_transactions"}, seen
        began = time.perf_counter()
        await connection.fetch(activity.SUMMARY, *activity.summary_args(now - dt.timedelta(days=30), now, now))
        print(f"summary, thirty days: {(time.perf_counter() - began) * 1000:.0f} ms")  # noqa: T201
    finally:
        await connection.close()


@pytest.mark.slow
async def test_activity_summary_of_many_rows_adds_up(world: World, many: None) -> None:
    """Read one page of many over HTTP."""
    operator = await world.operator()
    page = await operator.get(LOG, limit=200)
    assert len(page["items"]) == 200
    assert page["next_cursor"] is not None
    rows = (await operator.get(SUMMARY, **{"from": "2026-01-01T00:00:00Z"}))["items"]
    assert sum(row["notified"] for row in rows if row["mitra"]["display_name"].startswith("Many")) == MANY
