-- How late a losing acceptance was (docs/fairness.md#how-late-an-acceptance-was); null for other invitations. It has
-- its own transaction, because it waits for the readers of the table, and the other file locks chat_sessions.
ALTER TABLE chat_request_notifications ADD COLUMN IF NOT EXISTS lost_by_ms INTEGER;
