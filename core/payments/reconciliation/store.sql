-- name: requests
-- Payment requests by their ids ($1).
SELECT
  p.id,
  p.status,
  p.amount,
  p.asked_amount,
  p.created_at,
  p.expires_at,
  p.confirmed_at,
  p.gateway_invoice_id,
  p.confirmed_at IS NOT NULL AND EXISTS (
    SELECT 1
    FROM operator_audit_log AS a
    WHERE a.object_id = p.id::text AND a.action = 'payment.confirmed'
  ) AS by_hand,
  p.gateway_invoice_id IS NULL AND f.twin_id IS NOT NULL AS by_twin,
  p.asked_amount IS NOT NULL
  AND f.cause_tag = 'payment_short'
  AND f.operator_action IS NULL
  AND NOT EXISTS (
    SELECT 1
    FROM refunds AS r
    WHERE r.failure_id = f.id
  ) AS may_grow
FROM payment_requests AS p
LEFT JOIN pairing_failures AS f ON f.payment_request_id = p.id AND f.superseded_at IS NULL
WHERE p.id = ANY($1::uuid[]);

-- name: requests_since
-- Payment requests with a price that were made or confirmed since $1, in order; those after $2 and $3, at most $4. Each
-- half has its index: an OR can read all requests, when the plan is for all parameters. The upper bound excludes
-- none, but tells the planner that few requests are read. Without it, that plan may read the whole table.
WITH paid AS MATERIALIZED (
  SELECT
    p.id,
    p.created_at
  FROM payment_requests AS p
  WHERE
    ($2::timestamptz IS NULL OR $2 < $1)
    AND p.confirmed_at >= $1
    AND p.confirmed_at < 'infinity'
    AND p.amount > 0
),

made AS (
  SELECT
    p.id,
    p.created_at
  FROM payment_requests AS p
  WHERE
    p.created_at >= $1
    AND p.amount > 0
    AND (p.status = 'pending' OR p.confirmed_at IS NOT NULL)
    AND (p.created_at, p.id)
    > (coalesce($2, '-infinity'::timestamptz), coalesce($3::uuid, '00000000-0000-0000-0000-000000000000'))
  ORDER BY p.created_at, p.id
  LIMIT $4
)

SELECT
  id,
  created_at
FROM made
UNION ALL
SELECT
  id,
  created_at
FROM paid
WHERE created_at < $1 AND ($2::timestamptz IS NULL OR (created_at, id) > ($2, $3::uuid))
ORDER BY created_at, id
LIMIT $4;

-- name: listed_since
-- How many invoices the gateway lists since $1, about: those of requests that were made, and those that were confirmed.
SELECT
  (
    SELECT count(*)
    FROM payment_requests AS p
    WHERE p.created_at >= $1 AND p.amount > 0
  )
  + (
    SELECT count(*)
    FROM payment_requests AS p
    WHERE p.confirmed_at >= $1 AND p.amount > 0
  );

-- name: refund
-- What the gateway knows by the reference $1: a refund, a failed attempt of one that was asked for again by another
-- reference, or a pairing failure without a refund.
SELECT
  f.operator_action AS action,
  r.status,
  r.amount,
  r.gateway_refund_id
FROM refunds AS r
LEFT JOIN pairing_failures AS f ON f.id = r.failure_id
WHERE coalesce(r.reference, r.failure_id, r.id) = $1
UNION ALL
SELECT
  f.operator_action,
  'failed',
  r.amount,
  NULL
FROM refunds AS r
LEFT JOIN pairing_failures AS f ON f.id = r.failure_id
WHERE r.earlier_references @> ARRAY[$1]::uuid[]
UNION ALL
SELECT
  f.operator_action,
  NULL,
  NULL,
  NULL
FROM pairing_failures AS f
WHERE f.id = $1 AND NOT EXISTS (
  SELECT 1
  FROM refunds AS r
  WHERE r.failure_id = f.id
);

-- name: failure_to_act_on
-- The failure of the payment request $1 on which no operator has acted.
SELECT f.id
FROM pairing_failures AS f
WHERE f.payment_request_id = $1 AND f.operator_action IS NULL AND f.superseded_at IS NULL;

-- name: refunds_since
-- The refunds with an id of the gateway whose ids follow $1: those of a time.
SELECT
  coalesce(r.reference, r.failure_id, r.id) AS reference,
  r.gateway_refund_id
FROM refunds AS r
WHERE r.id > $1::uuid AND r.gateway_refund_id IS NOT NULL;

-- name: recorded
-- Which of these invoices and refunds ($1) have a row in the log of calls that shows operators what is odd about them.
SELECT DISTINCT w.gateway_invoice_id
FROM webhook_logs AS w
WHERE
  w.gateway_invoice_id = ANY($1)
  AND w.token_valid
  AND (w.processing_result = 'conflict' OR w.processing_error LIKE 'overpaid by %');
