-- name: invite
-- Invite mitras ($3, with their numbers of sessions $4) to a session ($2) in its round $5 and wave $8, with the ids $1.
-- Return those who had no open invitation to it.
INSERT INTO chat_request_notifications (
  id,
  session_id,
  mitra_id,
  round_number,
  notified_at,
  answer_by,
  active_session_count,
  wave_number
)
SELECT
  i.id,
  $2,
  i.mitra_id,
  $5,
  $6,
  $7,
  i.load,
  $8
FROM unnest($1::uuid[], $3::uuid[], $4::int[]) AS i (id, mitra_id, load)
ON CONFLICT (session_id, mitra_id) WHERE response IS NULL DO NOTHING
RETURNING mitra_id;

-- name: respond
-- Close the open invitations of the mitras $2 to the session $1 with the response $3, at $4. Return the mitras' ids.
UPDATE chat_request_notifications
SET response = $3, responded_at = $4
WHERE session_id = $1 AND mitra_id = ANY($2::uuid[]) AND response IS NULL
RETURNING mitra_id::text;

-- name: asked_for
-- How many distinct mitras each of these sessions has invited. A session without invitations has no row.
SELECT
  session_id::text,
  count(DISTINCT mitra_id)::int AS asked
FROM chat_request_notifications
WHERE session_id = ANY($1)
GROUP BY session_id;

-- name: asked_in_wave
-- How many invitations a wave ($2) of a session ($1) has.
SELECT count(*)::int
FROM chat_request_notifications
WHERE session_id = $1 AND wave_number = $2;

-- name: last_response
-- The response of a mitra's newest invitation to a session; an open invitation is the newest.
SELECT response
FROM chat_request_notifications
WHERE session_id = $1 AND mitra_id = $2
ORDER BY response IS NULL DESC, round_number DESC, notified_at DESC, id DESC
LIMIT 1;

-- name: keep_loss
-- Store how long after the winner the mitra $2 accepted the session $1, at $3. An acceptance after the invitation's
-- time to answer would have lost without a winner.
UPDATE chat_request_notifications n
SET lost_by_ms = greatest(0, extract(EPOCH FROM $3::timestamptz - s.paired_at) * 1000)::int
FROM chat_sessions AS s
WHERE
  n.session_id = $1
  AND n.mitra_id = $2
  AND n.response = 'MISSED'
  AND n.lost_by_ms IS NULL
  AND n.answer_by > $3
  AND s.id = n.session_id;

-- name: due_waves
-- At most $2 searching sessions whose wave ended by $1, before its round, the longest overdue first.
SELECT id
FROM timed_work
WHERE kind = 'wave' AND due_at <= $1
ORDER BY due_at
LIMIT $2;

-- name: due_rounds
-- At most $2 searching sessions whose round ended by $1, the longest overdue first.
SELECT id
FROM timed_work
WHERE kind = 'round' AND due_at <= $1
ORDER BY due_at
LIMIT $2;
