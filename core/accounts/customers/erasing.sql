-- name: rows_of
-- The account and all customers that have joined it.
SELECT id::text
FROM customers
WHERE id = $1 OR account_belongs_to = $1
ORDER BY id;

-- name: lock_rows
-- Lock customers except one.
SELECT id
FROM customers
WHERE id = ANY($1::uuid[]) AND id IS DISTINCT FROM $2::uuid
ORDER BY id
FOR NO KEY UPDATE;

-- name: mark_erased
-- Store that customers are erased at $2.
UPDATE customers
SET erased_at = coalesce(erased_at, $2)
WHERE id = ANY($1::uuid[]);

-- name: erased_at
-- When the customers among $1 who were erased were.
SELECT
  id::text,
  erased_at
FROM customers
WHERE id = ANY($1::uuid[]) AND erased_at IS NOT NULL;

-- name: begin_export
-- Record an export at $2, unless there was one after $3.
UPDATE customers
SET exported_at = $2
WHERE id = $1 AND (exported_at IS NULL OR exported_at <= $3)
RETURNING id;

-- name: exported_at
-- The time of a customer's last export.
SELECT exported_at
FROM customers
WHERE id = $1;
