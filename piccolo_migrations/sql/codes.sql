-- Codes of mitras are sent after the answer, by any process: the row says from when on another one may send it.
-- Codes of customers have an hourly budget, half of it for phones that have an account.

ALTER TABLE otp_requests ADD COLUMN IF NOT EXISTS number_refused BOOLEAN NOT NULL DEFAULT false;
ALTER TABLE otp_requests ADD COLUMN IF NOT EXISTS known_phone BOOLEAN NOT NULL DEFAULT false;
ALTER TABLE otp_requests ADD COLUMN IF NOT EXISTS send_due_real_at TIMESTAMPTZ;
ALTER TABLE otp_requests ADD COLUMN IF NOT EXISTS send_attempts INTEGER NOT NULL DEFAULT 0;

CREATE INDEX IF NOT EXISTS otp_requests_send_due ON otp_requests (send_due_real_at) WHERE send_due_real_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS otp_requests_budget ON otp_requests (created_at) INCLUDE (known_phone)
  WHERE user_type = 'customer' AND NOT delivery_failed;
