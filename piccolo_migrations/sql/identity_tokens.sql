-- An identity token works once: its digest is kept until the token itself expires.
CREATE TABLE IF NOT EXISTS used_identity_tokens (
  id UUID PRIMARY KEY NOT NULL,
  digest VARCHAR(64) NOT NULL UNIQUE,
  auth_session_id UUID NOT NULL,
  used_at TIMESTAMPTZ NOT NULL,
  expires_real_at TIMESTAMPTZ NOT NULL
);
CREATE INDEX IF NOT EXISTS used_identity_tokens_expires ON used_identity_tokens (expires_real_at);

-- The rows that joined an account last are read with each sign-in.
CREATE INDEX IF NOT EXISTS customers_joined_last ON customers (account_belongs_to, joined_real_at DESC NULLS LAST)
  WHERE account_belongs_to IS NOT NULL;
