-- name: rotate
-- Replace the current refresh token's hash ($2), unless it is not current or the auth session has ended.
UPDATE auth_sessions
SET
  refresh_token_hash = $3,
  previous_token_hash = $7,
  rotated_at = $4,
  last_used_at = $4,
  expires_at = $5,
  used_tokens = $6,
  refresh_generation = $8,
  locale = coalesce($9, locale)
WHERE id = $1 AND refresh_token_hash = $2 AND revoked_at IS NULL;

-- name: user_exists
-- Whether there is a user of a type ($1) with this id ($2).
SELECT 1
FROM customers
WHERE $1 = 'customer' AND id = $2
UNION ALL
SELECT 1
FROM mitras
WHERE $1 = 'mitra' AND id = $2;

-- name: would_lock_out
-- Whether the user $1 is an anonymous customer who would lose the last auth session that lives at $3: without that of
-- the id $2, or without all of them if it is null.
SELECT coalesce(bool_and(a.id = $2 OR $2::uuid IS NULL), false)
FROM customers AS c
JOIN auth_sessions AS a ON a.user_id = c.id
WHERE c.id = $1 AND c.is_anonymous AND a.revoked_at IS NULL AND a.expires_at > $3;

-- name: revoke
-- End an auth session ($1), or all of a user ($2); return those that were active with what they knew of pushes. The
-- auth session $5 follows that of $4 on the same device.
WITH living AS (
  SELECT
    id,
    push_token,
    push_token_at
  FROM auth_sessions
  WHERE (id = $1 OR user_id = $2) AND revoked_at IS NULL
  ORDER BY id
  FOR UPDATE
)

UPDATE auth_sessions a
SET
  revoked_at = $3,
  revoked_real_at = clock_timestamp(),
  push_token = NULL,
  push_token_at = NULL,
  replaced_by = CASE WHEN a.id = $4 THEN $5::uuid END
FROM living
WHERE a.id = living.id
RETURNING a.id, a.user_type, a.user_id, living.push_token, living.push_token_at, a.locale;

-- name: forget_identity_tokens
-- Delete up to $1 used identity tokens that have expired.
DELETE FROM used_identity_tokens
WHERE id = ANY(ARRAY(
  SELECT id
  FROM used_identity_tokens
  WHERE expires_real_at < clock_timestamp() - interval '1 minute'
  LIMIT $1
));

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
