-- sha256 aa28d61c0be236f1e9df715a5363a129e47b2838d06851821428b733ca3c5476
-- The worklist of failed pairings: who works on one, and until when it is put aside. Amounts are searched.
ALTER TABLE pairing_failures
ADD COLUMN IF NOT EXISTS assigned_to UUID,
ADD COLUMN IF NOT EXISTS snoozed_until TIMESTAMPTZ;

-- next transaction
CREATE INDEX IF NOT EXISTS pairing_failures_amount ON pairing_failures (amount, created_at, id);

-- next transaction
CREATE INDEX IF NOT EXISTS payment_requests_amount ON payment_requests (amount, created_at, id);
