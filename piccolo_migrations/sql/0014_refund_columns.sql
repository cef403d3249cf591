-- How a payment was paid, and what an operator wrote about a failure (docs/fairness.md#refunds).
ALTER TABLE payment_requests ADD COLUMN IF NOT EXISTS payment_channel VARCHAR(50);
-- next transaction
ALTER TABLE pairing_failures ADD COLUMN IF NOT EXISTS note TEXT;

DROP TRIGGER IF EXISTS refund_is_whole ON pairing_failures;
CREATE CONSTRAINT TRIGGER refund_is_whole
AFTER UPDATE OF operator_action, superseded_at, amount ON pairing_failures
DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW EXECUTE FUNCTION refund_is_whole();
