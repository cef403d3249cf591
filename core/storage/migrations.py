"""The migrations of this version of the code."""

import functools
import pathlib

# A migration that waits for a table lock blocks every later statement on that table, such as sign-in and refresh. So
# each statement of a migration gives up after this time, and `sesi migrate` retries.
LOCK_TIMEOUT = "2s"
# The line of a migration's SQL file where the next transaction begins. Each transaction locks one table that processes
# use, and takes its strongest lock first. Otherwise a process that waits for one of its locks may have a lock that it
# needs next, and PostgreSQL may resolve the deadlock by ending the transaction of the process.
NEXT_TRANSACTION = "-- next transaction\n"
MIGRATIONS = pathlib.Path(__file__).parents[2] / "piccolo_migrations"


def id_of(path: pathlib.Path) -> str:
    """Return the id of a migration, the number in its file's name."""
    return path.stem.partition("_")[0]


def files(folder: pathlib.Path = MIGRATIONS) -> dict[str, pathlib.Path]:
    """Return the files of a folder in the order in which they run: id -> path."""
    return {id_of(path): path for path in sorted(folder.glob("[0-9]*.sql"))}


@functools.cache
def migration_ids() -> frozenset[str]:
    """Return the ids of all migrations in this version of the code."""
    return frozenset(files())
