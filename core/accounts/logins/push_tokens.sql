-- name: lock_devices
-- Lock the device that registers a push token, and every device that has the token.
SELECT
  id,
  user_type,
  user_id,
  revoked_at
FROM auth_sessions
WHERE id = $1 OR push_token = $2
ORDER BY id
FOR UPDATE;

-- name: give
-- Set or remove a device's push token, and its language if there is one.
UPDATE auth_sessions
SET push_token = $2, push_token_at = $3, locale = coalesce($4, locale)
WHERE id = $1;

-- name: inherit
-- Give a new device ($1) the push token of the one that it replaces, and its language if it has not named one.
UPDATE auth_sessions
SET push_token = $2, push_token_at = $3, locale = coalesce(locale, $4)
WHERE id = $1;

-- name: devices
-- The $3 active devices of each recipient that registered a push token last, newest first, with those of an account
-- that a customer has joined.
SELECT
  r.id::text AS recipient_id,
  d.auth_session_id,
  d.push_token,
  d.locale
FROM unnest($1::uuid[]) AS r (id)
LEFT JOIN customers AS c ON c.id = r.id
CROSS JOIN
  LATERAL (
    SELECT
      a.id::text AS auth_session_id,
      a.push_token,
      a.locale,
      a.push_token_at
    FROM auth_sessions AS a
    WHERE
      a.user_id IN (r.id, c.account_belongs_to)
      AND a.push_token IS NOT NULL
      AND a.revoked_at IS NULL
      AND a.expires_at > $2
    ORDER BY a.push_token_at DESC NULLS LAST, a.id DESC
    LIMIT $3
  ) AS d
ORDER BY d.push_token_at DESC NULLS LAST, d.auth_session_id DESC;

-- name: make_room
-- Remove the push tokens of a user's devices but those of the $2 that registered last. A locked device is skipped: it
-- changes its token itself.
UPDATE auth_sessions
SET push_token = NULL, push_token_at = NULL
WHERE
  id = ANY(ARRAY(
    SELECT a.id
    FROM auth_sessions AS a
    WHERE
      a.id IN (
        SELECT b.id
        FROM auth_sessions AS b
        WHERE b.user_id = $1 AND b.push_token IS NOT NULL AND b.revoked_at IS NULL
        ORDER BY b.push_token_at DESC NULLS LAST
        OFFSET $2
      )
    FOR UPDATE OF a SKIP LOCKED
  ));
