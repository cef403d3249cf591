-- name: sessions
-- The sessions that the payment request $1 paid for, and the session $2 that it extends.
SELECT
  s.id,
  s.status,
  s.created_at,
  s.paired_at,
  s.expires_at,
  s.ended_at,
  s.ended_by,
  s.last_seq,
  s.targeted_mitra_id,
  coalesce(t.display_name, f.target_name) AS target_name,
  f.fell_back_at,
  s.mitra_id,
  m.display_name AS mitra_name,
  s.duration_minutes,
  s.extended_minutes
FROM chat_sessions AS s
LEFT JOIN mitras AS m ON m.id = s.mitra_id
LEFT JOIN mitras AS t ON t.id = s.targeted_mitra_id
-- An invitation that was withdrawn during the search: the customer asked all mitras instead of the chosen one.
LEFT JOIN LATERAL (
  SELECT
    n.responded_at AS fell_back_at,
    a.display_name AS target_name
  FROM chat_request_notifications AS n
  JOIN mitras AS a ON a.id = n.mitra_id
  WHERE
    n.session_id = s.id
    AND n.response = 'CANCELLED'
    AND (s.status <> 'cancelled' OR n.responded_at < s.ended_at)
  ORDER BY n.responded_at
  LIMIT 1
) AS f ON true
WHERE s.payment_request_id = $1 OR s.id = $2
ORDER BY s.created_at;


-- name: invitations
-- The invitations of the searches of the payment request $1, with each mitra's answer.
SELECT
  n.session_id,
  n.mitra_id,
  m.display_name,
  n.round_number,
  n.notified_at,
  n.answer_by,
  n.response,
  n.responded_at,
  n.lost_by_ms
FROM chat_request_notifications AS n
JOIN mitras AS m ON m.id = n.mitra_id
JOIN chat_sessions AS s ON s.id = n.session_id
WHERE s.payment_request_id = $1
ORDER BY n.notified_at, n.id;


-- name: rounds
-- The rounds of the searches of the payment request $1 that have ended; `is_last`: the last one of its last search.
-- Some may be missing.
SELECT
  r.session_id::text,
  r.round_number,
  r.ended_at,
  r.online,
  r.fresh,
  r.with_room,
  r.askable,
  r.asked,
  r.accepted,
  r.rejected,
  r.unanswered,
  r.closed,
  r.round_number = s.round_number
  AND NOT EXISTS (
    SELECT 1
    FROM chat_sessions AS n
    WHERE n.payment_request_id = $1 AND n.created_at > s.created_at
  ) AS is_last
FROM search_rounds AS r
JOIN chat_sessions AS s ON s.id = r.session_id
WHERE s.payment_request_id = $1 AND r.ended_at IS NOT NULL
ORDER BY r.began_at, r.id;


-- name: failures
-- The failures of the payment request $1, and what an operator has done about each.
SELECT
  f.cause_tag,
  f.sub_cause,
  f.created_at,
  f.superseded_at,
  f.operator_action,
  f.actioned_at,
  f.note,
  o.display_name AS operator_name,
  r.status AS refund_status,
  r.failure_code AS refund_failure_code,
  r.settled_at AS refund_settled_at
FROM pairing_failures AS f
LEFT JOIN refunds AS r ON r.failure_id = f.id
LEFT JOIN control_center_users AS o ON o.id = f.actioned_by
WHERE f.payment_request_id = $1
ORDER BY f.created_at;


-- name: webhook_calls
-- The gateway's calls about the payment request $1 and its refunds, which name its failures or themselves. Anyone who
-- knows an id can send calls without a token. Calls with a valid one come first, so the limit never drops them. $2 is
-- the bound of their ids: a call is younger than its request.
SELECT
  id,
  received_at,
  status,
  processing_result,
  http_status,
  processing_error,
  replay_of,
  source
FROM webhook_logs
WHERE
  external_id = ANY(
    ARRAY[$1, upper($1)] || ARRAY(
      SELECT f.id::text
      FROM pairing_failures AS f
      WHERE f.payment_request_id = $1::uuid
      UNION ALL
      SELECT unnest(array_append(r.earlier_references, coalesce(r.reference, r.id)))::text
      FROM refunds AS r
      WHERE r.payment_request_id = $1::uuid
    )
  )
  AND id >= $2
ORDER BY token_valid DESC, received_at
LIMIT 500;


