-- Waves of a blast: the newest wave of a search and when it ends, and the wave that made an invitation. The defaults,
-- which processes of the version before leave, mean that no wave is running.
ALTER TABLE chat_sessions ADD COLUMN IF NOT EXISTS wave_number INT NOT NULL DEFAULT 0;
ALTER TABLE chat_sessions ADD COLUMN IF NOT EXISTS wave_ends_at TIMESTAMPTZ;
-- next transaction
ALTER TABLE chat_request_notifications ADD COLUMN IF NOT EXISTS wave_number INT NOT NULL DEFAULT 0;
