-- The answers of mitras, for the activity summary, which reads ranges from indexes alone.
CREATE INDEX IF NOT EXISTS chat_request_notifications_answers ON chat_request_notifications (notified_at) INCLUDE (
  mitra_id, session_id, responded_at, lost_by_ms
)
WHERE response IN ('ACCEPTED', 'REJECTED') OR lost_by_ms IS NOT NULL;
