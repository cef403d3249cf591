-- Invoices of the last hour for accounts that never paid. Nothing refers to these rows, and they are deleted after the hour.
CREATE TABLE IF NOT EXISTS invoices_asked (
  id UUID PRIMARY KEY NOT NULL,
  customer_id UUID NOT NULL,
  address VARCHAR(45) NOT NULL,
  asked_at TIMESTAMPTZ NOT NULL
);
CREATE INDEX IF NOT EXISTS invoices_asked_customer ON invoices_asked (customer_id, asked_at);
CREATE INDEX IF NOT EXISTS invoices_asked_address ON invoices_asked (address, asked_at);
CREATE INDEX IF NOT EXISTS invoices_asked_age ON invoices_asked (asked_at);
