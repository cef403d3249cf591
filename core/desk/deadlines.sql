-- name: next
-- The earliest moment of each kind of timed work; null if there is none. A pending extension holds the grace period of
-- an expired session. $1 is now, and $2 the scale of service time if the
-- fair clock is on.
SELECT
  (
    SELECT min(warn_at)
    FROM chat_sessions
    WHERE warn_at IS NOT NULL
  ) AS warning,
  (
    SELECT min(expires_at)
    FROM chat_sessions
    WHERE status = 'active'
  ) AS expiry,
  (
    SELECT min(s.grace_ends_at)
    FROM chat_sessions AS s
    WHERE
      s.status IN ('expired', 'closing')
      AND NOT (s.status = 'expired' AND EXISTS (
        SELECT 1
        FROM session_extensions AS e
        WHERE e.session_id = s.id AND e.status = 'pending'
      ))
  ) AS grace,
  (
    SELECT min(round_ends_at)
    FROM chat_sessions
    WHERE status = 'searching'
  ) AS round,
  (
    SELECT min(wave_ends_at)
    FROM chat_sessions
    WHERE status = 'searching' AND wave_ends_at < round_ends_at
  ) AS wave,
  (
    SELECT min(asked_repeat_at)
    FROM chat_sessions
    WHERE status = 'searching' AND asked_repeat_at IS NOT NULL
  ) AS repeat,
  (
    SELECT min(answer_by)
    FROM session_extensions
    WHERE status = 'pending'
  ) AS extension,
  (
    SELECT min(poll_at)
    FROM payment_requests
    WHERE status = 'pending' AND poll_at IS NOT NULL
  ) AS poll,
  (
    SELECT min(credit_at)
    FROM outages
    WHERE
      credit_at IS NOT NULL
      AND EXISTS (
        SELECT 1
        FROM service_processes
        WHERE kind = 'realtime' AND lost_at > $1
      )
  ) AS credit,
  (
    SELECT min(ask_at)
    FROM refunds
    WHERE status IN ('requested', 'pending')
  ) AS refund,
  CASE WHEN $2::float8 IS NOT NULL THEN sessions_stand_since($2) END AS stands_since,
  longest_silence_since($1) AS silence;
