-- The outages whose credits are due.
CREATE INDEX IF NOT EXISTS outages_credit ON outages (credit_at)
WHERE credit_at IS NOT NULL;
