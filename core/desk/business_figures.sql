-- name: movements
-- What happened from $1 to before $2: the moment, the payment request, the figure, and its Rupiah or its number.
-- Refunds count when the money went back: those of failed pairings when their failure was closed, those of earned money
-- when the ledger got them.
SELECT
  confirmed_at AS at,
  id AS payment_request_id,
  'paid' AS figure,
  amount AS value
FROM payment_requests
WHERE confirmed_at >= $1 AND confirmed_at < $2
UNION ALL
SELECT
  created_at,
  payment_request_id,
  CASE WHEN type = 'refund' THEN 'refunded' ELSE 'earned' END,
  abs(amount)
FROM customer_transactions
WHERE created_at >= $1 AND created_at < $2
UNION ALL
SELECT
  actioned_at,
  payment_request_id,
  'refunded',
  amount
FROM pairing_failures
WHERE operator_action = 'refunded' AND actioned_at >= $1 AND actioned_at < $2
UNION ALL
SELECT
  f.created_at,
  f.payment_request_id,
  k.figure,
  f.amount
FROM pairing_failures AS f
CROSS JOIN unnest(ARRAY['failed', 'open']) AS k (figure)
WHERE
  f.created_at >= $1
  AND f.created_at < $2
  AND f.superseded_at IS NULL
  AND (k.figure = 'failed' OR f.operator_action IS NULL)
UNION ALL
SELECT
  paired_at,
  payment_request_id,
  'chats',
  1
FROM chat_sessions
WHERE paired_at >= $1 AND paired_at < $2
UNION ALL
SELECT
  created_at,
  payment_request_id,
  'unserved',
  1
FROM chat_sessions
WHERE
  created_at >= $1
  AND created_at < $2
  AND status = 'failed'
  AND payment_request_id IS NOT NULL
  AND targeted_mitra_id IS NULL;
