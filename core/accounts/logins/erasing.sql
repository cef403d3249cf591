-- name: lock_devices
-- Lock all auth sessions of users.
SELECT id
FROM auth_sessions
WHERE user_id = ANY($1::uuid[])
ORDER BY id
FOR UPDATE;

-- name: lock_codes
-- Lock the requests for codes for a phone.
SELECT id
FROM otp_requests
WHERE phone = $1
ORDER BY id
FOR UPDATE;

-- name: forget_codes
-- Delete the requests for codes for a phone that were made by $2; with $3 only those of such users.
DELETE FROM otp_requests
WHERE phone = $1 AND created_at <= $2 AND user_type = coalesce($3, user_type);

-- name: mark_codes
-- Replace a phone in its requests for codes, which nothing can use any longer. The address is emptied, because the
-- column is never null. With $3 only those of such users.
UPDATE otp_requests
SET
  phone = $2,
  ip_address = '',
  network = NULL,
  code_hash = NULL,
  provider_reference = NULL,
  send_due_real_at = NULL,
  used_at = coalesce(used_at, created_at)
WHERE phone = $1 AND user_type = coalesce($3, user_type);
