-- name: operators
-- All operators. Until `locked_until`, sign-ins from some or all addresses are refused. $1 is now; $2 says that single
-- addresses are locked (`cc_login_lockout_scope`).
SELECT
  o.id,
  o.email,
  o.display_name,
  o.role_id,
  r.name AS role,
  o.disabled,
  o.password_hash <> '' AS has_password,
  o.totp_secret IS NOT NULL AS has_totp,
  greatest(
    CASE WHEN o.lockout_until > $1 THEN o.lockout_until END,
    (
      SELECT max(a.lockout_until)
      FROM operator_sign_in_addresses AS a
      WHERE
        $2::boolean
        AND a.email_hash = encode(sha256(convert_to(o.email, 'UTF8')), 'hex')
        AND a.lockout_until > $1
    )
  ) AS locked_until,
  o.created_at
FROM control_center_users AS o
JOIN roles AS r ON r.id = o.role_id;


-- name: roles
-- All roles, with the number of operators who have each one.
SELECT
  r.id,
  r.name,
  r.permissions,
  r.require_totp,
  (
    SELECT count(*)::int
    FROM control_center_users AS o
    WHERE o.role_id = r.id
  ) AS operator_count,
  r.created_at
FROM roles AS r;
