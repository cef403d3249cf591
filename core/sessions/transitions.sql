-- name: expire_due
-- Expire at most $3 sessions whose paid time ended by $1; $2 is their grace period. Locked ones are left to the next
-- sweep.
UPDATE chat_sessions
SET status = 'expired', grace_ends_at = expires_at + $2, warn_at = NULL
WHERE
  status = 'active'
  AND expires_at <= $1
  AND id = ANY(ARRAY(
    SELECT id
    FROM chat_sessions
    WHERE status = 'active' AND expires_at <= $1
    ORDER BY expires_at
    LIMIT $3
    FOR NO KEY UPDATE SKIP LOCKED
  ));

-- name: prolong
-- Give a session ($1) in the state $2 a new end ($3) and warning ($4), for $5 more minutes. $6 is when its paid time
-- runs again; null if it was not over.
UPDATE chat_sessions
SET
  status = 'active',
  expires_at = $3,
  warn_at = $4,
  grace_ends_at = NULL,
  extended_minutes = extended_minutes + $5,
  resumed_at = coalesce($6, resumed_at)
WHERE id = $1 AND status = $2;

-- name: lock_due
-- Lock at most $2 sessions whose grace period ended by $1, with their delivered messages: those with at most $3, or
-- only the session $4 if that is given.
SELECT
  s.id,
  greatest(s.customer_delivered_seq, s.mitra_delivered_seq) AS delivered
FROM timed_work AS w
JOIN chat_sessions AS s ON s.id = w.id
WHERE
  w.kind = 'grace'
  AND w.due_at <= $1
  AND CASE WHEN $4::uuid IS NULL THEN greatest(s.customer_delivered_seq, s.mitra_delivered_seq) <= $3 ELSE s.id = $4 END
ORDER BY w.due_at
LIMIT $2
FOR NO KEY UPDATE OF s SKIP LOCKED;

-- name: complete_due
-- Complete the locked sessions $2 whose grace period ended by $1, as this statement sees them.
UPDATE chat_sessions AS s
SET
  status = 'completed',
  ended_at = $1,
  grace_ends_at = NULL,
  ended_by = coalesce(s.ended_by, 'timer')
WHERE
  s.id = ANY($2)
  AND is_closable(s.status)
  AND EXISTS (
    SELECT 1
    FROM timed_work AS w
    WHERE w.kind = 'grace' AND w.id = s.id AND w.due_at <= $1
  );

-- name: revive
-- Make expired sessions ($1) active whose end is after $2 again. Their warning is $3 before it; none if no more is
-- left.
UPDATE chat_sessions
SET
  status = 'active',
  grace_ends_at = NULL,
  warn_at = CASE WHEN expires_at - $2 > $3 THEN expires_at - $3 END
WHERE id = ANY($1) AND status = 'expired' AND expires_at > $2;
