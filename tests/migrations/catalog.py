"""The schema of a database as a set of lines; equal schemas have equal sets, whatever migrations created them."""

import re
from typing import Any

# Objects of the schema `public`, without those of extensions, and without the partitions of months: which ones there are
# depends on the time. The first partition, from before a month, is compared as if that month were always the same. Columns are compared by name, not by position: a column
# that a later migration added is the last one in an old database.
LINES = """
WITH objects AS (
  SELECT c.* FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace
    AND NOT (c.relispartition AND c.relname !~ '_before_')
    AND NOT EXISTS (SELECT 1 FROM pg_index i JOIN pg_class t ON t.oid = i.indrelid WHERE i.indexrelid = c.oid AND t.relispartition AND t.relname !~ '_before_')
    AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')
)
SELECT format('relation %s kind %s persistence %s options %s', relname, relkind, relpersistence, reloptions) FROM objects
UNION ALL
SELECT format('column %s.%s %s not null %s identity "%s" generated "%s" default %s', o.relname, a.attname,
    format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity, a.attgenerated, pg_get_expr(d.adbin, d.adrelid))
  FROM objects o JOIN pg_attribute a ON a.attrelid = o.oid AND a.attnum > 0 AND NOT a.attisdropped
  LEFT JOIN pg_attrdef d ON d.adrelid = o.oid AND d.adnum = a.attnum WHERE o.relkind IN ('r', 'p', 'v', 'm')
UNION ALL
SELECT format('constraint %s on %s %s validated %s deferrable %s deferred %s', c.conname, c.conrelid::regclass,
    pg_get_constraintdef(c.oid), c.convalidated, c.condeferrable, c.condeferred)
  FROM pg_constraint c JOIN objects o ON o.oid = c.conrelid
UNION ALL
SELECT format('partition %s of %s %s', o.relname, i.inhparent::regclass, pg_get_expr(o.relpartbound, o.oid))
  FROM pg_inherits i JOIN objects o ON o.oid = i.inhrelid
UNION ALL
SELECT format('index %s valid %s', pg_get_indexdef(i.indexrelid), i.indisvalid)
  FROM pg_index i JOIN objects o ON o.oid = i.indexrelid
UNION ALL
SELECT format('trigger on %s enabled %s %s', t.tgrelid::regclass, t.tgenabled, pg_get_triggerdef(t.oid))
  FROM pg_trigger t JOIN objects o ON o.oid = t.tgrelid WHERE NOT t.tgisinternal
UNION ALL
SELECT format('function %s', pg_get_functiondef(p.oid)) FROM pg_proc p
  WHERE p.pronamespace = 'public'::regnamespace AND p.prokind <> 'a'
    AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e')
UNION ALL
SELECT format('type %s %s', t.typname, t.typtype) FROM pg_type t
  WHERE t.typnamespace = 'public'::regnamespace AND t.typtype IN ('e', 'd', 'r')
UNION ALL
SELECT format('extension %s', extname) FROM pg_extension
"""
TABLES = "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') ORDER BY 1"


async def schema(connection: Any) -> set[str]:
    """Return a line for each table, column, constraint, index, trigger, function, type and extension."""
    return {normal(row[0]) for row in await connection.fetch(LINES)}


def normal(line: str) -> str:
    """Return a line without the month of a first partition, and without what has no meaning in a function: comments,
    line breaks and spaces around brackets."""
    line = re.sub(r"_before_\d{4}_\d{2}", "_before_month", line)
    if line.startswith("partition "):
        return re.sub(r"'[0-9a-f-]{36}'", "month", line)
    if not line.startswith("function "):
        return line
    words = " ".join(re.sub(r"--.*", "", line).split())
    return re.sub(r" ?([(),;]) ?", r"\1", words)


async def rows(connection: Any) -> dict[str, str | None]:
    """Return a hash of the rows of each table; None for an empty one."""
    names = [row["relname"] for row in await connection.fetch(TABLES)]
    found: dict[str, str | None] = {}
    for name in names:
        found[name] = await connection.fetchval(f"SELECT md5(string_agg(t::text, ',' ORDER BY t::text)) FROM {name} t")
    return found
