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
