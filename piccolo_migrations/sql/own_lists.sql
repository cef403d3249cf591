-- What a customer finds again, newest first: an account's transactions by time. Safe to run again.
CREATE INDEX IF NOT EXISTS customer_transactions_newest ON customer_transactions (customer_id, created_at, id);
DROP INDEX IF EXISTS customer_transactions_customer;

-- The last push of a device whose auth session ends with the change: it is wanted until someone else has the token.
ALTER TABLE pushes ADD COLUMN IF NOT EXISTS is_farewell BOOLEAN NOT NULL DEFAULT false;
