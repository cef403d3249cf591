-- name: mitra_status
-- The presence of the mitra $1, and how many sessions they have.
SELECT
  o.is_online,
  o.last_online_at,
  o.last_heartbeat_at,
  o.reachable_at,
  (
    SELECT count(*)::int
    FROM chat_sessions AS s
    WHERE s.mitra_id = o.mitra_id AND is_held(s.status)
  ) AS active_session_count
FROM mitra_online_status AS o
WHERE o.mitra_id = $1;
