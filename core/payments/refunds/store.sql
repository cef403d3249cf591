-- name: claim_due
-- Claim at most $3 open refunds that were due by $1. $2 are the pauses until the gateway is asked again.
UPDATE refunds AS r
SET
  asks = r.asks + 1,
  ask_at = $1 + ($2::interval[])[least(r.asks + 1, array_length($2::interval[], 1))]
FROM payment_requests AS p
WHERE
  p.id = r.payment_request_id
  AND is_open_refund(r.status)
  AND r.id = ANY(ARRAY(
    SELECT id
    FROM refunds
    WHERE is_open_refund(status) AND ask_at <= $1
    ORDER BY ask_at
    LIMIT $3
    FOR NO KEY UPDATE SKIP LOCKED
  ))
RETURNING
  r.id,
  coalesce(r.reference, r.failure_id, r.id) AS name_there,
  r.amount,
  r.attempt,
  r.gateway_refund_id,
  p.gateway_invoice_id;

-- name: give_back
-- Make open refunds ($1) due at $2 again.
UPDATE refunds
SET asks = asks - 1, ask_at = $2
WHERE id = ANY($1) AND is_open_refund(status) AND asks > 0;

-- name: rename
-- Give a failed refund ($1) the reference $2, and keep the one that it has.
UPDATE refunds
SET
  earlier_references = array_append(earlier_references, coalesce(reference, failure_id, id)),
  reference = $2
WHERE id = $1 AND status = 'failed';

-- name: paid
-- How the payment request $1 was paid.
SELECT
  p.amount,
  p.payment_channel,
  p.gateway_invoice_id,
  p.confirmed_at,
  EXISTS(
    SELECT 1
    FROM operator_audit_log AS a
    WHERE a.object_id = p.id::text AND a.action = 'payment.confirmed'
  ) AS by_hand
FROM payment_requests AS p
WHERE p.id = $1;
