"""The migrations of this version of the code."""

import functools
import pathlib

MIGRATIONS = pathlib.Path(__file__).parents[2] / "piccolo_migrations"


@functools.cache
def migration_ids() -> frozenset[str]:
    """Return the ids of all migrations in this version of the code."""
    found = set()
    for path in MIGRATIONS.glob("sesi_*.py"):
        for line in path.read_text().splitlines():
            if line.startswith("ID = "):
                found.add(line.split('"')[1])
    return frozenset(found)
