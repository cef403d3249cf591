-- Webhook calls without a valid token, above their limit, share one row a minute and address.
ALTER TABLE webhook_logs ADD COLUMN IF NOT EXISTS calls INTEGER NOT NULL DEFAULT 1;
ALTER TABLE webhook_logs ADD COLUMN IF NOT EXISTS bytes BIGINT;
ALTER TABLE webhook_logs ADD COLUMN IF NOT EXISTS body_sha256 VARCHAR(64);
