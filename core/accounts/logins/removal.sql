-- name: remove_codes
-- Delete at most $3 requests for codes from before $1, whose ids are below $2.
DELETE FROM otp_requests
WHERE id = ANY(ARRAY(
  SELECT id
  FROM otp_requests
  WHERE id < $2::uuid AND created_at < $1
  ORDER BY id
  LIMIT $3
  FOR UPDATE SKIP LOCKED
));

-- name: remove_marks
-- Delete at most $2 requests for codes from before $1 whose phone was replaced by a mark, because its user was erased.
DELETE FROM otp_requests
WHERE id = ANY(ARRAY(
  SELECT id
  FROM otp_requests
  WHERE phone LIKE '#%' AND created_at < $1
  ORDER BY created_at
  LIMIT $2
  FOR UPDATE SKIP LOCKED
));

-- name: remove_ended
-- Delete at most $2 auth sessions that ended before $1.
DELETE FROM auth_sessions
WHERE id = ANY(ARRAY(
  SELECT id
  FROM auth_sessions
  WHERE least(revoked_at, expires_at) < $1
  ORDER BY least(revoked_at, expires_at)
  LIMIT $2
  FOR UPDATE SKIP LOCKED
));

-- name: lock_unused
-- Lock the auth sessions of users ($1) that were not used since $2; return their ids.
SELECT id::text
FROM auth_sessions
WHERE user_id = ANY($1::uuid[]) AND coalesce(last_used_at, created_at) < $2
FOR UPDATE SKIP LOCKED;

-- name: remove
-- Delete the auth sessions of users.
DELETE FROM auth_sessions
WHERE user_id = ANY($1::uuid[]);
