-- sha256 3f25e08793a779841546d319a91fd7214ceea0bfb58b566fc3fe440dd7b13e8e
-- Who wrote in a paired session, without texts. A silence ends with a message or with the paid time. No row for
-- a session that was never paired.
CREATE OR REPLACE FUNCTION who_wrote(p_session UUID, p_now TIMESTAMPTZ) RETURNS TABLE (
  messages_by_customer INT,
  messages_by_mitra INT,
  first_reply_seconds INT,
  longest_silence_seconds INT
) LANGUAGE sql STABLE AS $$
  SELECT
    w.by_customer,
    w.by_mitra,
    w.first_reply_seconds,
    greatest(
      w.longest_gap,
      floor(
        extract(EPOCH FROM least(coalesce(s.ended_at, p_now), s.expires_at) - coalesce(w.newest_at, s.paired_at))
      ),
      0
    )::int
  FROM chat_sessions AS s
  CROSS JOIN
    LATERAL (
      SELECT
        count(*) FILTER (WHERE m.sender_type = 'customer')::int AS by_customer,
        count(*) FILTER (WHERE m.sender_type = 'mitra')::int AS by_mitra,
        floor(
          extract(EPOCH FROM min(m.created_at - m.asked_at) FILTER (WHERE m.sender_type = 'mitra'))
        )::int AS first_reply_seconds,
        floor(extract(EPOCH FROM max(m.created_at - m.before_at)))::int AS longest_gap,
        max(m.created_at) AS newest_at
      FROM (
        SELECT
          x.sender_type,
          x.created_at,
          lag(x.created_at, 1, s.paired_at) OVER (ORDER BY x.seq) AS before_at,
          min(x.created_at) FILTER (WHERE x.sender_type = 'customer') OVER (ORDER BY x.seq) AS asked_at
        FROM chat_messages AS x
        WHERE x.session_id = s.id AND x.sender_type <> 'system'
      ) AS m
    ) AS w
  WHERE s.id = p_session AND s.paired_at IS NOT NULL
$$;

-- Those of a completed session are stored when its receipt is signed, so that lists do not read its messages.
ALTER TABLE session_receipts
ADD COLUMN IF NOT EXISTS messages_by_customer INTEGER,
ADD COLUMN IF NOT EXISTS messages_by_mitra INTEGER,
ADD COLUMN IF NOT EXISTS first_reply_seconds INTEGER,
ADD COLUMN IF NOT EXISTS longest_silence_seconds INTEGER;

-- next transaction
-- The answers of mitras, for the activity summary, which reads ranges from indexes alone.
CREATE INDEX IF NOT EXISTS chat_request_notifications_answers ON chat_request_notifications (notified_at) INCLUDE (
  mitra_id, session_id, responded_at, lost_by_ms
)
WHERE response IN ('ACCEPTED', 'REJECTED') OR lost_by_ms IS NOT NULL;

-- next transaction
-- Failures of a person's page, by the mitra who was asked for.
CREATE INDEX IF NOT EXISTS pairing_failures_targeted ON pairing_failures (targeted_mitra_id)
WHERE targeted_mitra_id IS NOT NULL;
