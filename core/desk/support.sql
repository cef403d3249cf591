-- name: customers
-- All customers.
SELECT
  c.id,
  c.phone,
  c.display_name,
  c.is_anonymous,
  c.email,
  c.push_token IS NOT NULL AS push_enabled,
  c.account_belongs_to,
  c.usp_seen,
  c.created_at
FROM customers AS c;

-- name: paid_for
-- The payment request that paid for the session $1.
SELECT payment_request_id
FROM chat_sessions
WHERE id = $1;
