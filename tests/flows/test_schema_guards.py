"""What database triggers refuse: sessions without a payment, and changes of ledger rows."""

from collections.abc import Iterator
from typing import Any

import asyncpg
import pytest

from core.base import ids
from core.base.actor import Actor, UserType
from core.desk import setup
from core.pairing import presence
from core.pairing import start as pairing_start
from core.payments.failures.causes import CauseTag
from tests.flows.chats import a_chat
from tests.flows.conftest import Harness

INSERT = """INSERT INTO chat_sessions (id, customer_id, mitra_id, payment_request_id, status, round_ends_at, search_ends_at, paired_at,
    expires_at, duration_minutes, price)
  VALUES ($1, $2, $3, $4, $5, now(), now(), CASE WHEN $3::uuid IS NOT NULL THEN now() END, now(), 12, 12000)"""
PAIR = "UPDATE chat_sessions SET status = 'active', mitra_id = $2, paired_at = now(), expires_at = now() WHERE id = $1"


@pytest.fixture(autouse=True)
def cleared(harness: Harness) -> Iterator[None]:
    """Remove everything that the test has left, for later tests."""
    yield
    harness.run(harness.clear())


def written(harness: Harness, *statements: tuple[Any, ...]) -> None:
    """Run SQL statements in one transaction and commit it."""

    async def run() -> None:
        async with harness.runtime.db.pool.acquire() as connection, connection.transaction():
            for sql, *values in statements:
                await connection.execute(sql, *values)

    harness.run(run())


def refused(harness: Harness, *statements: tuple[Any, ...], says: str) -> None:
    """Run SQL statements and check that their commit is refused."""
    with pytest.raises(asyncpg.CheckViolationError, match=says):
        written(harness, *statements)


async def searching(harness: Harness) -> tuple[str, str]:
    """Create a paid request and its searching session; return both ids."""
    request_id = await harness.paid(await harness.customer())
    await pairing_start.start(harness.runtime, payment_request_id=request_id)
    return request_id, (await harness.session_of(request_id)).id


async def pending(harness: Harness, customer: Actor) -> str:
    """Create a pending payment request; return its id."""
    request_id = ids.new_id()
    await harness.runtime.db.fetch(
        """INSERT INTO payment_requests (id, customer_id, amount, duration_minutes, expires_at)
           VALUES ($1, $2, 12000, 12, now() + interval '1 hour')""",
        request_id, customer.user_id,
    )  # fmt: skip
    return request_id


@pytest.mark.parametrize("status", ["searching", "active", "completed"])
def test_session_of_a_pending_payment_is_refused_at_commit(harness: Harness, status: str) -> None:
    customer, mitra = harness.run(harness.customer()), harness.run(harness.mitra())
    request_id = harness.run(pending(harness, customer))
    mitra_id = None if status == "searching" else mitra.user_id
    refused(
        harness, (INSERT, ids.new_id(), customer.user_id, mitra_id, request_id, status), says="its payment is pending"
    )


@pytest.mark.parametrize("status", ["searching", "active", "expired", "closing"])
def test_session_without_a_payment_is_refused_at_commit(harness: Harness, status: str) -> None:
    customer, mitra = harness.run(harness.customer()), harness.run(harness.mitra())
    mitra_id = None if status == "searching" else mitra.user_id
    refused(harness, (INSERT, ids.new_id(), customer.user_id, mitra_id, None, status), says="no payment request")


def test_session_with_another_customers_payment_is_refused_at_commit(harness: Harness) -> None:
    payer, other = harness.run(harness.customer()), harness.run(harness.customer())
    request_id = harness.run(harness.paid(payer))
    refused(harness, (INSERT, ids.new_id(), other.user_id, None, request_id, "searching"), says="no payment request")


def test_pairing_without_consuming_the_payment_is_refused_at_commit(harness: Harness) -> None:
    _, session_id = harness.run(searching(harness))
    mitra = harness.run(harness.mitra())
    refused(harness, (PAIR, session_id, mitra.user_id), says="its payment is confirmed")


def test_payment_that_fails_while_its_session_searches_is_refused_at_commit(harness: Harness) -> None:
    request_id, session_id = harness.run(searching(harness))
    fail = (
        """WITH failed AS (UPDATE payment_requests SET status = 'failed_pairing' WHERE id = $1 RETURNING *)
           INSERT INTO pairing_failures (id, payment_request_id, customer_id, cause_tag, amount)
           SELECT gen_random_uuid(), id, customer_id, 'no_mitra_available', amount FROM failed""",
        request_id,
    )
    refused(harness, fail, says="its payment is failed_pairing")
    written(harness, fail, ("UPDATE chat_sessions SET status = 'failed', ended_at = now() WHERE id = $1", session_id))


def test_failure_with_a_cause_that_is_missing_in_the_database_is_refused_until_the_causes_are_synced(
    harness: Harness,
) -> None:
    request_id, session_id = harness.run(searching(harness))
    cause = CauseTag.CUSTOMER_CANCELLED
    fail = (
        (
            """WITH failed AS (UPDATE payment_requests SET status = 'failed_pairing' WHERE id = $1 RETURNING *)
           INSERT INTO pairing_failures (id, payment_request_id, customer_id, cause_tag, amount)
           SELECT gen_random_uuid(), id, customer_id, $2, amount FROM failed""",
            request_id,
            cause,
        ),
        ("UPDATE chat_sessions SET status = 'cancelled', ended_at = now() WHERE id = $1", session_id),
    )
    as_before_an_update = ("SET LOCAL session_replication_role = replica",)  # failures may have it already
    written(harness, as_before_an_update, ("DELETE FROM cause_tags WHERE tag = $1", cause))
    with pytest.raises(asyncpg.ForeignKeyViolationError):
        written(harness, *fail)
    harness.run(setup.seed_defaults(harness.runtime))
    written(harness, *fail)


