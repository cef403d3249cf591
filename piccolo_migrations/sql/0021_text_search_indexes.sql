-- Support searches parts of names, numbers and addresses.
CREATE INDEX IF NOT EXISTS customers_folded_parts ON customers USING gin (
  folded(display_name) gin_trgm_ops, phone gin_trgm_ops, folded(email) gin_trgm_ops
);

-- next transaction
DROP INDEX IF EXISTS customers_parts;
