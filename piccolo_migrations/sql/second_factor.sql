ALTER TABLE roles ADD COLUMN IF NOT EXISTS require_totp BOOLEAN NOT NULL DEFAULT false;
ALTER TABLE control_center_users
  ADD COLUMN IF NOT EXISTS totp_secret TEXT,
  ADD COLUMN IF NOT EXISTS totp_last_step INTEGER,
  ADD COLUMN IF NOT EXISTS recovery_codes JSONB,
  ADD COLUMN IF NOT EXISTS totp_pending TEXT,
  ADD COLUMN IF NOT EXISTS totp_pending_until TIMESTAMPTZ,
  ADD COLUMN IF NOT EXISTS enrolment_code_hash VARCHAR(64),
  ADD COLUMN IF NOT EXISTS enrolment_code_until TIMESTAMPTZ;
ALTER TABLE auth_sessions ADD COLUMN IF NOT EXISTS stepped_up_until TIMESTAMPTZ;

CREATE TABLE IF NOT EXISTS operator_sign_in_addresses (
  id VARCHAR(64) PRIMARY KEY,
  email_hash VARCHAR(64) NOT NULL,
  failed_login_count INTEGER NOT NULL DEFAULT 0,
  lockout_until TIMESTAMPTZ,
  signed_in_at TIMESTAMPTZ,
  updated_at TIMESTAMPTZ NOT NULL DEFAULT now()
);
CREATE INDEX IF NOT EXISTS operator_sign_in_addresses_email ON operator_sign_in_addresses (email_hash);
CREATE INDEX IF NOT EXISTS operator_sign_in_addresses_updated ON operator_sign_in_addresses (updated_at);
