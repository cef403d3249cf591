-- name: unsigned
-- At most $2 receipts of sessions completed before $1 that are not signed, the oldest first, after $3.
SELECT
  session_id::text,
  completed_at
FROM session_receipts
WHERE signed_at IS NULL AND completed_at < $1 AND ($3::timestamptz IS NULL OR (completed_at, session_id) > ($3, $4))
ORDER BY completed_at, session_id
LIMIT $2;

-- name: claim
-- Lock the receipt of a session ($1) if it is not signed.
SELECT
  session_id::text,
  talked_until,
  completed_at
FROM session_receipts
WHERE session_id = $1 AND signed_at IS NULL
FOR NO KEY UPDATE;

-- name: get
-- The receipt of a session; null columns if it is not signed.
SELECT
  completed_at,
  body,
  key_id,
  signature
FROM session_receipts
WHERE session_id = $1;

-- name: sign
-- Store the text and signature of a receipt, and who wrote in the chat, which never changes from now on.
UPDATE session_receipts
SET
  body = $2,
  key_id = $3,
  signature = $4,
  signed_at = $5,
  messages_by_customer = w.messages_by_customer,
  messages_by_mitra = w.messages_by_mitra,
  first_reply_seconds = w.first_reply_seconds,
  longest_silence_seconds = w.longest_silence_seconds
FROM who_wrote($1, $5) AS w
WHERE session_id = $1 AND signed_at IS NULL;

-- name: paid_time
-- The paid time of a session, and its credits in the order of the lost time.
SELECT
  s.paired_at,
  s.duration_minutes,
  s.extended_minutes,
  s.last_seq,
  ARRAY(
    SELECT (c.began_at, c.milliseconds)
    FROM session_time_credits AS c
    WHERE c.session_id = s.id
    ORDER BY c.began_at, c.id
  ) AS credits
FROM chat_sessions AS s
WHERE s.id = $1;
