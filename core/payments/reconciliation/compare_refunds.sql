-- name: by_failure
-- The pairing failure $1, with its refund.
SELECT
  f.operator_action AS action,
  r.status,
  r.amount,
  r.gateway_refund_id
FROM pairing_failures AS f
LEFT JOIN refunds AS r ON r.failure_id = f.id
WHERE f.id = $1;

-- name: to_act_on
-- The failure of the payment request $1 on which no operator has acted.
SELECT f.id
FROM pairing_failures AS f
WHERE f.payment_request_id = $1 AND f.operator_action IS NULL AND f.superseded_at IS NULL;

-- name: since
-- The refunds with an id of the gateway whose ids follow $1: those of a time.
SELECT
  r.failure_id,
  r.gateway_refund_id
FROM refunds AS r
WHERE r.id > $1::uuid AND r.gateway_refund_id IS NOT NULL;
