-- name: add
-- Store the block $1 of the account $2 and the mitra $3 by a side ($4) of the session $5, at $6. It holds since they
-- were last paired, if that is later: the clocks of processes differ.
INSERT INTO blocks (id, customer_id, mitra_id, blocked_by, session_id, holds_since, created_at)
SELECT
  $1,
  $2,
  $3,
  $4,
  $5,
  greatest($6::timestamptz, max(s.paired_at)),
  $6
FROM chat_sessions AS s
WHERE s.customer_id = $2 AND s.mitra_id = $3
ON CONFLICT DO NOTHING;

-- name: are_blocked
-- Whether the customer $1, or their account, and the mitra $2 have a block.
SELECT EXISTS(
  SELECT 1
  FROM blocked_mitras($1) AS b
  WHERE b.mitra_id = $2
);

-- name: of_customers
-- The mitras who have a block with each of these customers ($1). A customer without one has no row.
SELECT
  c.id::text AS customer_id,
  array_agg(DISTINCT b.mitra_id::text) AS mitra_ids
FROM unnest($1::uuid[]) AS c (id)
CROSS JOIN LATERAL blocked_mitras(c.id) AS b
GROUP BY c.id;

-- name: move
-- Move the blocks of the customer $1 to the account $2, which has no equal ones, at $3.
UPDATE blocks AS b
SET customer_id = $2, holds_since = $3
WHERE
  b.customer_id = $1 AND NOT EXISTS (
    SELECT 1
    FROM blocks AS o
    WHERE o.customer_id = $2 AND o.mitra_id = b.mitra_id AND o.blocked_by = b.blocked_by
  );
