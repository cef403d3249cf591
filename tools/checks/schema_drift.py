"""The CHECK constraints and functions of states whose declaration differs from a database
(CONTRIBUTING.md#add-a-migration)."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs
from piccolo.constraints import Check

from tools.checks.state_triggers import StateSet, StateTrigger

CHECKS = """SELECT conname::text AS name, pg_get_constraintdef(oid) AS definition FROM pg_constraint
  WHERE conrelid = $1::regclass AND contype = 'c'"""
FUNCTION = "SELECT pg_get_functiondef(to_regproc($1))"


@attrs.frozen
class ChangedCheck:
    """A constraint to replace or add; to drop if `condition` is None."""

    table: str
    name: str
    condition: str | None


def declared_checks(declared: Iterable[Any]) -> dict[str, dict[str, str]]:
    """Return the conditions of CHECK constraints: table -> name -> condition."""
    return {
        table._meta.tablename: {
            f"{table._meta.tablename}_{one._meta.name}": str(one.condition)
            for one in table._meta.constraints
            if isinstance(one, Check)
        }
        for table in declared
    }


async def changed_checks(connection: Any, declared: Mapping[str, Mapping[str, str]]) -> list[ChangedCheck]:
    """Return the constraints that differ between a declaration and the database.

    PostgreSQL rewords conditions, so the declared ones are first given to a temporary copy of the table.
    """
    changed: list[ChangedCheck] = []
    for table, conditions in declared.items():
        present = {row["name"]: row["definition"] for row in await connection.fetch(CHECKS, f"public.{table}")}
        wanted = await _definitions(connection, table, conditions)
        changed += [
            ChangedCheck(table, name, conditions.get(name))
            for name in sorted(present.keys() | wanted.keys())
            if _plain(present.get(name)) != _plain(wanted.get(name))
        ]
    return changed


async def changed_functions(
    connection: Any, declared: Sequence[StateSet | StateTrigger]
) -> list[StateSet | StateTrigger]:
    """Return the sets and triggers whose function in the database has other states or edges than the declared ones."""
    found = [(one, await connection.fetchval(FUNCTION, one.name)) for one in declared]
    return [one for one, function in found if function is None or not one.is_in(function)]


async def _definitions(connection: Any, table: str, conditions: Mapping[str, str]) -> dict[str, str]:
    """Return the conditions of a table's constraints in the words of PostgreSQL."""
    transaction = connection.transaction()
    await transaction.start()
    try:
        await connection.execute(f"CREATE TEMP TABLE declared (LIKE public.{table})")
        for name, condition in conditions.items():
            await connection.execute(f"ALTER TABLE declared ADD CONSTRAINT {name} CHECK ({condition})")
        return {row["name"]: row["definition"] for row in await connection.fetch(CHECKS, "pg_temp.declared")}
    finally:
        await transaction.rollback()


def _plain(definition: str | None) -> str | None:
    """Return a definition with the values of each list in alphabetical order, as their order has no meaning."""

    def ordered(found: re.Match[str]) -> str:
        return "ARRAY[" + ", ".join(sorted(found[1].split(", "))) + "]"

    return definition and re.sub(r"ARRAY\[(.*?)\]", ordered, definition)
