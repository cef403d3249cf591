-- name: confirm
-- Confirm a pending or expired request ($1) at $2, paid by the invoice $3.
UPDATE payment_requests
SET
  status = 'confirmed',
  confirmed_at = $2,
  gateway_invoice_id = coalesce(gateway_invoice_id, $3)
WHERE id = $1 AND status IN ('pending', 'expired');

-- name: fail
-- Fail a request ($1) in the state $2. If the money came only now, store when ($3) and its invoice ($4). If it is less
-- than was asked for, store how much it is ($5).
UPDATE payment_requests
SET
  status = 'failed_pairing',
  confirmed_at = coalesce(confirmed_at, $3),
  gateway_invoice_id = coalesce(gateway_invoice_id, $4),
  amount = coalesce($5::int, amount),
  asked_amount = CASE WHEN $5::int IS NULL THEN asked_amount ELSE amount END
WHERE id = $1 AND status = $2;

-- name: change_short
-- Store the new amount ($2) of a failed short payment ($1), from which on it is complete if that was asked for.
UPDATE payment_requests
SET
  amount = $2,
  asked_amount = nullif(asked_amount, $2)
WHERE id = $1 AND status = 'failed_pairing' AND asked_amount >= $2;

-- name: abandon_pending
-- Abandon the pending requests of customers ($1) that are not for an extension.
UPDATE payment_requests
SET status = 'abandoned'
WHERE customer_id = ANY($1) AND status = 'pending' AND NOT is_extension;

-- name: abandon_extensions
-- Abandon the pending extension requests of sessions ($1).
UPDATE payment_requests
SET status = 'abandoned'
WHERE is_extension AND status = 'pending' AND extends_session_id = ANY($1);

-- name: abandon_all
-- Abandon all pending requests of customers ($1).
UPDATE payment_requests
SET status = 'abandoned'
WHERE
  status = 'pending'
  AND id = ANY(ARRAY(
    SELECT id
    FROM payment_requests
    WHERE customer_id = ANY($1::uuid[]) AND status = 'pending'
    ORDER BY id
    FOR UPDATE
  ));

-- name: expire_due
-- Expire at most $2 pending requests whose time to pay ended by $1. Locked ones are left to the next sweep.
UPDATE payment_requests
SET status = 'expired'
WHERE
  status = 'pending'
  AND id = ANY(ARRAY(
    SELECT id
    FROM payment_requests
    WHERE status = 'pending' AND expires_at <= $1
    ORDER BY expires_at
    LIMIT $2
    FOR UPDATE SKIP LOCKED
  ));
