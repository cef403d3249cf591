SET LOCAL lock_timeout = '5s';
-- Up to where each side has sent: whether a side has something to hear is told by its session's row alone.
ALTER TABLE chat_sessions ADD COLUMN IF NOT EXISTS customer_sent_seq INTEGER NOT NULL DEFAULT 0;
ALTER TABLE chat_sessions ADD COLUMN IF NOT EXISTS mitra_sent_seq INTEGER NOT NULL DEFAULT 0;
