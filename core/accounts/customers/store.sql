-- name: is_newcomer
-- Whether a customer is anonymous and has never paid.
SELECT
  is_anonymous AND NOT EXISTS (
    SELECT 1
    FROM payment_requests AS p
    WHERE p.customer_id = c.id AND p.confirmed_at IS NOT NULL AND p.amount > 0
  )
FROM customers AS c
WHERE c.id = $1;

-- name: join
-- Point an anonymous row to the account that it joins.
UPDATE customers
SET account_belongs_to = $2, joined_real_at = clock_timestamp()
WHERE id = $1;

-- name: root
-- The id of the account that a customer has joined, or the customer's own.
SELECT coalesce(account_belongs_to, id)::text
FROM customers
WHERE id = $1;

-- name: anonymous
-- At most $4 anonymous customers after ($1, $2) from before $3 who have joined no account.
SELECT
  id::text,
  created_at
FROM customers
WHERE is_anonymous AND account_belongs_to IS NULL AND (created_at, id) > ($1, $2::uuid) AND created_at < $3
ORDER BY created_at, id
LIMIT $4;

-- name: lock_unused
-- Lock the customers among $1 who have no rows but auth sessions ($2); return their ids.
SELECT c.id::text
FROM customers AS c
WHERE
  c.id = ANY($1::uuid[])
  AND c.is_anonymous
  AND coalesce(c.account_belongs_to::text, c.phone, c.email, c.identity_a_sub, c.identity_b_sub, c.legacy_uid) IS NULL
  AND NOT EXISTS (
    SELECT 1
    FROM payment_requests AS p
    WHERE p.customer_id = c.id
  )
  AND NOT EXISTS (
    SELECT 1
    FROM chat_sessions AS s
    WHERE s.customer_id = c.id
  )
  AND NOT EXISTS (
    SELECT 1
    FROM customers AS j
    WHERE j.account_belongs_to = c.id
  )
  AND NOT EXISTS (
    SELECT 1
    FROM auth_sessions AS a
    WHERE a.user_id = c.id AND a.id <> ALL($2::uuid[])
  )
FOR UPDATE OF c SKIP LOCKED;

-- name: remove
-- Delete customers.
DELETE FROM customers
WHERE id = ANY($1::uuid[]);
