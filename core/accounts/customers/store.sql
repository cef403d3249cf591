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
