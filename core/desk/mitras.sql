-- name: mitras
-- All mitras, with their presence and how many sessions they have.
SELECT
  m.id,
  m.phone,
  m.display_name,
  m.is_active,
  coalesce(o.is_online, false) AS is_online,
  o.last_heartbeat_at,
  o.reachable_at,
  (
    SELECT count(*)::int
    FROM chat_sessions AS s
    WHERE s.mitra_id = m.id AND s.status IN ('active', 'expired')
  ) AS active_session_count,
  m.created_at
FROM mitras AS m
LEFT JOIN mitra_online_status AS o ON o.mitra_id = m.id;
