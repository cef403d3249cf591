-- Operators search payments and failures by their amounts.
CREATE INDEX IF NOT EXISTS pairing_failures_amount ON pairing_failures (amount, created_at, id);

-- next transaction
CREATE INDEX IF NOT EXISTS payment_requests_amount ON payment_requests (amount, created_at, id);
