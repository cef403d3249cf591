-- name: add
-- Store pushes that are due now.
INSERT INTO pushes (
  id,
  auth_session_id,
  push_token,
  content,
  urgent,
  is_farewell,
  due_real_at,
  expires_real_at
)
SELECT
  u.id,
  u.device,
  u.token,
  u.content,
  u.urgent,
  u.is_farewell,
  clock_timestamp(),
  clock_timestamp() + u.ttl
FROM
  unnest($1::uuid[], $2::uuid[], $3::text[], $4::jsonb[], $5::bool[], $6::interval[], $7::bool[])
    AS u (id, device, token, content, urgent, ttl, is_farewell);

-- name: claim
-- Claim up to $1 due pushes for $2 seconds. A push is wanted if its device, or another one of the user, still has the
-- token; a farewell is wanted if no device has registered the token again. sqlfluff 4.5 can't read two sort keys before
-- `LIMIT $1`.
UPDATE pushes
SET attempts = attempts + 1, due_real_at = clock_timestamp() + make_interval(secs => $2)
WHERE
  id = ANY (ARRAY( -- noqa: PRS,LT01
    SELECT id
    FROM pushes
    WHERE due_real_at <= statement_timestamp()
    ORDER BY urgent DESC, due_real_at
    LIMIT $1
    FOR UPDATE SKIP LOCKED
  )) -- noqa: LT02
RETURNING
  id,
  auth_session_id,
  push_token,
  content,
  urgent,
  attempts,
  CASE
    WHEN is_farewell
      THEN
        NOT EXISTS (
          SELECT 1
          FROM auth_sessions AS a
          WHERE a.push_token = pushes.push_token
        )
    ELSE EXISTS (
      SELECT 1
      FROM auth_sessions AS was
      JOIN auth_sessions AS a ON a.user_id = was.user_id
      WHERE was.id = pushes.auth_session_id AND a.push_token = pushes.push_token AND a.revoked_at IS NULL
    )
  END AS is_wanted,
  expires_real_at;

-- name: done
-- Delete pushes.
DELETE FROM pushes
WHERE id = ANY($1);

-- name: drop_useless
-- Delete a push that expires within $2 seconds.
DELETE FROM pushes
WHERE id = $1 AND expires_real_at <= clock_timestamp() + make_interval(secs => $2);

-- name: again
-- Retry a push after $2 seconds.
UPDATE pushes
SET due_real_at = clock_timestamp() + make_interval(secs => $2)
WHERE id = $1;
