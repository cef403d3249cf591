-- The network of a stranger's request for a code, for its share of the budget (docs/security.md#limits). Processes of
-- older versions leave it empty: their requests count for the budget only.
ALTER TABLE otp_requests ADD COLUMN IF NOT EXISTS network VARCHAR(45);

-- next transaction
-- Whether the account of an invoice had paid before: such accounts have higher limits.
ALTER TABLE invoices_asked ADD COLUMN IF NOT EXISTS has_paid BOOLEAN NOT NULL DEFAULT false;

-- next transaction
-- The order in which pushes are claimed.
CREATE INDEX IF NOT EXISTS pushes_next ON pushes (urgent DESC, due_real_at);