@pytest.mark.parametrize("change", ["payment_request_id = NULL", "customer_id = gen_random_uuid()"])
def test_searching_session_that_loses_its_payment_is_refused_at_commit(harness: Harness, change: str) -> None:
    _, session_id = harness.run(searching(harness))
    with pytest.raises((asyncpg.CheckViolationError, asyncpg.ForeignKeyViolationError)):
        written(harness, (f"UPDATE chat_sessions SET {change} WHERE id = $1", session_id))


def test_history_without_a_payment_is_stored_and_old_running_session_goes_on(harness: Harness) -> None:
    customer, mitra = harness.run(harness.customer()), harness.run(harness.mitra())
    operator = Actor(
        user_type=UserType.OPERATOR, user_id=ids.new_id(), auth_session_id=ids.new_id(), expires_at=2**40, ids=()
    )
    role_id = ids.new_id()
    written(
        harness,
        ("INSERT INTO roles (id, name) VALUES ($1, $1::uuid::text)", role_id),
        (
            "INSERT INTO control_center_users (id, email, display_name, role_id) VALUES ($1, $1::uuid::text, 'Root', $2)",
            operator.user_id,
            role_id,
        ),
    )
    seeded = setup.seed_history_session(
        harness.runtime, operator, customer_id=customer.user_id, mitra_id=mitra.user_id, ended_at=None, topics=None
    )
    assert harness.run(seeded)
    old = ids.new_id()
    written(  # as it was before the trigger existed
        harness,
        ("SET LOCAL session_replication_role = replica",),
        (INSERT, old, customer.user_id, mitra.user_id, None, "active"),
    )
    for before, after in (
        ("active", "expired"),
        ("expired", "active"),
        ("active", "closing"),
        ("closing", "completed"),
    ):
        written(harness, ("UPDATE chat_sessions SET status = $3 WHERE id = $1 AND status = $2", old, before, after))
    assert (
        harness.run(harness.runtime.db.fetchval("SELECT status FROM chat_sessions WHERE id = $1", old)) == "completed"
    )


def test_guard_trigger_runs_twice_per_pairing_and_never_for_messages_or_timers(harness: Harness) -> None:
    async def calls(*statements: tuple[Any, ...]) -> int:
        async with harness.runtime.db.pool.acquire() as connection:
            transaction = connection.transaction()
            await transaction.start()
            try:
                found = (
                    "SELECT coalesce(sum(calls), 0) FROM pg_stat_xact_user_functions WHERE funcname = 'session_is_paid'"
                )
                # including transactions whose statistics were not collected yet
                before = await connection.fetchval(found)
                await connection.execute("SET LOCAL track_functions = 'pl'")
                for sql, *values in statements:
                    await connection.execute(sql, *values)
                await connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
                return await connection.fetchval(found) - before
            finally:
                await transaction.rollback()

    request_id, session_id = harness.run(searching(harness))
    mitra = harness.run(harness.mitra())
    consume = "UPDATE payment_requests SET status = 'consumed', consumed_at = now() WHERE id = $1"
    earn = """INSERT INTO customer_transactions (id, customer_id, session_id, payment_request_id, type, amount)
      SELECT gen_random_uuid(), customer_id, $2, id, 'session', amount FROM payment_requests WHERE id = $1"""
    pairing = ((PAIR, session_id, mitra.user_id), (consume, request_id), (earn, request_id, session_id))
    assert harness.run(calls(*pairing)) == 2
    chat = harness.run(a_chat(harness))
    running = "UPDATE chat_sessions SET {} WHERE id = $1"
    touched = (
        "last_seq = last_seq + 1, mitra_delivered_seq = 1",
        "warn_at = NULL",
        "status = 'expired'",
        "expires_at = now()",
    )
    assert harness.run(calls(*((running.format(one), chat.id) for one in touched))) == 0


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE customer_transactions SET amount = amount",
        "UPDATE customer_transactions SET type = 'extension' WHERE false",
        "DELETE FROM customer_transactions",
        "TRUNCATE customer_transactions",
        "TRUNCATE customers CASCADE",
    ],
)
def test_ledger_refuses_every_change_of_its_rows(harness: Harness, statement: str) -> None:
    mitra = harness.run(harness.mitra())
    harness.run(presence.go_online(harness.runtime, mitra))
    harness.run(harness.start_session(harness.run(harness.customer()), mitra))
    rows = "SELECT * FROM customer_transactions ORDER BY id"
    before = harness.run(harness.runtime.db.fetch(rows))
    with pytest.raises(asyncpg.RestrictViolationError, match="rows of the ledger stay as they are"):
        written(harness, (statement,))
    assert harness.run(harness.runtime.db.fetch(rows)) == before


# Not among the rows' other guards in tests/http: the lock on many tables meets the readers of a running service.
@pytest.mark.parametrize("statement", ["TRUNCATE operator_audit_log", "TRUNCATE control_center_users CASCADE"])
def test_audit_log_refuses_to_be_emptied(harness: Harness, statement: str) -> None:
    with pytest.raises(asyncpg.CheckViolationError, match="neither changed nor deleted"):
        written(harness, (statement,))
