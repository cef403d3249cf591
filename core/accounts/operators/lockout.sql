-- name: counts
-- The counts of an e-mail ($1; its hash is $2) from all addresses, and from one address ($3).
SELECT
  CASE WHEN o.id IS NULL THEN u.failed_login_count ELSE o.failed_login_count END AS everywhere_failed,
  CASE WHEN o.id IS NULL THEN u.lockout_until ELSE o.lockout_until END AS everywhere_until,
  a.failed_login_count AS here_failed,
  a.lockout_until AS here_until,
  a.signed_in_at
FROM (SELECT) AS nothing
LEFT JOIN control_center_users AS o ON o.email = $1
LEFT JOIN unknown_operator_logins AS u ON u.email_hash = $2
LEFT JOIN operator_sign_in_addresses AS a ON a.id = $3;

-- name: unknown_locked
-- Whether an e-mail that no operator has (its hash is $1) is locked at $2, from all addresses or from one.
SELECT
  EXISTS (
    SELECT 1
    FROM unknown_operator_logins
    WHERE email_hash = $1 AND lockout_until > $2
  )
  OR EXISTS (
    SELECT 1
    FROM operator_sign_in_addresses
    WHERE email_hash = $1 AND lockout_until > $2
  );

-- name: write_address
-- Store the count of an e-mail from one address, and the time ($5) of a sign-in from it.
UPDATE operator_sign_in_addresses
SET
  failed_login_count = $2,
  lockout_until = $3,
  signed_in_at = CASE WHEN $4 THEN $5 ELSE signed_in_at END
WHERE id = $1;

-- name: purge_unknown
-- Delete up to $3 unknown e-mails that were not used since $1 and are not locked.
DELETE FROM unknown_operator_logins
WHERE email_hash = ANY(ARRAY(
  SELECT email_hash
  FROM unknown_operator_logins
  WHERE updated_at < $1 AND (lockout_until IS NULL OR lockout_until < $2)
  LIMIT $3
  FOR UPDATE SKIP LOCKED
));

-- name: trim_unknown
-- Delete up to $3 unknown e-mails above $2: the oldest, but those that are locked at $1 last.
DELETE FROM unknown_operator_logins
WHERE email_hash = ANY(ARRAY(
  SELECT email_hash
  FROM unknown_operator_logins
  WHERE
    email_hash IN (
      SELECT email_hash
      FROM unknown_operator_logins
      ORDER BY (lockout_until > $1) DESC NULLS LAST, updated_at DESC
      LIMIT
        $3
        OFFSET $2
    )
  FOR UPDATE SKIP LOCKED
));

-- name: trim_addresses
-- Delete up to $3 addresses without a sign-in above $2: the oldest, but those that are locked at $1 last.
DELETE FROM operator_sign_in_addresses
WHERE id = ANY(ARRAY(
  SELECT id
  FROM operator_sign_in_addresses
  WHERE
    id IN (
      SELECT id
      FROM operator_sign_in_addresses
      WHERE signed_in_at IS NULL
      ORDER BY (lockout_until > $1) DESC NULLS LAST, updated_at DESC
      LIMIT
        $3
        OFFSET $2
    )
  FOR UPDATE SKIP LOCKED
));

-- name: purge_addresses
-- Delete up to $3 addresses that were not used since $1 and are not locked.
DELETE FROM operator_sign_in_addresses
WHERE id = ANY(ARRAY(
  SELECT id
  FROM operator_sign_in_addresses
  WHERE updated_at < $1 AND (lockout_until IS NULL OR lockout_until < $2)
  LIMIT $3
  FOR UPDATE SKIP LOCKED
));
