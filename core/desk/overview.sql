-- name: figures
-- How many mitras are in a chat, in how many chats a party is absent, and the figures of payments and webhook calls. $1
-- is now, $2 is the bound of the ids of the last hour.
SELECT
  (
    SELECT count(DISTINCT mitra_id)::int
    FROM chat_sessions
    WHERE status IN ('active', 'expired')
  ) AS mitras_busy,
  (
    SELECT count(DISTINCT session_id)::int
    FROM session_absences
    WHERE ended_at IS NULL
  ) AS absent,
  (
    SELECT coalesce(sum(amount), 0)::bigint
    FROM payment_requests
    WHERE confirmed_at >= $1::timestamptz - interval '24 hours'
  ) AS confirmed_amount_24h,
  (
    SELECT count(*)::int
    FROM webhook_logs
    WHERE
      http_status >= 400
      AND (token_valid OR processing_result = 'error')
      AND id >= $2
      AND received_at >= $1 - interval '1 hour'
  ) AS webhook_errors_last_hour,
  (
    SELECT count(*)::int
    FROM control_center_users
    WHERE lockout_until > $1 AND NOT disabled
  ) AS operators_locked;


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
