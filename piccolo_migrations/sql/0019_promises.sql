-- The latest estimate of the wait for a mitra at each hour of the day, in UTC (docs/fairness.md#honest-promise).
CREATE TABLE IF NOT EXISTS wait_estimates (
  hour INTEGER PRIMARY KEY NOT NULL,
  searches INTEGER NOT NULL,
  p50_seconds INTEGER,
  p90_seconds INTEGER,
  judged INTEGER NOT NULL,
  missed INTEGER NOT NULL,
  estimated_at TIMESTAMPTZ NOT NULL,
  CONSTRAINT wait_estimates_hour_of_day CHECK (hour BETWEEN 0 AND 23),
  CONSTRAINT wait_estimates_in_order CHECK (
    p90_seconds IS NULL OR (p50_seconds >= 1 AND p90_seconds >= p50_seconds)
  ),
  CONSTRAINT wait_estimates_missed_was_judged CHECK (missed BETWEEN 0 AND judged)
);

-- What the customer of a payment request was promised.
CREATE TABLE IF NOT EXISTS wait_promises (
  payment_request_id UUID PRIMARY KEY NOT NULL REFERENCES payment_requests (id) ON DELETE RESTRICT,
  made_at TIMESTAMPTZ NOT NULL,
  p50_seconds INTEGER NOT NULL,
  p90_seconds INTEGER NOT NULL,
  is_shown BOOLEAN NOT NULL,
  CONSTRAINT wait_promises_in_order CHECK (p50_seconds >= 1 AND p90_seconds >= p50_seconds)
);
CREATE INDEX IF NOT EXISTS wait_promises_made ON wait_promises (made_at, payment_request_id);
