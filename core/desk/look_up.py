"""How the lists of core.desk.support find rows (docs/product.md#support).

Lists are newest first and filtered by a part of a name. A scan of the newest rows finds a common name soon, but for a
rare one it would read the whole table. So the people with that name are looked up first, with a trigram index. If there
are at most AT_MOST, their newest rows are read by key. If there are more, the newest rows contain enough of them.
"""

import datetime as dt

import attrs

from core.accounts.customers import store as customer_store
from core.base.ids import parse_id
from core.base.pages import Page
from core.runtime.container import Runtime
from core.storage.conditions import Conditions, part_of

AT_MOST = 1_000  # people with a name whose rows are read by key
# MATERIALIZED, because PostgreSQL would plan a LIMIT without it as a scan of the whole table.
# Names are compared in NFC and without case.
NAMED = "folded(c.display_name) LIKE folded({0})"
FITTING = """WITH fitting AS MATERIALIZED (
  SELECT c.id
  FROM {table} AS c
  WHERE {fits}
)
SELECT id
FROM fitting
LIMIT {limit}"""


@attrs.frozen(kw_only=True)
class LookUp:
    """Filters of a list: `q` is a part of a name or a whole id; the end of the range of creation is excluded."""

    q: str | None = None
    since: dt.datetime | None = None
    until: dt.datetime | None = None
    status: str | None = None


async def fitting(runtime: Runtime, table: str, fits: Conditions) -> list[str] | None:
    """Return the ids of the rows of `table` that match; None if there are more than AT_MOST."""
    limit = fits.arg(AT_MOST + 1)
    rows = await runtime.db.fetch(FITTING.format(table=table, fits=fits, limit=limit), *fits.args)
    return None if len(rows) > AT_MOST else [str(row["id"]) for row in rows]


async def named(runtime: Runtime, table: str, q: str) -> list[str] | None:
    """Return the ids of the people with this name or id; None if there are more than AT_MOST."""
    one = parse_id(q)
    if one is not None:
        return [one]
    fits = Conditions()
    fits.add(NAMED, part_of(q))
    return await fitting(runtime, table, fits)


async def accounts_named(runtime: Runtime, q: str) -> list[str] | None:
    """Return all ids of the accounts of customers with this name or id; None if there are too many customers.

    See docs/product.md#the-callers-ids.
    """
    ids = await named(runtime, "customers", q)
    if ids is None:
        return None
    accounts = await customer_store.ids_of_all(runtime.db, ids)
    return list({*ids, *(row_id for account in accounts.values() for row_id in account)})


def filters(t: str, page: Page, which: LookUp) -> Conditions:
    """Return the conditions of all filters but `q`, for a table with the alias `t`."""
    where = Conditions()
    where.add(f"{t}.created_at >= {{0}}", which.since)
    where.add(f"{t}.created_at < {{0}}", which.until)
    where.add(f"{t}.status = {{0}}", which.status)
    where.behind(f"{t}.created_at", f"{t}.id", before_at=page.before_at, before_id=page.before_id)
    return where
