-- name: next
-- The earliest moment of each kind of timed work; null if there is none. A pending extension holds the grace period of
-- an expired session. $1 is now.
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
  longest_silence_since($1) AS silence;
