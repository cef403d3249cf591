"""Partition webhook_logs, chat_request_notifications and chat_messages by month (docs/operating.md#partitions-by-month).

No row is copied: the table becomes the first partition of a new table with its name. What takes long on a big table is
done before, while processes write: a CHECK that all ids are below the end of a month is validated, and indexes are built
CONCURRENTLY. The swap is one short transaction. A run that dies is finished by the next one: each step looks what is
there, and a table that is partitioned is left alone.
"""

import datetime as dt
import uuid
from typing import Any

import asyncpg
import attrs
from piccolo.apps.migrations.auto.migration_manager import MigrationManager

from core.base.id_ranges import first_id, moment_of, month_of, months_after
from core.storage.concurrent_indexes import ensure_index
from core.storage.piccolo_conf import DB

ID = "0006"
# Up to three locks are waited for one after the other, and readers and writers wait behind them: together less than a
# second. After that time (deadlock_timeout) PostgreSQL may end their transactions, if one has a lock that is needed next.
LOCKS = "SET LOCAL lock_timeout = '300ms'"
LEAST = dt.timedelta(days=14)  # the first partition must take rows for this long: other months come after the migration
MOST = dt.timedelta(days=3650)  # an id further in the future was not made by this service
KIND = "SELECT relkind::text FROM pg_class WHERE oid = to_regclass($1)"
BOUNDS = """SELECT conname::text FROM pg_constraint
  WHERE conrelid = to_regclass($1) AND contype = 'c' AND conname LIKE $1 || '_before_%'"""
CONSTRAINTS = """SELECT contype::text AS kind, conname::text AS name, pg_get_constraintdef(oid) AS definition FROM pg_constraint
  WHERE conrelid = to_regclass($1) AND contype IN ('p', 'u', 'f') ORDER BY 1, 2"""
INDEXES = """SELECT c.relname::text AS name, pg_get_indexdef(c.oid) AS definition
  FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
  WHERE i.indrelid = to_regclass($1) AND NOT EXISTS (SELECT 1 FROM pg_constraint AS k WHERE k.conindid = c.oid AND k.contype IN ('p', 'u'))
  ORDER BY 1"""
TRIGGERS = """SELECT tgname::text AS name, pg_get_triggerdef(oid) AS definition FROM pg_trigger
  WHERE tgrelid = to_regclass($1) AND NOT tgisinternal ORDER BY 1"""
COUNT = "SELECT count(*) FROM pg_index WHERE indrelid = to_regclass($1)"
# Privileges of other roles, and the owner.
RIGHTS = """SELECT format('GRANT %s ON %I TO %s', a.privilege_type, c.relname,
    CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END) AS sql
  FROM pg_class AS c CROSS JOIN aclexplode(c.relacl) AS a WHERE c.oid = to_regclass($1) AND a.grantee <> c.relowner
  UNION ALL SELECT format('ALTER TABLE %I OWNER TO %I', relname, pg_get_userbyid(relowner)) FROM pg_class WHERE oid = to_regclass($1)"""
ACTIVITY = "chat_request_notifications (notified_at) INCLUDE (mitra_id, response, session_id)"


@attrs.frozen
class Plan:
    """A table to partition by `key`.

    `referenced`: the tables of its foreign keys, in the order in which flows lock them. `wider`: an index that gets the
    column of the key, so that a count needs only the index.
    """

    table: str
    key: str
    referenced: str | None = None
    wider: str | None = None


PLANS = (
    Plan("webhook_logs", "id"),
    Plan("chat_request_notifications", "session_id", "mitras, chat_sessions", "chat_request_notifications_activity"),
    Plan("chat_messages", "session_id"),
)


async def partition(connection: Any, plan: Plan) -> None:
    """Partition a table. Raises LockNotAvailableError, after which a further call goes on."""
    if await connection.fetchval(KIND, plan.table) == "p":
        return
    first, bound = await _bounded(connection, plan)
    await _run(connection, f"ALTER TABLE {plan.table} VALIDATE CONSTRAINT {first}")
    if plan.key == "id":
        # For the retention of calls without a valid token.
        await ensure_index(connection, f"{plan.table}_unproven", f"{plan.table} (received_at) WHERE NOT token_valid")
    else:
        await ensure_index(connection, f"{plan.table}_primary", f"{plan.table} ({plan.key}, id)", unique=True)
    if plan.wider is not None:
        await ensure_index(connection, f"{plan.wider}_wider", ACTIVITY)
    async with connection.transaction():
        await _swap(connection, plan, first, bound)
    await _run(connection, f"ANALYZE {plan.table}")


async def _run(connection: Any, sql: str) -> None:
    """Run a statement for whose locks no reader or writer waits, so that it may wait itself."""
    await connection.execute("SET lock_timeout = 0")
    try:
        await connection.execute(sql)
    finally:
        await connection.execute("RESET lock_timeout")


