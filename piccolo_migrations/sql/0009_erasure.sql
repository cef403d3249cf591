-- Erased users, and what is kept of them (docs/privacy.md#erasure).
ALTER TABLE customers ADD COLUMN IF NOT EXISTS had_first_session BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE customers ADD COLUMN IF NOT EXISTS exported_at TIMESTAMPTZ;
ALTER TABLE customers ADD COLUMN IF NOT EXISTS erased_at TIMESTAMPTZ;
-- next transaction
ALTER TABLE mitras ADD COLUMN IF NOT EXISTS erased_at TIMESTAMPTZ;

-- next transaction
-- The command line erases and exports without an operator.
ALTER TABLE operator_audit_log ALTER COLUMN operator_id DROP NOT NULL;

-- next transaction
CREATE TABLE IF NOT EXISTS erasures (
  id UUID NOT NULL PRIMARY KEY,
  user_type VARCHAR(16) NOT NULL,
  user_id UUID NOT NULL,
  requested_by VARCHAR(16) NOT NULL,
  began_at TIMESTAMPTZ NOT NULL,
  completed_at TIMESTAMPTZ,
  CONSTRAINT erasures_one_of_a_user UNIQUE (user_id),
  CONSTRAINT erasures_known_user_type CHECK (user_type IN ('customer', 'mitra')),
  CONSTRAINT erasures_known_requester CHECK (requested_by IN ('user', 'operator', 'command_line'))
);
CREATE INDEX IF NOT EXISTS erasures_began ON erasures (began_at, id);
CREATE INDEX IF NOT EXISTS erasures_pending ON erasures (began_at, id) WHERE completed_at IS NULL;

CREATE TABLE IF NOT EXISTS erased_identities (
  hash VARCHAR(64) NOT NULL PRIMARY KEY,
  erased_at TIMESTAMPTZ NOT NULL
);

-- next transaction
-- Requests for codes of erased users, whose phone is a mark, for the sweep that deletes them.
CREATE INDEX IF NOT EXISTS otp_requests_marked ON otp_requests (created_at) WHERE phone LIKE '#%';
