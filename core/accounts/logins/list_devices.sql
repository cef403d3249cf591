-- name: devices
-- The devices on which the user $2 of type $1 is signed in. $3 is now.
SELECT
  id,
  device_info,
  created_at,
  last_used_at,
  expires_at
FROM auth_sessions
WHERE
  user_type = $1
  AND user_id = $2
  AND revoked_at IS NULL
  AND expires_at > $3;
