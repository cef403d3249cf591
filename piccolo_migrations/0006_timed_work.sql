-- sha256 24ff939ac3da51bfc7eea2fba6bea1c2009ecca4696f7e193d6483f23e66af02
-- What waits for its moment: one row for each piece of work that a deadline or a sweep does, with the moment from which
-- it is due. `kind` is the name of the deadline or sweep (core/desk/timed_work.py, jobs/schedule.py). A constant kind
-- leaves one part of the view, and each part has an index on its moment. What depends on the clock or on settings is
-- not here: silent mitras are in mitra_silences.
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
