-- What a customer finds again, newest first: an account's transactions by time. Safe to run again.
CREATE INDEX IF NOT EXISTS customer_transactions_newest ON customer_transactions (customer_id, created_at, id);
DROP INDEX IF EXISTS customer_transactions_customer;
