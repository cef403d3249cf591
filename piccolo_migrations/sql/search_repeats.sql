-- When the number of mitras that a search has asked is repeated to the customer; null when it has not grown.
-- Building the index holds the writers of its table. On a service that is large already, create it before the migration, by
-- this line with CONCURRENTLY, after the column: what is there is left alone.
SET LOCAL lock_timeout = '5s';
ALTER TABLE chat_sessions ADD COLUMN IF NOT EXISTS asked_repeat_at TIMESTAMPTZ;
CREATE INDEX IF NOT EXISTS chat_sessions_due_repeat ON chat_sessions (asked_repeat_at)
  WHERE status = 'searching' AND asked_repeat_at IS NOT NULL;
