-- name: messages
-- Messages with the status that the session's markers give them. The columns of single messages may be behind. `d` has
-- the recipient's markers. A blanked session shows no texts, even while its rows still have some.
SELECT
  m.id,
  m.session_id,
  m.seq,
  m.sender_type,
  m.sender_id,
  m.client_message_id,
  m.type,
  CASE WHEN s.blanked_at IS NULL THEN m.content ELSE '' END AS content,
  CASE WHEN s.blanked_at IS NULL THEN m.metadata END AS metadata,
  CASE
    WHEN m.status = 'read' OR m.seq <= d.read_seq THEN 'read'
    WHEN m.status = 'delivered' OR m.seq <= d.delivered_seq THEN 'delivered'
    ELSE 'sent'
  END AS status,
  m.created_at,
  coalesce(m.delivered_at, CASE WHEN m.seq <= d.delivered_seq THEN d.delivered_at END) AS delivered_at,
  coalesce(m.read_at, CASE WHEN m.seq <= d.read_seq THEN d.read_at END) AS read_at,
  s.blanked_at IS NOT NULL AS blanked
FROM chat_messages AS m
JOIN chat_sessions AS s ON s.id = m.session_id
CROSS JOIN LATERAL (
  SELECT
    CASE m.sender_type
      WHEN 'customer' THEN s.mitra_delivered_seq
      ELSE s.customer_delivered_seq
    END AS delivered_seq,
    CASE m.sender_type
      WHEN 'customer' THEN s.mitra_read_seq
      ELSE s.customer_read_seq
    END AS read_seq,
    CASE m.sender_type
      WHEN 'customer' THEN s.mitra_delivered_at
      ELSE s.customer_delivered_at
    END AS delivered_at,
    CASE m.sender_type
      WHEN 'customer' THEN s.mitra_read_at
      ELSE s.customer_read_at
    END AS read_at
) AS d;


-- name: progress
-- The progress of all chats.
SELECT
  id,
  customer_id,
  mitra_id,
  status,
  last_seq,
  customer_delivered_seq,
  customer_read_seq,
  mitra_delivered_seq,
  mitra_read_seq
FROM chat_sessions
WHERE mitra_id IS NOT NULL;


-- name: progress_since
-- The progress of those chats of which the caller does not know the last seq or the markers, and of completed ones. The
-- markers that it knows are in the order of Marker.
SELECT
  s.id,
  s.customer_id,
  s.mitra_id,
  s.status,
  s.last_seq,
  s.customer_delivered_seq,
  s.customer_read_seq,
  s.mitra_delivered_seq,
  s.mitra_read_seq
FROM
  unnest($1::uuid[], $2::int[], $3::int[], $4::int[], $5::int[], $6::int[])
    AS known (
      id, last_seq, customer_delivered, customer_read, mitra_delivered, mitra_read
    )
JOIN chat_sessions AS s ON s.id = known.id
WHERE
  s.mitra_id IS NOT NULL
  AND (
    s.status = 'completed'
    OR s.last_seq <> known.last_seq
    OR s.customer_delivered_seq <> known.customer_delivered
    OR s.customer_read_seq <> known.customer_read
    OR s.mitra_delivered_seq <> known.mitra_delivered
    OR s.mitra_read_seq <> known.mitra_read
  );
