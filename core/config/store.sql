-- name: anchor
-- Store the anchor $1 unless there is one; return the anchor. No row if another process has just stored it.
WITH mine AS (
  INSERT INTO service_clock (id, anchor)
  VALUES (1, $1)
  ON CONFLICT (id) DO NOTHING
  RETURNING anchor
)

SELECT anchor
FROM mine
UNION ALL
SELECT anchor
FROM service_clock
LIMIT 1;

-- name: values_before
-- The value of the row $1 before each change after $2, from the audit rows about such changes ($3: their action).
SELECT before -> 'value' AS value
FROM operator_audit_log
WHERE object_id = $1 AND created_at > $2 AND action = $3;
