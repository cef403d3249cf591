-- name: any_between
-- Whether one of the customers ($1) has ever had a session with a mitra ($2).
SELECT 1
FROM chat_sessions
WHERE customer_id = ANY($1) AND mitra_id = $2
LIMIT 1;

-- name: searching_or_held
-- The sessions in which a customer's ids ($1) search, or chat with a mitra ($2), in the order of locking.
SELECT id::text
FROM chat_sessions
WHERE customer_id = ANY($1) AND is_live(status) AND (mitra_id IS NULL OR mitra_id = $2)
ORDER BY id;

-- name: lock_quiet_rounds
-- Lock at most $2 running blasts whose round ended by $1 and that have no open invitation; return the ends of their
-- searches.
SELECT
  s.id::text,
  s.search_ends_at
FROM chat_sessions AS s
WHERE
  s.status = 'searching'
  AND s.round_ends_at <= $1
  AND s.search_ends_at > $1
  AND s.targeted_mitra_id IS NULL
  AND NOT EXISTS (
    SELECT 1
    FROM chat_request_notifications AS n
    WHERE n.session_id = s.id AND n.response IS NULL
  )
ORDER BY s.round_ends_at
LIMIT $2
FOR NO KEY UPDATE OF s SKIP LOCKED;

-- name: begin_rounds
-- Move searching sessions ($1) to their next rounds, which end at $2.
UPDATE chat_sessions s
SET round_number = s.round_number + 1, round_ends_at = r.ends_at, wave_ends_at = NULL
FROM unnest($1::uuid[], $2::timestamptz[]) AS r (id, ends_at)
WHERE s.id = r.id AND s.status = 'searching';

-- name: end_answered_wave
-- End the running wave of a searching session ($1) at $2 if none of its invitations is open.
UPDATE chat_sessions s
SET wave_ends_at = $2
WHERE
  s.id = $1
  AND s.status = 'searching'
  AND s.wave_ends_at > $2
  AND NOT EXISTS (
    SELECT 1
    FROM chat_request_notifications AS n
    WHERE n.session_id = s.id AND n.wave_number = s.wave_number AND n.response IS NULL
  );

-- name: delivered_count
-- The delivered messages of a closing session in which a side has said goodbye: at most this many message statuses must
-- be synced.
SELECT greatest(s.customer_delivered_seq, s.mitra_delivered_seq)
FROM chat_sessions AS s
WHERE
  s.id = $1
  AND s.status = 'closing'
  AND EXISTS (
    SELECT 1
    FROM session_closures AS c
    WHERE c.session_id = s.id
  );

-- name: due_very_long
-- The sessions whose grace period ended by $1 and that have more than $2 delivered messages, with that number.
SELECT
  s.id::text,
  greatest(s.customer_delivered_seq, s.mitra_delivered_seq)
FROM timed_work AS w
JOIN chat_sessions AS s ON s.id = w.id
WHERE
  w.kind = 'grace'
  AND w.due_at <= $1
  AND greatest(s.customer_delivered_seq, s.mitra_delivered_seq) > $2
ORDER BY w.due_at
LIMIT 100;

-- name: count_closures
-- How many goodbyes a session has.
SELECT count(*)::int
FROM session_closures
WHERE session_id = $1;

-- name: held_after
-- Those of the sessions $1 that are active or expired and whose paid time ends after $2.
SELECT
  id::text,
  coalesce(resumed_at, paired_at) AS began_at,
  expires_at
FROM chat_sessions
WHERE id = ANY($1::uuid[]) AND is_held(status) AND expires_at > $2;
