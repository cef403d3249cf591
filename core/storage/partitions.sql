-- name: partitions
-- The partitions of the tables $1.
SELECT
  p.relname::text AS of,
  c.relname::text AS name,
  pg_get_expr(c.relpartbound, c.oid) AS bounds,
  i.inhdetachpending AS is_detaching
FROM pg_inherits AS i
JOIN pg_class AS c ON c.oid = i.inhrelid
JOIN pg_class AS p ON p.oid = i.inhparent
WHERE p.oid = ANY(SELECT to_regclass(u.name) FROM unnest($1::text[]) AS u (name)) AND p.relkind = 'p';

-- name: options
-- Storage options, such as the fillfactor, which a partition has and its parent can't have.
SELECT array_to_string(reloptions, ', ')
FROM pg_class
WHERE oid = to_regclass($1);

-- name: owner
-- The owner of a table, if it is another role than ours. Only the owner of a partition may drop it.
SELECT quote_ident(nullif(pg_get_userbyid(relowner), current_user))
FROM pg_class
WHERE oid = to_regclass($1);

-- name: detached
-- The tables that were partitions of the table $1.
SELECT relname::text
FROM pg_class
WHERE
  relnamespace = (
    SELECT relnamespace
    FROM pg_class
    WHERE oid = to_regclass($1)
  )
  AND relkind = 'r'
  AND NOT relispartition
  AND relname ~ ('^' || $1 || '_(before_)?[0-9]{4,}_[0-9]{2}$')
ORDER BY relname;
