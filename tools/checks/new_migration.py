"""`make migration NAME=…` writes the next migration, with what the code declares and the database lacks.
`make migration` seals new migrations: the first line of a sealed file has the hash of the others.
"""

import argparse
import asyncio
import hashlib
import itertools
import pathlib
import re
import sys
from collections.abc import Sequence

import asyncpg

from core.storage.migrations import MIGRATIONS, NEXT_TRANSACTION, files, migration_ids
from core.storage.table_list import declared_tables
from tools.checks.schema_drift import ChangedCheck, changed_checks, changed_functions, declared_checks
from tools.checks.state_triggers import SETS, TRIGGERS, StateSet, StateTrigger
from tools.driving.service import Service

OTHER = "-- Other statements. Each must work twice, and rows of running processes must stay valid.\n"
VALIDATED = "-- Check the rows that were there before. This blocks no reader or writer.\n"
SEAL = re.compile(r"\A-- sha256 ([0-9a-f]{64})\n")


def text_of(checks: Sequence[ChangedCheck], functions: Sequence[StateSet | StateTrigger]) -> str:
    """Return the text of a migration.

    The constraints of each table are replaced in a separate transaction, and first hold for new rows only. The last
    transaction checks the old rows.
    """
    parts = ["\n".join(map(_replaced, group)) for _, group in itertools.groupby(checks, lambda check: check.table)]
    parts.append("\n".join([*(one.function_sql() for one in functions), OTHER]))
    if validated := "".join(_validated(check) for check in checks if check.condition is not None):
        parts.append(VALIDATED + validated)
    return f"\n{NEXT_TRANSACTION}".join(parts)


def is_sealed(text: str) -> bool:
    """Return whether databases may have run a migration: its text has a seal, which may be wrong by now."""
    return SEAL.match(text) is not None


def is_changed(text: str) -> bool:
    """Return whether the text of a sealed migration was changed."""
    found = SEAL.match(text)
    return found is not None and found[1] != _digest(text)


def seal(folder: pathlib.Path = MIGRATIONS) -> int:
    """Seal the new migrations of a folder; return the exit code, which is 1 when a sealed one was changed."""
    texts = {path: path.read_text() for path in files(folder).values()}
    if wrong := [path.name for path, text in texts.items() if is_changed(text)]:
        sys.stderr.write(f"{', '.join(wrong)}: databases have run it as it was; add a new migration instead.\n")
        return 1
    for path, text in texts.items():
        if not is_sealed(text):
            path.write_text(f"-- sha256 {_digest(text)}\n{text}")
    return 0


def _digest(text: str) -> str:
    return hashlib.sha256(SEAL.sub("", text).encode()).hexdigest()


def _replaced(check: ChangedCheck) -> str:
    dropped = f"ALTER TABLE {check.table} DROP CONSTRAINT IF EXISTS {check.name};\n"
    if check.condition is None:
        return dropped
    return f"{dropped}ALTER TABLE {check.table}\nADD CONSTRAINT {check.name} CHECK ({check.condition}) NOT VALID;\n"


def _validated(check: ChangedCheck) -> str:
    return f"ALTER TABLE {check.table} VALIDATE CONSTRAINT {check.name};\n"


async def _changes(url: str) -> tuple[list[ChangedCheck], list[StateSet | StateTrigger]]:
    connection = await asyncpg.connect(url)
    try:
        return (
            await changed_checks(connection, declared_checks(declared_tables())),
            await changed_functions(connection, [*SETS, *TRIGGERS]),
        )
    finally:
        await connection.close()


def main(arguments: list[str] | None = None) -> int:
    """Write a migration, or seal the new ones; return 2 if the name is not lower-case words joined by underscores."""
    options = argparse.ArgumentParser(description=main.__doc__)
    options.add_argument("name", nargs="?", help="for example: mitra_left; without it, new migrations are sealed")
    name = options.parse_args(arguments).name
    if name is None:
        return seal()
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        sys.stderr.write("NAME must be lower-case words joined by underscores, for example NAME=mitra_left\n")
        return 2
    service = Service(durable=False, prefix="sesi-migration-")
    try:
        service.command("migrate")
        changes = asyncio.run(_changes(service.database_url))
    finally:
        service.close()
    path = MIGRATIONS / f"{int(max(migration_ids())) + 1:04}_{name}.sql"
    path.write_text(text_of(*changes))
    print(f"{MIGRATIONS.name}/{path.name}\nComplete the SQL, then run `make migration`.")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
