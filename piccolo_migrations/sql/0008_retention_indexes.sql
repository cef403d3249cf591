-- Check the rows that were there before.
ALTER TABLE chat_sessions VALIDATE CONSTRAINT chat_sessions_blanked_is_completed;
ALTER TABLE chat_sessions VALIDATE CONSTRAINT chat_sessions_blanking_has_begun;

-- For the sweeps of retention: sessions with texts by the time of their end, and those that are being blanked.
CREATE INDEX IF NOT EXISTS chat_sessions_with_texts ON chat_sessions (ended_at)
WHERE status = 'completed' AND blanked_at IS NULL;
CREATE INDEX IF NOT EXISTS chat_sessions_blanking ON chat_sessions (id)
WHERE blanked_seq IS NOT NULL;
-- next transaction
-- Auth sessions by when they ended or will end.
CREATE INDEX IF NOT EXISTS auth_sessions_ended ON auth_sessions (least(revoked_at, expires_at));
-- next transaction
-- Anonymous customers who were joined to no account. Most of those who are old have paid.
CREATE INDEX IF NOT EXISTS customers_unused ON customers (created_at, id)
WHERE is_anonymous AND account_belongs_to IS NULL;
-- next transaction
-- The database looks here for failures of each customer that it deletes.
CREATE INDEX IF NOT EXISTS pairing_failures_customer ON pairing_failures (customer_id);
