-- name: figures
-- How many mitras are online, busy and available, how many sessions there are in each state, and the figures of
-- payments, failures and webhook calls. $1 is now; $2 to $4 are the availability policy, $5 is the bound of the ids of
-- the last hour.
SELECT
  (
    SELECT count(*)::int
    FROM mitra_online_status
    WHERE is_online
  ) AS mitras_online,
  (
    SELECT count(DISTINCT mitra_id)::int
    FROM chat_sessions
    WHERE status IN ('active', 'expired')
  ) AS mitras_busy,
  (SELECT count(*)::int FROM free_mitras($1, $2, $3, $4)) AS mitras_free,
  (
    SELECT count(*)::int
    FROM chat_sessions
    WHERE status = 'searching'
  ) AS searching,
  (
    SELECT count(*)::int
    FROM chat_sessions
    WHERE status = 'active'
  ) AS active,
  (
    SELECT count(*)::int
    FROM chat_sessions
    WHERE status = 'expired'
  ) AS expired,
  (
    SELECT count(*)::int
    FROM chat_sessions
    WHERE status = 'closing'
  ) AS closing,
  (
    SELECT count(*)::int
    FROM pairing_failures
    WHERE operator_action IS NULL AND superseded_at IS NULL
  ) AS failures_open,
  (
    SELECT coalesce(sum(amount), 0)::bigint
    FROM pairing_failures
    WHERE operator_action IS NULL AND superseded_at IS NULL
  ) AS failures_open_amount,
  (
    SELECT min(created_at)
    FROM pairing_failures
    WHERE operator_action IS NULL AND superseded_at IS NULL
  ) AS failures_oldest_at,
  (
    SELECT count(*)::int
    FROM payment_requests
    WHERE status = 'pending'
  ) AS pending_payments,
  (
    SELECT coalesce(sum(amount), 0)::bigint
    FROM payment_requests
    WHERE confirmed_at >= $1 - interval '24 hours'
  ) AS confirmed_amount_24h,
  (
    SELECT count(*)::int
    FROM webhook_logs
    WHERE
      http_status >= 400
      AND token_valid
      AND id >= $5
      AND received_at >= $1 - interval '1 hour'
  ) AS webhook_errors_last_hour;


-- name: hours
-- The chats, payments and failures of each of the last 24 hours, the oldest first. The last hour is the current,
-- incomplete one. $1 is now.
SELECT
  h.at,
  (
    SELECT count(*)::int
    FROM chat_sessions
    WHERE paired_at >= h.at AND paired_at < h.at + interval '1 hour'
  ) AS chats,
  (
    SELECT coalesce(sum(amount), 0)::bigint
    FROM payment_requests
    WHERE confirmed_at >= h.at AND confirmed_at < h.at + interval '1 hour'
  ) AS paid_amount,
  (
    SELECT count(*)::int
    FROM pairing_failures
    WHERE created_at >= h.at AND created_at < h.at + interval '1 hour'
  ) AS failures
FROM generate_series(date_trunc('hour', $1::timestamptz) - interval '23 hours', $1, interval '1 hour') AS h (at)
ORDER BY h.at;


-- name: overdue
-- How many items of each kind of timed work are due at $1, and by how many seconds the oldest is late. Payments have 60
-- s, until the sweep that finds them. A pending extension holds the grace period of an expired session.
SELECT
  name,
  count(*)::int AS overdue,
  coalesce(max(extract(EPOCH FROM $1 - due)), 0)::float AS late_seconds
FROM (
  SELECT
    'session expiry' AS name,
    expires_at AS due
  FROM chat_sessions
  WHERE status = 'active' AND expires_at <= $1
  UNION ALL
  SELECT
    'session warning',
    warn_at
  FROM chat_sessions
  WHERE warn_at <= $1
  UNION ALL
  SELECT
    'session grace',
    s.grace_ends_at
  FROM chat_sessions AS s
  WHERE
    s.status IN ('expired', 'closing')
    AND s.grace_ends_at <= $1
    AND NOT (s.status = 'expired' AND EXISTS (
      SELECT 1
      FROM session_extensions AS e
      WHERE e.session_id = s.id AND e.status = 'pending'
    ))
  UNION ALL
  SELECT
    'pairing round',
    round_ends_at
  FROM chat_sessions
  WHERE status = 'searching' AND round_ends_at <= $1
  UNION ALL
  SELECT
    'pairing wave',
    wave_ends_at
  FROM chat_sessions
  WHERE status = 'searching' AND wave_ends_at <= $1 AND wave_ends_at < round_ends_at
  UNION ALL
  SELECT
    'extension answer',
    answer_by
  FROM session_extensions
  WHERE status = 'pending' AND answer_by <= $1
  UNION ALL
  SELECT
    'payment expiry',
    expires_at + interval '60 seconds'
  FROM payment_requests
  WHERE status = 'pending' AND expires_at <= $1 - interval '60 seconds'
  UNION ALL
  SELECT
    'pairing start',
    confirmed_at + interval '60 seconds'
  FROM payment_requests AS p
  WHERE
    p.status = 'confirmed'
    AND p.confirmed_at <= $1 - interval '60 seconds'
    AND NOT EXISTS (
      SELECT 1
      FROM chat_sessions AS s
      WHERE s.payment_request_id = p.id AND s.status NOT IN ('failed', 'cancelled')
    )
    AND NOT EXISTS (
      SELECT 1
      FROM session_extensions AS e
      WHERE e.payment_request_id = p.id
    )
) AS x
GROUP BY name;
