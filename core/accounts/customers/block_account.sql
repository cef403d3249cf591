-- name: carry
-- Give the block of the customer $1, if it holds at $3, to the account $2, unless its own block ends later.
UPDATE customers AS a
SET blocked_at = c.blocked_at, blocked_until = c.blocked_until, block_reason = c.block_reason
FROM customers AS c
WHERE
  a.id = $2
  AND c.id = $1
  AND c.blocked_at IS NOT NULL
  AND (c.blocked_until IS NULL OR c.blocked_until > $3)
  AND (a.blocked_at IS NULL OR a.blocked_until < coalesce(c.blocked_until, 'infinity'));

-- name: of_all
-- The blocks that hold at $2 of the accounts of customers ($1).
SELECT
  c.id,
  a.blocked_at,
  a.blocked_until AS until,
  a.block_reason AS reason
FROM customers AS c
JOIN customers AS a ON a.id = coalesce(c.account_belongs_to, c.id)
WHERE c.id = ANY($1::uuid[]) AND a.blocked_at IS NOT NULL AND (a.blocked_until IS NULL OR a.blocked_until > $2);
