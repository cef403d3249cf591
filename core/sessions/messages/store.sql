-- name: commit
-- Store a batch of messages and read markers. Arrays are sent as text, which PostgreSQL parses faster than Python
-- encodes the binary form.
SELECT *
FROM
  chat_commit(
    $1::text::uuid[],
    $2::text::int[],
    $3::text::int[],
    $4::text::int[],
    $5::text::int[],
    $6::text::int[],
    $7::text::uuid[],
    $8::text::uuid[],
    $9::text::uuid[],
    $10::text::text[],
    $11::text::text[],
    $12::text::text[],
    $13,
    $14
  );

-- name: commit_one
-- Store one message and the read markers of its session.
SELECT *
FROM chat_commit_one($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13);

-- name: note_unshown
-- Note devices that have messages of sessions without showing them, given as sessions, sides, devices and up to which
-- seq. What another device has shown since is forgotten, and a repeat writes nothing. Sessions that are locked are
-- skipped, never waited for: their devices get one push more.
WITH held AS (
  SELECT
    session_id,
    jsonb_object_agg(device, up_to) FILTER (WHERE side = 'customer') AS customer,
    jsonb_object_agg(device, up_to) FILTER (WHERE side = 'mitra') AS mitra
  FROM unnest($1::uuid[], $2::text[], $3::text[], $4::int[]) AS u (session_id, side, device, up_to)
  GROUP BY session_id
),

locked AS MATERIALIZED (
  SELECT id
  FROM chat_sessions
  WHERE id = ANY($1::uuid[])
  FOR NO KEY UPDATE SKIP LOCKED
)

UPDATE chat_sessions AS s
SET
  customer_unshown = (
    SELECT jsonb_object_agg(u.key, greatest(u.value::int, (s.customer_unshown ->> u.key)::int))
    FROM jsonb_each(coalesce(s.customer_unshown, '{}') || coalesce(h.customer, '{}')) AS u
    WHERE greatest(u.value::int, (s.customer_unshown ->> u.key)::int) > s.customer_delivered_seq
  ),
  mitra_unshown = (
    SELECT jsonb_object_agg(u.key, greatest(u.value::int, (s.mitra_unshown ->> u.key)::int))
    FROM jsonb_each(coalesce(s.mitra_unshown, '{}') || coalesce(h.mitra, '{}')) AS u
    WHERE greatest(u.value::int, (s.mitra_unshown ->> u.key)::int) > s.mitra_delivered_seq
  )
FROM held AS h
WHERE
  s.id = h.session_id
  AND s.id = ANY(ARRAY(
    SELECT id
    FROM locked
  ))
  AND (
    EXISTS (
      SELECT 1
      FROM jsonb_each(h.customer) AS u
      WHERE u.value::int > greatest((s.customer_unshown ->> u.key)::int, s.customer_delivered_seq)
    )
    OR EXISTS (
      SELECT 1
      FROM jsonb_each(h.mitra) AS u
      WHERE u.value::int > greatest((s.mitra_unshown ->> u.key)::int, s.mitra_delivered_seq)
    )
  );

-- name: sync_statuses
-- Sync the statuses of messages with the read markers of their session. Safe to repeat.
SELECT
  id::text,
  final,
  goes_on
FROM chat_fill($1, $2, $3);

-- name: blank
-- Blank the messages of a session ($1) with a seq above $2, up to $3. They are locked in the order of chat_fill.
WITH texts AS (
  SELECT seq
  FROM chat_messages
  WHERE session_id = $1 AND seq > $2 AND seq <= $3 AND (content <> '' OR metadata IS NOT NULL)
  ORDER BY sender_type, seq
  FOR NO KEY UPDATE
)

UPDATE chat_messages
SET content = '', metadata = NULL
WHERE
  session_id = $1
  AND seq = ANY(ARRAY(
    SELECT seq
    FROM texts
  ));
