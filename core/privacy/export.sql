-- name: profiles
-- The account and the customers that have joined it. At most $3 above $2.
SELECT
  c.id,
  c.account_belongs_to,
  c.display_name,
  c.is_anonymous,
  c.phone,
  c.email,
  c.identity_a_sub,
  c.identity_b_sub,
  c.legacy_uid,
  c.usp_seen,
  c.created_at
FROM customers AS c
WHERE c.id = ANY($1::uuid[]) AND c.id > $2::uuid
ORDER BY c.id
LIMIT $3;

-- name: devices
-- Their auth sessions. At most $3 above $2.
SELECT
  d.id,
  d.device_info,
  d.locale,
  d.push_token IS NOT NULL AS push_enabled,
  d.created_at,
  d.last_used_at,
  d.expires_at,
  d.revoked_at
FROM auth_sessions AS d
WHERE d.user_id = ANY($1::uuid[]) AND d.id > $2::uuid
ORDER BY d.id
LIMIT $3;

-- name: codes
-- Requests for codes to their phones. At most $3 above $2. Only a request that was used has its address: others may be
-- a stranger's.
SELECT
  o.id,
  o.phone,
  o.channel,
  o.created_at,
  CASE WHEN o.used_at > o.created_at THEN o.ip_address ELSE '' END AS ip_address,
  CASE WHEN o.used_at > o.created_at THEN o.used_at END AS used_at
FROM otp_requests AS o
WHERE
  o.user_type = 'customer' AND o.phone = ANY(ARRAY(
    SELECT c.phone FROM customers AS c
    WHERE c.id = ANY($1::uuid[])
  )) AND o.id > $2::uuid
ORDER BY o.id
LIMIT $3;

-- name: payment_requests
-- Their payment requests. At most $3 above $2.
SELECT
  p.id,
  p.amount,
  p.duration_minutes,
  p.mode,
  p.status,
  p.is_first_session_discount,
  p.is_extension,
  p.extends_session_id,
  m.display_name AS mitra,
  p.topics,
  p.created_at,
  p.expires_at,
  p.confirmed_at,
  p.consumed_at,
  p.gateway_invoice_id,
  f.cause_tag AS failure,
  f.operator_action
FROM payment_requests AS p
LEFT JOIN mitras AS m ON m.id = p.targeted_mitra_id
LEFT JOIN pairing_failures AS f ON f.payment_request_id = p.id AND f.superseded_at IS NULL
WHERE p.customer_id = ANY($1::uuid[]) AND p.id > $2::uuid
ORDER BY p.id
LIMIT $3;

-- name: transactions
-- The ledger's rows of their payments. At most $3 above $2.
SELECT
  t.id,
  t.type,
  t.amount,
  t.session_id,
  t.payment_request_id,
  t.created_at
FROM customer_transactions AS t
WHERE t.customer_id = ANY($1::uuid[]) AND t.id > $2::uuid
ORDER BY t.id
LIMIT $3;

-- name: sessions
-- Their sessions. At most $3 above $2.
SELECT
  s.id,
  s.payment_request_id,
  s.mode,
  s.status,
  m.display_name AS mitra,
  s.topics,
  s.topic_sensitivity,
  s.price,
  s.duration_minutes,
  s.extended_minutes,
  s.created_at,
  s.paired_at,
  s.expires_at,
  s.ended_at,
  s.ended_by,
  s.blanked_at
FROM chat_sessions AS s
LEFT JOIN mitras AS m ON m.id = s.mitra_id
WHERE s.customer_id = ANY($1::uuid[]) AND s.id > $2::uuid
ORDER BY s.id
LIMIT $3;

-- name: goodbyes
-- The goodbyes of a session ($1). At most $3 above $2.
SELECT
  k.id,
  k.user_type AS sender,
  k.message,
  k.created_at
FROM session_closures AS k
WHERE k.session_id = $1 AND k.id > $2::uuid
ORDER BY k.id
LIMIT $3;

-- name: messages
-- The messages of a session ($1). At most $3 above $2.
SELECT
  x.id,
  x.seq,
  x.sender_type AS sender,
  x.type,
  CASE WHEN s.blanked_at IS NULL THEN x.content ELSE '' END AS content,
  CASE WHEN s.blanked_at IS NULL THEN x.metadata END AS metadata,
  x.created_at,
  x.delivered_at,
  x.read_at
FROM chat_messages AS x
JOIN chat_sessions AS s ON s.id = x.session_id
WHERE x.session_id = $1 AND x.seq > $2
ORDER BY x.seq
LIMIT $3;

-- name: deliveries
-- What happened to their events on their devices. At most $3 above $2.
SELECT
  t.id,
  t.event_id,
  t.event,
  t.stage,
  t.auth_session_id AS device_id,
  t.session_id,
  t.payment_request_id,
  t.at
FROM delivery_trail AS t
WHERE t.recipient_id = ANY($1::uuid[]) AND t.id > $2::uuid
ORDER BY t.id
LIMIT $3;

-- name: receipts
-- The signed receipts of their sessions. At most $3 above $2.
SELECT
  r.id,
  r.session_id,
  jsonb_build_object('receipt', r.body::jsonb, 'key_id', r.key_id, 'signature', r.signature) AS signed
FROM session_receipts AS r
JOIN chat_sessions AS s ON s.id = r.session_id
WHERE s.customer_id = ANY($1::uuid[]) AND r.signed_at IS NOT NULL AND r.id > $2::uuid
ORDER BY r.id
LIMIT $3;

-- name: time_credits
-- What their sessions got back. At most $3 above $2.
SELECT
  t.id,
  t.session_id,
  t.reason,
  t.began_at,
  t.ended_at,
  t.milliseconds,
  t.created_at
FROM session_time_credits AS t
JOIN chat_sessions AS s ON s.id = t.session_id
WHERE s.customer_id = ANY($1::uuid[]) AND t.id > $2::uuid
ORDER BY t.id
LIMIT $3;

-- name: absences
-- When they were absent from their sessions. At most $3 above $2.
SELECT
  a.id,
  a.session_id,
  a.since,
  a.declared_at,
  a.ended_at,
  a.returned
FROM session_absences AS a
JOIN chat_sessions AS s ON s.id = a.session_id
WHERE s.customer_id = ANY($1::uuid[]) AND a.user_type = 'customer' AND a.id > $2::uuid
ORDER BY a.id
LIMIT $3;
