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

-- name: devices
-- The active devices with a push token of each recipient, with those of an account that a customer has joined.
SELECT
  r.id::text AS recipient_id,
  a.id::text AS auth_session_id,
  a.push_token,
  a.locale
FROM unnest($1::uuid[]) AS r (id)
LEFT JOIN customers AS c ON c.id = r.id
JOIN auth_sessions AS a ON a.user_id IN (r.id, c.account_belongs_to)
WHERE a.push_token IS NOT NULL AND a.revoked_at IS NULL AND a.expires_at > $2
ORDER BY a.id;
