"""Flows that claim due work in one statement take exactly what the view `timed_work` says is due."""

import datetime as dt
from typing import Any

import pytest

from core.payments import store as payments
from core.payments import transitions as payment_transitions
from core.payments.refunds import store as refunds
from core.payments.refunds.states import RefundStatus
from core.payments.states import PaymentStatus
from core.sessions import store as sessions
from core.sessions import transitions as session_transitions
from core.sessions.states import SessionStatus
from tests.flows.conftest import Harness

NOW = dt.datetime(2026, 11, 28, 12, tzinfo=dt.UTC)
HOUR = dt.timedelta(hours=1)
MANY = 10_000
TABLES = ("chat_sessions", "payment_requests", "pairing_failures", "refunds")
# Let the rows of a table have every state with every moment.
FREE = """DO $$ DECLARE line text; BEGIN
  FOR line IN
    SELECT format('DROP CONSTRAINT %I CASCADE', conname) FROM pg_constraint
      WHERE conrelid = '{table}'::regclass AND contype IN ('c', 'f', 'u')
    UNION ALL SELECT format('ALTER %I DROP NOT NULL', attname) FROM pg_attribute
      WHERE attrelid = '{table}'::regclass AND attnum > 0 AND NOT attisdropped AND attname <> 'id'
  LOOP EXECUTE 'ALTER TABLE {table} ' || line; END LOOP;
  FOR line IN SELECT indexrelid::regclass::text FROM pg_index
    WHERE indrelid = '{table}'::regclass AND indisunique AND NOT indisprimary
  LOOP EXECUTE 'DROP INDEX ' || line; END LOOP;
  SET LOCAL session_replication_role = replica;
END $$"""
# A row for each state with each moment: past, present, to come, none.
FILL = """INSERT INTO {table} (id, status, {column}) SELECT gen_random_uuid(), s.state, m.moment
  FROM unnest($1::text[]) AS s (state)
  CROSS JOIN unnest(ARRAY[$2::timestamptz - interval '1 h', $2, $2 + interval '1 h', NULL]) AS m (moment)"""
# What two of the claims look at besides: a search goes on after its round, and a refund is of a failed payment.
SEARCHES = "UPDATE chat_sessions SET search_ends_at = $1"
FAILURES = """INSERT INTO payment_requests (id) SELECT id FROM refunds;
  INSERT INTO pairing_failures (id, payment_request_id) SELECT id, id FROM refunds; UPDATE refunds SET failure_id = id, payment_request_id = id"""
DUE = "SELECT id FROM timed_work WHERE kind = $1 AND due_at <= $2"
# kind -> the table, its states, the column of the moment, the statement that claims, its arguments after the time.
CLAIMS: dict[str, tuple[str, Any, str, str, tuple[Any, ...]]] = {
    "expiry": (
        "chat_sessions",
        SessionStatus,
        "expires_at",
        f"{session_transitions.SQL['expire_due']} RETURNING id",
        (HOUR, MANY),
    ),
    "warning": ("chat_sessions", SessionStatus, "warn_at", sessions.CLAIM_WARNINGS.sql, ()),
    "repeat": ("chat_sessions", SessionStatus, "asked_repeat_at", sessions.CLAIM_REPEATS.sql, ()),
    "round": ("chat_sessions", SessionStatus, "round_ends_at", sessions.SQL["lock_quiet_rounds"], (MANY,)),
    "invoice_poll": (
        "payment_requests",
        PaymentStatus,
        "poll_at",
        f"{payments.SQL['claim_polls']} RETURNING id",
        ([HOUR], MANY),
    ),
    "expire_payments": (
        "payment_requests",
        PaymentStatus,
        "expires_at",
        f"{payment_transitions.SQL['expire_due']} RETURNING id",
        (MANY,),
    ),
    "refund": ("refunds", RefundStatus, "ask_at", refunds.SQL["claim_due"], ([HOUR], MANY)),
}


@pytest.mark.parametrize("kind", CLAIMS)
def test_claim_takes_what_the_view_says_is_due(clean_harness: Harness, kind: str) -> None:
    table, states, column, claim, args = CLAIMS[kind]

    async def play() -> tuple[set[str], set[str]]:
        async with clean_harness.runtime.db.pool.acquire() as connection:
            transaction = connection.transaction()
            await transaction.start()
            try:
                for one in TABLES:
                    await connection.execute(FREE.format(table=one))
                await connection.execute(FILL.format(table=table, column=column), list(states), NOW)
                await connection.execute(FAILURES)
                await connection.execute(SEARCHES, NOW + HOUR)
                due = {str(row["id"]) for row in await connection.fetch(DUE, kind, NOW)}
                claimed = {str(row["id"]) for row in await connection.fetch(claim, NOW, *args)}
            finally:
                await transaction.rollback()
        return due, claimed

    due, claimed = clean_harness.run(play())
    assert due
    assert claimed == due
