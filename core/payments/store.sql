-- name: claim_polls
-- Claim at most $3 pending requests whose poll was due by $1. $2 are the times of the polls after the invoice was made.
UPDATE payment_requests p
SET
  poll_at = (
    SELECT min(p.invoice_made_at + after)
    FROM unnest($2::interval[]) AS after
    WHERE p.invoice_made_at + after > $1
  )
WHERE
  status = 'pending'
  AND id = ANY(ARRAY(
    SELECT id
    FROM payment_requests
    WHERE status = 'pending' AND poll_at <= $1
    ORDER BY poll_at
    LIMIT $3
    FOR NO KEY UPDATE SKIP LOCKED
  ));

-- name: give_polls_back
-- Make the polls of pending requests ($1) due at $2.
UPDATE payment_requests
SET poll_at = $2
WHERE id = ANY($1) AND status = 'pending';

-- name: extension_under_way
-- A request other than $2 for more minutes of a session ($1) that waits for its payment or for the mitra's answer.
SELECT id
FROM payment_requests
WHERE
  extends_session_id = $1
  AND is_extension
  AND status IN ('pending', 'confirmed')
  AND id IS DISTINCT FROM $2
UNION ALL
SELECT payment_request_id
FROM session_extensions
WHERE
  session_id = $1
  AND status = 'pending'
  AND payment_request_id IS DISTINCT FROM $2
LIMIT 1;

-- name: next_paid
-- The first paid request of an account's customers ($1) that was made after $2 and is not $3: one for more minutes of
-- the session $4, or for a chat if that is null. It may have been made up to an hour later.
SELECT id
FROM payment_requests
WHERE
  customer_id = ANY($1)
  AND created_at >= $2
  AND created_at < $2::timestamptz + interval '1 hour'
  AND id <> $3
  AND confirmed_at IS NOT NULL
  AND extends_session_id IS NOT DISTINCT FROM $4
ORDER BY created_at, id
LIMIT 1;

-- name: is_held
-- Whether the session $1 takes a place of its mitra.
SELECT is_held(status)
FROM chat_sessions
WHERE id = $1;

-- name: open_free_request
-- A failed request of an account's customers ($1) at a price of 0 on which no operator has acted: one for more minutes
-- of the session $2, or for a chat if that is null.
SELECT p.id
FROM payment_requests AS p
JOIN pairing_failures AS f ON f.payment_request_id = p.id AND f.superseded_at IS NULL
WHERE
  p.customer_id = ANY($1)
  AND p.amount = 0
  AND p.status = 'failed_pairing'
  AND f.operator_action IS NULL
  AND p.extends_session_id IS NOT DISTINCT FROM $2
LIMIT 1;

-- name: in_progress
-- A live session of customers ($1), or else their confirmed request that is not for an extension. The request $2 and
-- its session don't count.
SELECT
  s.id AS session_id,
  s.payment_request_id
FROM chat_sessions AS s
WHERE
  s.customer_id = ANY($1)
  AND is_live(s.status)
  AND s.payment_request_id IS DISTINCT FROM $2
UNION ALL
SELECT
  NULL,
  p.id
FROM payment_requests AS p
WHERE
  p.customer_id = ANY($1)
  AND p.status = 'confirmed'
  AND NOT p.is_extension
  AND p.id IS DISTINCT FROM $2
ORDER BY session_id NULLS LAST
LIMIT 1;

-- name: by_hand
-- Whether an operator has confirmed the payment request $1.
SELECT EXISTS(
  SELECT 1
  FROM operator_audit_log
  WHERE object_id = $1 AND action = 'payment.confirmed'
);
