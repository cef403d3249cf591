-- What a service of some age reads. Each index answers one question that would otherwise read a whole table.
-- Building an index holds the writers of its table. On a service that is large already, create them one by one before
-- the migration, by these lines with CONCURRENTLY: what is there is left alone.
SET LOCAL lock_timeout = '5s';

-- Parts of names, numbers and addresses (support looks for them). pg_trgm comes with PostgreSQL; whoever may create tables
-- in a database of her own may create it.
CREATE EXTENSION IF NOT EXISTS pg_trgm;
CREATE INDEX IF NOT EXISTS customers_parts ON customers USING gin (display_name gin_trgm_ops, phone gin_trgm_ops, email gin_trgm_ops);

-- The newest of a state, of a result, of a cause: a list that nobody is in ends at once.
CREATE INDEX IF NOT EXISTS chat_sessions_status_newest ON chat_sessions (status, created_at, id);
DROP INDEX IF EXISTS chat_sessions_status;
CREATE INDEX IF NOT EXISTS payment_requests_status ON payment_requests (status, created_at, id);
CREATE INDEX IF NOT EXISTS webhook_logs_result ON webhook_logs (processing_result, received_at, id);
CREATE INDEX IF NOT EXISTS pairing_failures_cause_newest ON pairing_failures (cause_tag, created_at, id);
DROP INDEX IF EXISTS pairing_failures_cause;
-- Failures that wait for an operator. Those that were superseded never get an action, and would only pile up.
CREATE INDEX IF NOT EXISTS pairing_failures_waiting ON pairing_failures (created_at, id) INCLUDE (amount)
  WHERE operator_action IS NULL AND superseded_at IS NULL;
DROP INDEX IF EXISTS pairing_failures_open;
-- All failures of a payment, the superseded ones too (timeline).
CREATE INDEX IF NOT EXISTS pairing_failures_payment ON pairing_failures (payment_request_id);
-- Payments of a mitra who was asked for, and those that extended a session (support).
CREATE INDEX IF NOT EXISTS payment_requests_targeted ON payment_requests (targeted_mitra_id, created_at) WHERE targeted_mitra_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS payment_requests_extends ON payment_requests (extends_session_id) WHERE extends_session_id IS NOT NULL;
