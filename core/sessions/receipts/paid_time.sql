-- name: of
-- The paid time of a session, and its credits in the order of the lost time.
SELECT
  s.paired_at,
  s.duration_minutes,
  s.extended_minutes,
  s.last_seq,
  ARRAY(
    SELECT (c.began_at, c.milliseconds)
    FROM session_time_credits AS c
    WHERE c.session_id = s.id
    ORDER BY c.began_at, c.id
  ) AS credits
FROM chat_sessions AS s
WHERE s.id = $1;
