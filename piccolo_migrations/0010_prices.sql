-- sha256 ab6476b51bdf8c8e53a48c91050cf078669401a36918aebeb69addcd065728d3
-- Prices at a time (docs/product.md#prices-at-a-time): what operators asked for, until the jobs process sets the price.
CREATE TABLE IF NOT EXISTS pricing_schedules (
  id UUID PRIMARY KEY NOT NULL,
  pricing_tier_id UUID NOT NULL REFERENCES pricing_tiers (id) ON DELETE RESTRICT,
  price_idr INTEGER NOT NULL,
  starts_at TIMESTAMPTZ NOT NULL,
  asked_by UUID NOT NULL,
  asked_at TIMESTAMPTZ NOT NULL,
  CONSTRAINT pricing_schedules_sane CHECK (price_idr >= 0)
);

-- next transaction
ALTER TABLE pricing_schedules DROP CONSTRAINT IF EXISTS pricing_schedules_asked_by_fkey;
ALTER TABLE pricing_schedules ADD CONSTRAINT pricing_schedules_asked_by_fkey
FOREIGN KEY (asked_by) REFERENCES control_center_users (id) ON DELETE RESTRICT;

-- next transaction
-- One price for each tier and minute.
CREATE UNIQUE INDEX IF NOT EXISTS pricing_schedules_minute ON pricing_schedules (
  pricing_tier_id, date_trunc('minute', starts_at AT TIME ZONE 'UTC')
);
CREATE INDEX IF NOT EXISTS pricing_schedules_starts ON pricing_schedules (starts_at);

-- next transaction
ALTER TABLE pricing_tiers_history ADD COLUMN IF NOT EXISTS schedule JSONB;
ALTER TABLE pricing_tiers_history DROP CONSTRAINT IF EXISTS pricing_tiers_history_known_kind;
ALTER TABLE pricing_tiers_history ADD CONSTRAINT pricing_tiers_history_known_kind CHECK (
  change_kind IN ('created', 'updated', 'deleted', 'reactivated', 'reordered', 'scheduled', 'unscheduled', 'started')
) NOT VALID;
ALTER TABLE pricing_tiers_history DROP CONSTRAINT IF EXISTS pricing_tiers_history_says_the_schedule;
ALTER TABLE pricing_tiers_history ADD CONSTRAINT pricing_tiers_history_says_the_schedule CHECK (
  (schedule IS NOT NULL) = (change_kind IN ('scheduled', 'unscheduled', 'started'))
) NOT VALID;

-- next transaction
-- Check the rows that were there before. This blocks no reader or writer.
ALTER TABLE pricing_tiers_history VALIDATE CONSTRAINT pricing_tiers_history_known_kind;
ALTER TABLE pricing_tiers_history VALIDATE CONSTRAINT pricing_tiers_history_says_the_schedule;

-- next transaction
CREATE OR REPLACE VIEW timed_work (kind, id, due_at) AS
SELECT
  'expiry',
  id,
  expires_at
FROM chat_sessions
WHERE status = 'active'
UNION ALL
SELECT
  'warning',
  id,
  warn_at
FROM chat_sessions
WHERE warn_at IS NOT NULL
UNION ALL
-- A pending extension holds the grace period of an expired session.
SELECT
  'grace',
  s.id,
  s.grace_ends_at
FROM chat_sessions AS s
WHERE
  is_closable(s.status)
  AND NOT (s.status = 'expired' AND EXISTS (
    SELECT 1
    FROM session_extensions AS e
    WHERE e.session_id = s.id AND e.status = 'pending'
  ))
UNION ALL
SELECT
  'round',
  id,
  round_ends_at
FROM chat_sessions
WHERE status = 'searching'
UNION ALL
-- The last wave of a round ends with it.
SELECT
  'wave',
  id,
  wave_ends_at
FROM chat_sessions
WHERE status = 'searching' AND wave_ends_at < round_ends_at
UNION ALL
SELECT
  'repeat',
  id,
  asked_repeat_at
FROM chat_sessions
WHERE status = 'searching' AND asked_repeat_at IS NOT NULL
UNION ALL
SELECT
  'extension',
  id,
  answer_by
FROM session_extensions
WHERE status = 'pending'
UNION ALL
SELECT
  'credit',
  id,
  credit_at
FROM outages
WHERE credit_at IS NOT NULL
UNION ALL
SELECT
  'invoice_poll',
  id,
  poll_at
FROM payment_requests
WHERE status = 'pending' AND poll_at IS NOT NULL
UNION ALL
SELECT
  'refund',
  id,
  ask_at
FROM refunds
WHERE is_open_refund(status)
UNION ALL
SELECT
  'expire_payments',
  id,
  expires_at
FROM payment_requests
WHERE status = 'pending'
UNION ALL
-- A confirmed request without a session or an extension: its search or its extension has not begun.
SELECT
  'announce_again',
  p.id,
  p.confirmed_at
FROM payment_requests AS p
WHERE
  p.status = 'confirmed'
  AND NOT EXISTS (
    SELECT 1
    FROM chat_sessions AS s
    WHERE s.payment_request_id = p.id AND NOT is_unpaired(s.status)
  )
  AND NOT EXISTS (
    SELECT 1
    FROM session_extensions AS e
    WHERE e.payment_request_id = p.id
  )
UNION ALL
SELECT
  'absences',
  a.id,
  s.ended_at
FROM session_absences AS a
JOIN chat_sessions AS s ON s.id = a.session_id
WHERE a.ended_at IS NULL AND NOT is_held(s.status)
UNION ALL
SELECT
  'erase_rest',
  id,
  began_at
FROM erasures
WHERE completed_at IS NULL
UNION ALL
SELECT
  'sign_receipts',
  session_id,
  completed_at
FROM session_receipts
WHERE signed_at IS NULL
UNION ALL
SELECT
  'price',
  id,
  starts_at
FROM pricing_schedules;
