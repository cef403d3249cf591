"""`make migration NAME=…`: write the next migration, with what the code declares and the database lacks."""

import argparse
import asyncio
import itertools
import re
import sys
from collections.abc import Sequence

import asyncpg

from core.storage.migrations import MIGRATIONS, NEXT_TRANSACTION, migration_ids
from tools.checks.schema_drift import ChangedCheck, changed_checks, changed_triggers, declared_checks, tables
from tools.checks.state_triggers import TRIGGERS, StateTrigger
from tools.driving.service import Service

OTHER = "-- Other statements. Each must work twice, and rows of running processes must stay valid.\n"


def files_of(
    migration_id: str, name: str, checks: Sequence[ChangedCheck], triggers: Sequence[StateTrigger]
) -> dict[str, str]:
    """Return the files of a migration: path below piccolo_migrations -> text.

    The constraints of each table are replaced in a separate transaction, and first hold for new rows only. A second
    file checks the old rows without blocking anyone.
    """
    stem = f"{migration_id}_{name}"
    parts = ["\n".join(map(_replaced, group)) for _, group in itertools.groupby(checks, lambda check: check.table)]
    parts.append("\n".join([*(trigger.function_sql() for trigger in triggers), OTHER]))
    files = {f"sql/{stem}.sql": f"\n{NEXT_TRANSACTION}".join(parts)}
    if validated := "".join(_validated(check) for check in checks if check.condition is not None):
        files[f"sql/{stem}_validate.sql"] = "-- Check the rows that were there before.\n" + validated
    names = [check.name for check in checks] + [trigger.name for trigger in triggers]
    purpose = f"Replace {', '.join(names)}" if names else name.replace("_", " ").capitalize()
    listed = ", ".join(f'"{path.removeprefix("sql/")}"' for path in files)
    script = f'''"""{purpose}."""

from core.storage.sql_migration import sql_migration

ID = "{migration_id}"
forwards = sql_migration(__file__, ID, {listed})
'''
    return {f"{stem}.py": script, **files}


def _replaced(check: ChangedCheck) -> str:
    dropped = f"ALTER TABLE {check.table} DROP CONSTRAINT IF EXISTS {check.name};\n"
    if check.condition is None:
        return dropped
    return f"{dropped}ALTER TABLE {check.table}\nADD CONSTRAINT {check.name} CHECK ({check.condition}) NOT VALID;\n"


def _validated(check: ChangedCheck) -> str:
    return f"ALTER TABLE {check.table} VALIDATE CONSTRAINT {check.name};\n"


async def _changes(url: str) -> tuple[list[ChangedCheck], list[StateTrigger]]:
    connection = await asyncpg.connect(url)
    try:
        return (
            await changed_checks(connection, declared_checks(tables())),
            await changed_triggers(connection, TRIGGERS),
        )
    finally:
        await connection.close()


def main(arguments: list[str] | None = None) -> int:
    """Write a migration; return 2 if the name is not lower-case words joined by underscores."""
    options = argparse.ArgumentParser(description=main.__doc__)
    options.add_argument("name", help="for example: mitra_left")
    name = options.parse_args(arguments).name
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        sys.stderr.write("NAME must be lower-case words joined by underscores, for example NAME=mitra_left\n")
        return 2
    service = Service(durable=False, prefix="sesi-migration-")
    try:
        service.command("migrate")
        checks, triggers = asyncio.run(_changes(service.database_url))
    finally:
        service.close()
    migration_id = f"{int(max(migration_ids())) + 1:04}"
    for path, text in files_of(migration_id, name, checks, triggers).items():
        (MIGRATIONS / path).write_text(text)
        print(MIGRATIONS.name + "/" + path)
    print("Complete the SQL, then run `make migrations`.")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
