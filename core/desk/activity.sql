-- name: invitations
-- All invitations, each with its mitra.
SELECT
  n.id,
  n.session_id,
  n.mitra_id,
  m.display_name,
  n.notified_at,
  n.responded_at,
  n.response,
  n.active_session_count,
  n.lost_by_ms
FROM chat_request_notifications AS n
JOIN mitras AS m ON m.id = n.mitra_id;