-- name: audit_rows
-- What operators did to the payment request $1, its sessions, the refunds of its failures, and the session $2 that it
-- extends.
SELECT
  a.action,
  a.created_at,
  a.object_id,
  o.display_name AS operator_name,
  a.after ->> 'reason' AS reason,
  (a.after ->> 'amount')::int AS amount
FROM operator_audit_log AS a
JOIN control_center_users AS o ON o.id = a.operator_id
WHERE
  a.object_id = $1::text
  AND a.action IN (
    'payment.confirmed', 'payment.accepted_short', 'payment.refund_requested', 'payment.refunded_by_hand'
  )
  OR a.object_id IN (
    SELECT s.id::text
    FROM chat_sessions AS s
    WHERE s.payment_request_id = $1::text::uuid OR s.id = $2
  )
  AND a.action = 'session.ended'
  OR a.object_id IN (
    SELECT f.id::text
    FROM pairing_failures AS f
    WHERE f.payment_request_id = $1::text::uuid
  )
  AND a.action = 'failed_pairing.refund_requested'
ORDER BY a.created_at;


-- name: refunds
-- What became of the refunds of the payment request $1, if its money was earned and the gateway was asked.
SELECT
  status,
  amount,
  failure_code,
  settled_at
FROM refunds
WHERE payment_request_id = $1 AND failure_id IS NULL AND NOT by_hand AND settled_at IS NOT NULL;


-- name: extensions
-- The extensions that the payment request $1 paid for.
SELECT
  e.status,
  e.requested_at,
  e.answer_by,
  e.responded_at,
  e.session_id,
  e.requested_duration_minutes,
  (
    SELECT f.sub_cause
    FROM pairing_failures AS f
    WHERE f.payment_request_id = e.payment_request_id
    LIMIT 1
  ) AS sub_cause
FROM session_extensions AS e
WHERE e.payment_request_id = $1;


-- name: credits
-- The time that the sessions of the payment request $1, and the session $2 that it extends, got back.
SELECT
  c.session_id,
  c.reason,
  c.milliseconds,
  c.began_at,
  c.ended_at,
  c.created_at
FROM session_time_credits AS c
JOIN chat_sessions AS s ON s.id = c.session_id
WHERE s.payment_request_id = $1 OR s.id = $2
ORDER BY c.began_at;


-- name: absences
-- The absences of the parties of the sessions that the payment request $1 paid for.
SELECT
  a.session_id,
  a.user_type,
  a.since,
  a.declared_at,
  a.ended_at,
  a.returned
FROM session_absences AS a
JOIN chat_sessions AS s ON s.id = a.session_id
WHERE s.payment_request_id = $1
ORDER BY a.declared_at;


-- name: goodbyes
-- The goodbyes of the sessions that the payment request $1 paid for.
SELECT
  c.session_id,
  c.user_type,
  c.message,
  c.created_at,
  s.blanked_at
FROM session_closures AS c
JOIN chat_sessions AS s ON s.id = c.session_id
WHERE s.payment_request_id = $1
ORDER BY c.created_at;


-- name: events
-- What happened to the events about the payment request $1 and its sessions on the recipients' devices, and to those
-- about the extension of the session $2 from the time $3 on. $4 is the bound of the events' ids; an event is younger
-- than its request. Invitations come last, so the limit $5 drops them first.
SELECT
  t.event_id,
  t.event,
  t.stage,
  t.auth_session_id,
  t.recipient_id,
  t.at,
  m.id AS mitra_id,
  coalesce(m.display_name, c.display_name) AS recipient,
  a.device_info
FROM (
  SELECT f.*
  FROM (
    SELECT p.*
    FROM delivery_trail AS p
    WHERE p.payment_request_id = $1 AND p.event_id >= $4
    UNION ALL
    SELECT o.*
    FROM chat_sessions AS s
    JOIN delivery_trail AS o ON o.session_id = s.id
    WHERE s.payment_request_id = $1 AND o.event_id >= $4
    UNION ALL
    SELECT x.*
    FROM delivery_trail AS x
    WHERE
      x.session_id = $2
      AND x.event_id >= $4
      AND x.at >= $3
      AND x.event IN ('extension_requested', 'extension_resolved', 'session_resumed')
  ) AS f
  ORDER BY f.event IN ('chat_request', 'chat_request_closed'), f.event_id, f.at
  LIMIT $5
) AS t
LEFT JOIN mitras AS m ON m.id = t.recipient_id
LEFT JOIN customers AS c ON c.id = t.recipient_id
LEFT JOIN auth_sessions AS a ON a.id = t.auth_session_id
ORDER BY t.event_id, t.at;
