-- Keys that are worked on.
ALTER TABLE idempotency_keys ADD COLUMN IF NOT EXISTS resource_id UUID;
ALTER TABLE idempotency_keys ADD COLUMN IF NOT EXISTS claimed_real_at TIMESTAMPTZ;

-- Extensions move along the declared edges only (core/extensions/states.py; a test holds them equal).
CREATE OR REPLACE FUNCTION session_extension_edge() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.status <> OLD.status AND (OLD.status, NEW.status) NOT IN (
    ('pending', 'approved'), ('pending', 'auto_approved'), ('pending', 'rejected'), ('pending', 'safeguard_tripped')
  ) THEN
    RAISE EXCEPTION 'extension %: % -> % is no transition', OLD.id, OLD.status, NEW.status
      USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER session_extension_edge BEFORE UPDATE OF status ON session_extensions
  FOR EACH ROW EXECUTE FUNCTION session_extension_edge();

-- Pushes: a delivery becomes due once; then there is a row for each device until the provider has taken it.
-- What waits at this moment was sent by an earlier version: it is repeated on sockets, and no push comes after the fact.
DO $$ BEGIN
  IF NOT EXISTS (SELECT 1 FROM information_schema.columns WHERE table_name = 'deliveries' AND column_name = 'pushed_real_at') THEN
    ALTER TABLE deliveries ADD COLUMN pushed_real_at TIMESTAMPTZ;
    UPDATE deliveries SET pushed_real_at = clock_timestamp();
  END IF;
END $$;
CREATE INDEX IF NOT EXISTS chat_sessions_completed_lately ON chat_sessions (ended_at) WHERE status = 'completed';
CREATE INDEX IF NOT EXISTS deliveries_push_due ON deliveries (created_at) WHERE pushed_real_at IS NULL;
CREATE TABLE IF NOT EXISTS pushes (
  id UUID PRIMARY KEY NOT NULL,
  auth_session_id UUID NOT NULL,
  push_token VARCHAR(255) NOT NULL,
  content JSONB NOT NULL,
  urgent BOOLEAN NOT NULL DEFAULT false,
  attempts INTEGER NOT NULL DEFAULT 0,
  due_real_at TIMESTAMPTZ NOT NULL,
  expires_real_at TIMESTAMPTZ NOT NULL
);
CREATE INDEX IF NOT EXISTS pushes_due ON pushes (due_real_at);
ALTER TABLE chat_sessions ADD COLUMN IF NOT EXISTS customer_pushed_seq INTEGER NOT NULL DEFAULT 0;
ALTER TABLE chat_sessions ADD COLUMN IF NOT EXISTS mitra_pushed_seq INTEGER NOT NULL DEFAULT 0;
