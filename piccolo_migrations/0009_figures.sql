-- sha256 51e9161081bbc637128884a5608af144ebb8d28b25d732246c1208d22b19e4aa
-- Indexes for the figures of the business (core/desk/business_figures.sql): what was earned and refunded on some days.
CREATE INDEX IF NOT EXISTS customer_transactions_created ON customer_transactions (created_at);
-- next transaction
CREATE INDEX IF NOT EXISTS pairing_failures_refunded ON pairing_failures (actioned_at)
WHERE operator_action = 'refunded';
