-- name: begin
-- Blank the goodbyes of the completed sessions among $1 that have texts, at $2, and plan the blanking of their
-- messages. Return their ids.
WITH begun AS (
  UPDATE chat_sessions
  SET blanked_at = $2, blanked_seq = CASE WHEN last_seq > 0 THEN 0 END
  WHERE
    status = 'completed'
    AND blanked_at IS NULL
    AND id = ANY(ARRAY(
      SELECT id
      FROM chat_sessions
      WHERE id = ANY($1::uuid[])
      ORDER BY id
      FOR NO KEY UPDATE
    ))
  RETURNING id
)

SELECT id::text
FROM begun;

-- name: blank_goodbyes
-- Blank the goodbyes of sessions.
UPDATE session_closures
SET message = ''
WHERE session_id = ANY($1::uuid[]) AND message <> '';

-- name: claim_due
-- Lock at most $2 completed sessions with texts that ended before $1, those that ended first; return their ids.
SELECT id::text
FROM chat_sessions
WHERE status = 'completed' AND blanked_at IS NULL AND ended_at < $1
ORDER BY ended_at
LIMIT $2
FOR NO KEY UPDATE SKIP LOCKED;

-- name: claim_unfinished
-- Lock at most $1 blanked sessions of which messages still have texts; return where each one stands.
SELECT
  id::text,
  blanked_seq,
  last_seq
FROM chat_sessions
WHERE blanked_seq IS NOT NULL
ORDER BY id
LIMIT $1
FOR NO KEY UPDATE SKIP LOCKED;

-- name: lock_unfinished
-- Lock at most $1 of the blanked sessions $2 of which messages still have texts; return where each one stands.
SELECT
  id::text,
  blanked_seq,
  last_seq
FROM chat_sessions
WHERE blanked_seq IS NOT NULL AND id = ANY($2::uuid[])
ORDER BY id
LIMIT $1
FOR NO KEY UPDATE;

-- name: save
-- Store up to which seq ($2) the messages of a session are blanked; null if all are.
UPDATE chat_sessions
SET blanked_seq = $2
WHERE id = $1;
