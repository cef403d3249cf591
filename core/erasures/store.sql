-- name: begin
-- Store an erasure of a user ($3), or begin it again: a restored backup may have it without its effect.
INSERT INTO erasures (id, user_type, user_id, requested_by, began_at)
VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (user_id) DO UPDATE SET began_at = excluded.began_at, completed_at = NULL
RETURNING id, user_type, user_id, requested_by, began_at, completed_at;

-- name: pending
-- At most $3 erasures that are not complete, after ($1, $2).
SELECT
  id,
  user_type,
  user_id,
  requested_by,
  began_at,
  completed_at
FROM erasures
WHERE completed_at IS NULL AND ($1::timestamptz IS NULL OR (began_at, id) > ($1, $2::uuid))
ORDER BY began_at, id
LIMIT $3;

-- name: listed
-- At most $3 erasures after ($1, $2).
SELECT
  id,
  user_type,
  user_id,
  requested_by,
  began_at,
  completed_at
FROM erasures
WHERE $1::timestamptz IS NULL OR (began_at, id) > ($1, $2::uuid)
ORDER BY began_at, id
LIMIT $3;

-- name: claim
-- Lock an erasure that is not complete, unless another transaction has it.
SELECT id
FROM erasures
WHERE id = $1 AND completed_at IS NULL
FOR UPDATE SKIP LOCKED;

-- name: newest
-- When the last erasure began.
SELECT max(began_at)
FROM erasures;

-- name: of_lines
-- The payment requests ($1), failures and refunds (also $1) and invoices ($2) whose customer is erased, with
-- the customer. The gateway's calls about refunds name failures or refunds.
SELECT
  p.id::text,
  c.id::text AS customer_id
FROM payment_requests AS p
JOIN customers AS c ON c.id = p.customer_id
WHERE p.id = ANY($1::uuid[]) AND c.erased_at IS NOT NULL
UNION ALL
SELECT
  f.id::text,
  c.id::text
FROM pairing_failures AS f
JOIN customers AS c ON c.id = f.customer_id
WHERE f.id = ANY($1::uuid[]) AND c.erased_at IS NOT NULL
UNION ALL
SELECT
  r.named::text,
  c.id::text
FROM (
  SELECT
    coalesce(reference, failure_id, id) AS named,
    payment_request_id
  FROM refunds
  UNION ALL
  SELECT
    n.named,
    e.payment_request_id
  FROM refunds AS e
  CROSS JOIN unnest(e.earlier_references) AS n (named)
  WHERE e.earlier_references && $1::uuid[]
) AS r
JOIN payment_requests AS p ON p.id = r.payment_request_id
JOIN customers AS c ON c.id = p.customer_id
WHERE r.named = ANY($1::uuid[]) AND c.erased_at IS NOT NULL
UNION ALL
SELECT
  p.gateway_invoice_id,
  c.id::text
FROM payment_requests AS p
JOIN customers AS c ON c.id = p.customer_id
WHERE p.gateway_invoice_id = ANY($2::text[]) AND c.erased_at IS NOT NULL;

-- name: reopen
-- Begin the complete erasures of these customers' accounts again, except those that another transaction has.
UPDATE erasures
SET
  began_at = $2,
  completed_at = NULL
WHERE
  id = ANY(ARRAY(
    SELECT id
    FROM erasures
    WHERE
      completed_at IS NOT NULL
      AND user_id = ANY(ARRAY(
        SELECT coalesce(account_belongs_to, id)
        FROM customers
        WHERE id = ANY($1::uuid[])
      ))
    FOR UPDATE SKIP LOCKED
  ));

-- name: knows
-- Whether one of the hashes is known.
SELECT EXISTS(
  SELECT 1
  FROM erased_identities
  WHERE hash = ANY($1::text[])
);
