-- name: operators
-- Operators with the permissions of their roles.
SELECT
  o.id,
  o.email,
  o.display_name,
  o.role_id,
  r.name AS role_name,
  r.permissions,
  o.password_hash,
  o.password_change_due,
  o.disabled,
  o.totp_secret IS NOT NULL AS has_totp,
  r.require_totp AS totp_by_role,
  coalesce(jsonb_array_length(o.recovery_codes), 0) AS recovery_codes_left,
  o.created_at
FROM control_center_users AS o
JOIN roles AS r ON r.id = o.role_id;

-- name: any_administrator
-- One row if an enabled operator with a password has all rights.
SELECT 1
FROM control_center_users AS o
JOIN roles AS r ON r.id = o.role_id
WHERE NOT o.disabled AND o.password_hash <> '' AND r.permissions ->> '*' = 'write'
LIMIT 1;

-- name: update
-- Change an operator. Another password ends a lockout, and $7 says whether it is due for a change.
UPDATE control_center_users
SET
  email = $2,
  display_name = $3,
  role_id = $4,
  disabled = $6,
  failed_login_count = CASE WHEN password_hash = $5 THEN failed_login_count ELSE 0 END,
  lockout_until = CASE WHEN password_hash = $5 THEN lockout_until END,
  password_change_due = CASE WHEN password_hash = $5 THEN password_change_due ELSE $7 END,
  password_hash = $5
WHERE id = $1;

-- name: blank_audit_log
-- Blank the personal fields of the rows about users.
SELECT blank_operator_audit_log(u.id)
FROM unnest($1::uuid[]) AS u (id);