async def _bounded(connection: Any, plan: Plan) -> tuple[str, str]:
    """Add the CHECK that ids are below a month, if it is not there; return (its name, the bound).

    The month is far enough ahead for rows that are written before the further partitions exist. An interrupted run may
    have left a CHECK with a month that is too near by now; it is replaced.
    """
    table, key = plan.table, plan.key
    now = await connection.fetchval("SELECT clock_timestamp()")
    old = [row["conname"] for row in await connection.fetch(BOUNDS, table)]
    for name in old:
        month = dt.datetime.strptime(name.removeprefix(f"{table}_before_"), "%Y_%m").replace(tzinfo=dt.UTC)
        if month > now + LEAST:
            return name, first_id(month)
    # With SESI_TIME_SCALE ids are ahead of the database's clock.
    newest = await connection.fetchval(f"SELECT {key} FROM {table} ORDER BY {key} DESC LIMIT 1")
    month = months_after(month_of(max(now, _time(table, newest, now))), 2)
    name, bound = f"{table}_before_{month:%Y_%m}", first_id(month)
    dropped = "".join(f"DROP CONSTRAINT {one}, " for one in old)
    async with connection.transaction():
        await connection.execute(LOCKS)
        await connection.execute(
            f"ALTER TABLE {table} {dropped}ADD CONSTRAINT {name} CHECK ({key} < '{bound}') NOT VALID"
        )
    return name, bound


def _time(table: str, newest: uuid.UUID | None, now: dt.datetime) -> dt.datetime:
    """Return the time of a table's highest id. Raises RuntimeError for an id that this service did not make."""
    if newest is None:
        return now
    if newest.version != 7 or newest.int >> 80 > (now + MOST).timestamp() * 1000:
        raise RuntimeError(
            f"{table}: the id {newest} was not made by this service (UUIDv7 of its time). Correct or delete the rows "
            f"with ids above {first_id(now)} that are not of version 7, then run `sesi migrate` again."
        )
    return moment_of(str(newest))


async def _swap(connection: Any, plan: Plan, first: str, bound: str) -> None:
    """Make the table the partition `first` of a new table with its name, columns, constraints, indexes and triggers."""
    table = plan.table
    await connection.execute(LOCKS)
    if plan.referenced is not None:
        # Attaching removes the triggers of the old foreign keys, which takes this lock. A weaker one now would have to be
        # raised then, in a deadlock with each transaction that has read these tables and waits to write to them.
        await connection.execute(f"LOCK TABLE {plan.referenced} IN ACCESS EXCLUSIVE MODE")
    await connection.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
    if plan.wider is not None:
        await connection.execute(f"DROP INDEX {plan.wider}")
        await connection.execute(f"ALTER INDEX {plan.wider}_wider RENAME TO {plan.wider}")
    constraints, triggers = await connection.fetch(CONSTRAINTS, table), await connection.fetch(TRIGGERS, table)
    indexes = [row for row in await connection.fetch(INDEXES, table) if row["name"] != f"{table}_primary"]
    rights = await connection.fetch(RIGHTS, table)
    statements = [f"DROP TRIGGER {row['name']} ON {table}" for row in triggers]
    statements.append(f"ALTER TABLE {table} RENAME TO {first}")
    statements += [f"ALTER INDEX {row['name']} RENAME TO {first}{row['name'].removeprefix(table)}" for row in indexes]
    statements += [
        f"ALTER TABLE {first} RENAME CONSTRAINT {row['name']} TO {first}{row['name'].removeprefix(table)}"
        for row in constraints
        if row["kind"] in ("p", "u")
    ]
    if plan.key != "id":
        statements.append(
            f"ALTER TABLE {first} DROP CONSTRAINT {first}_pkey, "
            f"ADD CONSTRAINT {first}_pkey PRIMARY KEY USING INDEX {table}_primary"
        )
    statements += [
        f"CREATE TABLE {table} (LIKE {first} INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING STORAGE) "
        f"PARTITION BY RANGE ({plan.key})",
        f"ALTER TABLE {table} DROP CONSTRAINT {first}",
    ]
    for row in constraints:
        primary = f"PRIMARY KEY ({'id' if plan.key == 'id' else f'{plan.key}, id'})"
        definition = primary if row["kind"] == "p" else row["definition"]
        statements.append(f"ALTER TABLE {table} ADD CONSTRAINT {row['name']} {definition}")
    statements += [row["definition"] for row in indexes]
    for sql in statements:
        await connection.execute(sql)
    before = await connection.fetchval(COUNT, first)
    await connection.execute(f"ALTER TABLE {table} ATTACH PARTITION {first} FOR VALUES FROM (MINVALUE) TO ('{bound}')")
    if await connection.fetchval(COUNT, first) != before:
        raise RuntimeError(f"{table}: an index differs from those that the migrations make")
    await connection.execute(f"ALTER TABLE {first} DROP CONSTRAINT {first}")
    for sql in [*(row["definition"] for row in triggers), *(row["sql"] for row in rights)]:
        await connection.execute(sql)


async def forwards() -> MigrationManager:
    """Return the migration."""

    async def run() -> None:
        connection = await asyncpg.connect(**DB.config)
        try:
            for plan in PLANS:
                await partition(connection, plan)
        finally:
            await connection.close()

    manager = MigrationManager(
        migration_id=ID, app_name="sesi", description="0006_partitions", wrap_in_transaction=False
    )
    manager.add_raw(run)
    return manager
