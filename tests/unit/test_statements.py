"""Piccolo's queries compile to exactly the SQL that we expect (core/storage/statements.py)."""

import datetime as dt
import enum
from typing import Any

import attrs
import pytest
from piccolo.query.methods.delete import DeletionError
from piccolo.query.methods.update import UpdateError

from core.accounts.mitras.tables import Mitra, MitraOnlineStatus
from core.accounts.operators.tables import OperatorAudit
from core.payments.tables import PaymentRequest
from core.storage.statements import Statement, columns_of, insert, names_of, p, statement, transition


class Status(enum.StrEnum):
    PENDING = "pending"
    CONFIRMED = "confirmed"
    FAILED = "failed_pairing"


EDGES = {(Status.PENDING, Status.CONFIRMED), (Status.FAILED, Status.CONFIRMED)}


@attrs.frozen(kw_only=True)
class Named:
    id: str
    display_name: str


class Connection:
    """Answers each statement with `rows`, and stores the statement with its arguments."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.rows = rows
        self.ran: tuple[str, tuple[Any, ...]] | None = None

    async def fetch(self, sql: str, *args: Any) -> list[dict[str, Any]]:
        self.ran = (sql, args)
        return self.rows

    async def fetchrow(self, sql: str, *args: Any) -> dict[str, Any] | None:
        return next(iter(await self.fetch(sql, *args)), None)

    async def fetchval(self, sql: str, *args: Any) -> Any:
        row = await self.fetchrow(sql, *args)
        return None if row is None else next(iter(row.values()))

    async def execute(self, sql: str, *args: Any) -> int:
        return len(await self.fetch(sql, *args))


@pytest.mark.parametrize(
    ("query", "sql", "names"),
    [
        (
            Mitra.select(*columns_of(Mitra, Named)).where(Mitra.id == p.mitra_id).lock_rows("NO KEY UPDATE"),
            'SELECT ALL "mitras"."id" AS "id", "mitras"."display_name" AS "display_name" FROM "mitras" '
            'WHERE "mitras"."id" = $1 FOR NO KEY UPDATE',
            ("mitra_id",),
        ),
        (
            insert(Mitra, "id phone display_name created_at", is_active=True)
            .on_conflict(Mitra.phone, "DO NOTHING")
            .returning(Mitra.id),
            'INSERT INTO "mitras" ("id", "phone", "display_name", "created_at", "is_active") '
            'VALUES ($1, $2, $3, $4, true) ON CONFLICT ("phone") DO NOTHING RETURNING "id"',
            ("id", "phone", "display_name", "created_at"),
        ),
        (
            insert(OperatorAudit, "id operator_id action object_type object_id before created_at"),
            'INSERT INTO "operator_audit_log" '
            '("id", "operator_id", "action", "object_type", "object_id", "before", "created_at") '
            "VALUES ($1, $2, $3, $4, $5, $6, $7)",
            ("id", "operator_id", "action", "object_type", "object_id", "before", "created_at"),
        ),
        (
            MitraOnlineStatus.update(
                {MitraOnlineStatus.last_offline_at: p.now, MitraOnlineStatus.updated_at: p.now}
            ).where(MitraOnlineStatus.mitra_id == p.mitra_id, MitraOnlineStatus.is_online.eq(True)),
            'UPDATE "mitra_online_status" SET "last_offline_at" = $1, "updated_at" = $1 '
            'WHERE ("mitra_online_status"."mitra_id" = $2 AND "mitra_online_status"."is_online" = true)',
            ("now", "mitra_id"),
        ),
        (
            transition(PaymentRequest, EDGES, [Status.PENDING], Status.CONFIRMED, confirmed_at=p.now),
            """UPDATE "payment_requests" SET "status" = 'confirmed', "confirmed_at" = $1 """
            """WHERE ("payment_requests"."id" = $2 AND "payment_requests"."status" = 'pending')""",
            ("now", "id"),
        ),
        (
            transition(PaymentRequest, EDGES, [Status.PENDING, Status.FAILED], Status.CONFIRMED, consumed_at=None),
            """UPDATE "payment_requests" SET "status" = 'confirmed', "consumed_at" = NULL WHERE ("payment_requests"."id" """
            """= $1 AND "payment_requests"."status" IN ('pending', 'failed_pairing'))""",
            ("id",),
        ),
        (
            PaymentRequest.delete().where(PaymentRequest.id == p.id, PaymentRequest.mode == "it's {} or $1"),
            """DELETE FROM "payment_requests" WHERE ("payment_requests"."id" = $1 """
            """AND "payment_requests"."mode" = 'it''s {} or $1')""",
            ("id",),
        ),
    ],
    ids=["lock", "insert", "insert_json", "guarded_update", "transition", "transition_from_two", "delete"],
)
def test_query_compiles_to_this_sql(query: Any, sql: str, names: tuple[str, ...]):
    assert statement(query) == Statement(sql, names, dict)


def test_update_or_delete_without_a_condition_is_refused():
    with pytest.raises(UpdateError):
        statement(Mitra.update({Mitra.is_active: False}))
    with pytest.raises(DeletionError):
        statement(Mitra.delete())


@pytest.mark.parametrize("value", [dt.datetime(2026, 11, 23, tzinfo=dt.UTC), 1.5, b"bytes"])
def test_constant_that_is_no_text_integer_or_boolean_is_refused(value: Any):
    with pytest.raises(TypeError, match="can't be a constant"):
        statement(Mitra.update({Mitra.push_token: value}).where(Mitra.id == p.id))


def test_insert_without_a_required_column_is_refused():
    with pytest.raises(ValueError, match="display_name, created_at must have a value"):
        insert(Mitra, "id phone")


def test_insert_of_an_unknown_column_is_refused():
    with pytest.raises(ValueError, match="nickname"):
        insert(Mitra, "id phone display_name created_at nickname")


def test_transition_without_an_edge_is_refused():
    with pytest.raises(ValueError, match="no edge from confirmed to pending"):
        transition(PaymentRequest, EDGES, [Status.CONFIRMED], Status.PENDING)


def test_names_of_a_record_are_its_columns_in_order():
    assert names_of(Named) == "id, display_name"


def test_record_field_without_a_column_is_refused():
    with pytest.raises(ValueError, match="display_name"):
        columns_of(PaymentRequest, Named)


@pytest.mark.anyio
async def test_values_are_sent_in_the_order_of_the_parameters():
    renamed = statement(Mitra.update({Mitra.display_name: p.name}).where(Mitra.id == p.id).returning(Mitra.id))
    connection = Connection([{"id": "m1"}])
    assert await renamed.value(connection, id="m1", name="Sri") == "m1"
    assert connection.ran == (renamed.sql, ("Sri", "m1"))


@pytest.mark.anyio
async def test_rows_become_records():
    found = statement(Mitra.select(*columns_of(Mitra, Named)).where(Mitra.phone == p.phone), Named)
    connection = Connection([{"id": "m1", "display_name": "Sri"}])
    assert await found.first(connection, phone="0") == Named(id="m1", display_name="Sri")
    assert await found.one(connection, phone="0") == Named(id="m1", display_name="Sri")
    assert await found.all(connection, phone="0") == [Named(id="m1", display_name="Sri")]
    connection.rows = []
    assert await found.first(connection, phone="0") is None
    with pytest.raises(LookupError):
        await found.one(connection, phone="0")
    assert await found.value(connection, phone="0") is None


@pytest.mark.anyio
@pytest.mark.parametrize("values", [{}, {"id": "m1", "name": "Sri"}])
async def test_missing_or_unknown_values_are_refused(values: dict[str, Any]):
    found = statement(Mitra.select(Mitra.id).where(Mitra.id == p.id))
    with pytest.raises(TypeError, match="the parameters are"):
        await found.first(Connection([]), **values)


@pytest.mark.anyio
async def test_query_that_is_not_compiled_never_connects():
    with pytest.raises(RuntimeError, match="compile the query"):
        await Mitra.select(Mitra.id).run()
