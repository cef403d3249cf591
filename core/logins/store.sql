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

-- name: revoke
-- End an auth session ($1), or all of a user ($2) except $4; return those that were active with their push tokens.
WITH living AS (
  SELECT
    id,
    push_token
  FROM auth_sessions
  WHERE (id = $1 OR user_id = $2) AND revoked_at IS NULL AND id IS DISTINCT FROM $4::uuid
  ORDER BY id
  FOR UPDATE
)

UPDATE auth_sessions a
SET revoked_at = $3, revoked_real_at = clock_timestamp(), push_token = NULL, push_token_at = NULL
FROM living
WHERE a.id = living.id
RETURNING a.id, a.user_type, a.user_id, living.push_token;

-- name: forget_identity_tokens
-- Delete up to $1 used identity tokens that have expired.
DELETE FROM used_identity_tokens
WHERE id = ANY(ARRAY(
  SELECT id
  FROM used_identity_tokens
  WHERE expires_real_at < clock_timestamp() - interval '1 minute'
  LIMIT $1
));
