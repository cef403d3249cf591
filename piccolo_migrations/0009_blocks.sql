-- sha256 edb9da01f7f4887d04d2755d5f02035efb543c4e963c39169c2adc06e0ec0950
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

-- next transaction
-- Reports of one party of a session about the other one (docs/product.md#reports).
CREATE TABLE IF NOT EXISTS session_reports (
  id UUID PRIMARY KEY NOT NULL,
  session_id UUID NOT NULL REFERENCES chat_sessions (id) ON DELETE RESTRICT,
  reporter VARCHAR(10) NOT NULL,
  reason VARCHAR(20) NOT NULL,
  message TEXT,
  resolution VARCHAR(20),
  note TEXT,
  resolved_by UUID,
  resolved_at TIMESTAMPTZ,
  created_at TIMESTAMPTZ NOT NULL DEFAULT current_timestamp,
  CONSTRAINT session_reports_once_a_party UNIQUE (session_id, reporter),
  CONSTRAINT session_reports_known_reporter CHECK (reporter IN ('customer', 'mitra')),
  CONSTRAINT session_reports_known_reason CHECK (
    reason IN ('no_answer', 'rude', 'harassment', 'sexual', 'self_harm', 'scam', 'other')
  ),
  CONSTRAINT session_reports_known_resolution CHECK (
    resolution IN ('dismissed', 'warned', 'blocked', 'made_good')
  ),
  CONSTRAINT session_reports_resolved_is_whole CHECK (
    (resolution IS NULL) = (resolved_at IS NULL) AND (resolution IS NULL) = (resolved_by IS NULL)
  ),
  CONSTRAINT session_reports_open_has_no_note CHECK (resolution IS NOT NULL OR note IS NULL)
);

CREATE INDEX IF NOT EXISTS session_reports_created_at ON session_reports (created_at DESC, id DESC);
CREATE INDEX IF NOT EXISTS session_reports_open ON session_reports (created_at DESC, id DESC)
WHERE resolution IS NULL;
CREATE INDEX IF NOT EXISTS session_reports_with_texts ON session_reports (resolved_at)
WHERE message IS NOT NULL OR note IS NOT NULL;

-- next transaction
-- Accounts that an operator has blocked.
ALTER TABLE customers
ADD COLUMN IF NOT EXISTS blocked_at TIMESTAMPTZ,
ADD COLUMN IF NOT EXISTS blocked_until TIMESTAMPTZ,
ADD COLUMN IF NOT EXISTS block_reason TEXT;
ALTER TABLE customers DROP CONSTRAINT IF EXISTS customers_block_is_whole;
ALTER TABLE customers ADD CONSTRAINT customers_block_is_whole CHECK (
  blocked_at IS NOT NULL OR blocked_until IS NULL AND block_reason IS NULL
);

-- next transaction
-- The blocked ones are few: whoever asks for them reads no other account.
CREATE INDEX IF NOT EXISTS customers_blocked ON customers (id)
WHERE blocked_at IS NOT NULL;
