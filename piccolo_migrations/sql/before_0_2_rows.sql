-- Fill the columns that before_0_2_schema.sql added. May run twice.

-- The seq of each side's newest message. Sessions that have ended come first, so that open ones are locked only
-- briefly.
UPDATE chat_sessions s
SET
  customer_sent_seq = greatest(s.customer_sent_seq, m.customer),
  mitra_sent_seq = greatest(s.mitra_sent_seq, m.mitra)
FROM (
  SELECT
    session_id,
    coalesce(max(seq) FILTER (WHERE sender_type = 'customer'), 0) AS customer,
    coalesce(max(seq) FILTER (WHERE sender_type = 'mitra'), 0) AS mitra
  FROM chat_messages
  GROUP BY session_id
) AS m
WHERE
  s.id = m.session_id
  AND s.status NOT IN ('active', 'expired', 'closing')
  AND (s.customer_sent_seq < m.customer OR s.mitra_sent_seq < m.mitra);
UPDATE chat_sessions s
SET
  customer_sent_seq = greatest(s.customer_sent_seq, m.customer),
  mitra_sent_seq = greatest(s.mitra_sent_seq, m.mitra)
FROM chat_sessions AS live
CROSS JOIN
  LATERAL (
    SELECT
      coalesce(max(seq) FILTER (WHERE sender_type = 'customer'), 0) AS customer,
      coalesce(max(seq) FILTER (WHERE sender_type = 'mitra'), 0) AS mitra
    FROM chat_messages
    WHERE session_id = live.id
  ) AS m
WHERE
  s.id = live.id
  AND live.status IN ('active', 'expired', 'closing')
  AND (s.customer_sent_seq < m.customer OR s.mitra_sent_seq < m.mitra);

-- Roles that may write everywhere get the area of the audit log, unless its migration has granted it before.
UPDATE roles SET permissions = permissions || '{"audit": "write"}'
WHERE
  NOT permissions ?| ARRAY['*', 'audit']
  AND permissions @> '{
    "config": "write", "pricing": "write", "mitras": "write", "customers": "write", "customers.pii": "write",
    "operators": "write", "activity": "write", "failed_pairings": "write", "sessions": "write", "payments": "write",
    "webhooks": "write"
  }'
  AND NOT EXISTS (
    SELECT 1 FROM migration
    WHERE name = '2026-11-23T18:00:00:000000'
  );
