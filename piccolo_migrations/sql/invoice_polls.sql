-- The gateway is asked some times about a pending request whose invoice it made: a call about the money may be lost.
-- poll_at is when it is asked next. A request that is no longer pending leaves the index by itself.
ALTER TABLE payment_requests ADD COLUMN IF NOT EXISTS invoice_made_at TIMESTAMPTZ;
ALTER TABLE payment_requests ADD COLUMN IF NOT EXISTS poll_at TIMESTAMPTZ;
CREATE INDEX IF NOT EXISTS payment_requests_polls ON payment_requests (poll_at) WHERE status = 'pending' AND poll_at IS NOT NULL;

-- Money that a question found and that does not fit is logged beside the calls. All rows until now are calls, so the
-- constraint is only checked for new ones, which spares reading the table.
ALTER TABLE webhook_logs ADD COLUMN IF NOT EXISTS source VARCHAR(10) NOT NULL DEFAULT 'webhook';
ALTER TABLE webhook_logs DROP CONSTRAINT IF EXISTS webhook_logs_known_source;
ALTER TABLE webhook_logs ADD CONSTRAINT webhook_logs_known_source CHECK (source in ('webhook', 'poll')) NOT VALID;
