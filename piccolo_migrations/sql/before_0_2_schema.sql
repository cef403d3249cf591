-- Bring a database that a version before 0.2 made to the schema that the migrations 0001 to 0003 expect: add columns,
-- and drop what they replace. Tables, indexes, functions and triggers that are missing come from those migrations.
-- Every statement may run twice, on any earlier schema.

-- In the order in which a batch of messages takes them.
LOCK TABLE chat_sessions, chat_messages IN ACCESS EXCLUSIVE MODE;

ALTER TABLE roles ADD COLUMN IF NOT EXISTS require_totp BOOLEAN NOT NULL DEFAULT false;
ALTER TABLE control_center_users
ADD COLUMN IF NOT EXISTS password_change_due BOOLEAN NOT NULL DEFAULT false,
ADD COLUMN IF NOT EXISTS totp_secret TEXT,
ADD COLUMN IF NOT EXISTS totp_last_step INTEGER,
ADD COLUMN IF NOT EXISTS recovery_codes JSONB,
ADD COLUMN IF NOT EXISTS totp_pending TEXT,
ADD COLUMN IF NOT EXISTS totp_pending_until TIMESTAMPTZ,
ADD COLUMN IF NOT EXISTS enrolment_code_hash VARCHAR(64),
ADD COLUMN IF NOT EXISTS enrolment_code_until TIMESTAMPTZ;
ALTER TABLE customers ADD COLUMN IF NOT EXISTS joined_real_at TIMESTAMPTZ;
ALTER TABLE mitra_online_status ADD COLUMN IF NOT EXISTS heartbeat_channel VARCHAR(8) NOT NULL DEFAULT 'any';
ALTER TABLE mitra_online_status DROP CONSTRAINT IF EXISTS mitra_online_status_known_channel;
ALTER TABLE mitra_online_status
ADD CONSTRAINT mitra_online_status_known_channel CHECK (heartbeat_channel IN ('any', 'socket', 'rest'));
ALTER TABLE auth_sessions
ADD COLUMN IF NOT EXISTS refresh_generation BIGINT,
ADD COLUMN IF NOT EXISTS used_tokens JSONB,
ADD COLUMN IF NOT EXISTS push_token_at TIMESTAMPTZ,
ADD COLUMN IF NOT EXISTS locale VARCHAR(2),
ADD COLUMN IF NOT EXISTS stepped_up_until TIMESTAMPTZ;
ALTER TABLE otp_requests
ADD COLUMN IF NOT EXISTS number_refused BOOLEAN NOT NULL DEFAULT false,
ADD COLUMN IF NOT EXISTS known_phone BOOLEAN NOT NULL DEFAULT false,
ADD COLUMN IF NOT EXISTS send_due_real_at TIMESTAMPTZ,
ADD COLUMN IF NOT EXISTS send_attempts INTEGER NOT NULL DEFAULT 0;
ALTER TABLE payment_requests
ADD COLUMN IF NOT EXISTS invoice_made_at TIMESTAMPTZ,
ADD COLUMN IF NOT EXISTS poll_at TIMESTAMPTZ;
ALTER TABLE webhook_logs
ADD COLUMN IF NOT EXISTS source VARCHAR(10) NOT NULL DEFAULT 'webhook',
ADD COLUMN IF NOT EXISTS calls INTEGER NOT NULL DEFAULT 1,
ADD COLUMN IF NOT EXISTS bytes BIGINT,
ADD COLUMN IF NOT EXISTS body_sha256 VARCHAR(64);
ALTER TABLE webhook_logs DROP CONSTRAINT IF EXISTS webhook_logs_known_source;
ALTER TABLE webhook_logs
ADD CONSTRAINT webhook_logs_known_source CHECK (source IN ('webhook', 'poll')) NOT VALID;
ALTER TABLE chat_sessions
ADD COLUMN IF NOT EXISTS asked_repeat_at TIMESTAMPTZ,
ADD COLUMN IF NOT EXISTS customer_sent_seq INTEGER NOT NULL DEFAULT 0,
ADD COLUMN IF NOT EXISTS mitra_sent_seq INTEGER NOT NULL DEFAULT 0,
ADD COLUMN IF NOT EXISTS customer_pushed_seq INTEGER NOT NULL DEFAULT 0,
ADD COLUMN IF NOT EXISTS mitra_pushed_seq INTEGER NOT NULL DEFAULT 0;
ALTER TABLE chat_sessions DROP CONSTRAINT IF EXISTS chat_sessions_known_ended_by;
ALTER TABLE chat_sessions
ADD CONSTRAINT chat_sessions_known_ended_by CHECK (ended_by IN ('customer', 'mitra', 'timer', 'operator')) NOT VALID;
ALTER TABLE chat_sessions SET (fillfactor = 50);
ALTER TABLE chat_messages SET (fillfactor = 80);
ALTER TABLE chat_messages DROP CONSTRAINT IF EXISTS chat_messages_session_id_fkey;
ALTER TABLE idempotency_keys
ADD COLUMN IF NOT EXISTS resource_id UUID,
ADD COLUMN IF NOT EXISTS claimed_real_at TIMESTAMPTZ;
ALTER TABLE IF EXISTS pushes ADD COLUMN IF NOT EXISTS is_farewell BOOLEAN NOT NULL DEFAULT false;

-- Events that wait now were sent by an earlier version: sockets get them again, and a push would come too late.
DO $$
BEGIN
  IF NOT EXISTS (
    SELECT 1 FROM information_schema.columns WHERE table_name = 'deliveries' AND column_name = 'pushed_real_at'
  ) THEN
    ALTER TABLE deliveries ADD COLUMN pushed_real_at TIMESTAMPTZ;
    UPDATE deliveries SET pushed_real_at = clock_timestamp();
  END IF;
END $$;

DROP INDEX IF EXISTS mitra_online_status_heartbeat;
DROP INDEX IF EXISTS chat_request_notifications_session;
DROP INDEX IF EXISTS chat_sessions_status;
DROP INDEX IF EXISTS pairing_failures_cause;
DROP INDEX IF EXISTS pairing_failures_open;
DROP INDEX IF EXISTS customer_transactions_customer;

-- Two functions that returned fewer columns: CREATE OR REPLACE can't add one.
DROP FUNCTION IF EXISTS heartbeat_channels(TIMESTAMPTZ);
DO $$
BEGIN
  IF EXISTS (
    SELECT 1 FROM pg_proc
    WHERE oid = to_regprocedure('chat_fill(uuid[], int[], int)') AND NOT 'goes_on' = ANY (proargnames)
  ) THEN
    DROP FUNCTION chat_fill(uuid[], int[], int);
  END IF;
END $$;
