-- Blocks between a customer and a mitra, which keep the two from being paired again (docs/product.md#blocks).
CREATE TABLE IF NOT EXISTS blocks (
  id UUID PRIMARY KEY NOT NULL,
  customer_id UUID NOT NULL REFERENCES customers (id) ON DELETE RESTRICT,
  mitra_id UUID NOT NULL,
  blocked_by VARCHAR(10) NOT NULL,
  session_id UUID NOT NULL,
  holds_since TIMESTAMPTZ NOT NULL,
  created_at TIMESTAMPTZ NOT NULL DEFAULT current_timestamp,
  CONSTRAINT blocks_once UNIQUE (customer_id, mitra_id, blocked_by),
  CONSTRAINT blocks_known_party CHECK (blocked_by IN ('customer', 'mitra'))
);

CREATE INDEX IF NOT EXISTS blocks_mitra_id ON blocks (mitra_id, created_at);

-- The mitras who have a block with a customer, of either side: with the account, if the customer has joined one. None
-- for a customer who is null. A search, a targeted request, an acceptance and the history all use this function.
CREATE OR REPLACE FUNCTION blocked_mitras(p_customer UUID) RETURNS TABLE (mitra_id UUID) LANGUAGE sql STABLE AS $$
  SELECT b.mitra_id
  FROM customers c
  JOIN blocks b ON b.customer_id = coalesce(c.account_belongs_to, c.id)
  WHERE c.id = p_customer
$$;

-- next transaction
ALTER TABLE blocks DROP CONSTRAINT IF EXISTS blocks_mitra_id_fkey;
ALTER TABLE blocks ADD CONSTRAINT blocks_mitra_id_fkey FOREIGN KEY (mitra_id) REFERENCES mitras (id) ON DELETE RESTRICT;
