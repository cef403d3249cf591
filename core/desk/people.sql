-- name: mitras
-- All mitras, with their presence and how many sessions they have.
SELECT
  m.id,
  m.phone,
  m.display_name,
  m.is_active,
  coalesce(o.is_online, false) AS is_online,
  o.last_heartbeat_at,
  o.reachable_at,
  (
    SELECT count(*)::int
    FROM chat_sessions AS s
    WHERE s.mitra_id = m.id AND is_held(s.status)
  ) AS active_session_count,
  m.erased_at,
  m.created_at
FROM mitras AS m
LEFT JOIN mitra_online_status AS o ON o.mitra_id = m.id;

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

-- name: sums
-- The money and the chats of the account of a customer, or of a mitra ($1).
WITH account AS (
  SELECT id
  FROM customers
  WHERE id = $1 OR account_belongs_to = $1
),

chats AS (
  SELECT
    s.id,
    s.payment_request_id
  FROM chat_sessions AS s
  JOIN account AS a ON a.id = s.customer_id
  WHERE s.paired_at IS NOT NULL
  UNION ALL
  SELECT
    id,
    payment_request_id
  FROM chat_sessions
  WHERE mitra_id = $1 AND paired_at IS NOT NULL
),

requests AS (
  SELECT p.id
  FROM payment_requests AS p
  JOIN account AS a ON a.id = p.customer_id
  UNION
  SELECT payment_request_id
  FROM chats
  UNION
  SELECT p.id
  FROM payment_requests AS p
  JOIN chats AS c ON c.id = p.extends_session_id
)

SELECT
  (
    SELECT coalesce(sum(p.amount), 0)::bigint
    FROM requests AS r
    JOIN payment_requests AS p ON p.id = r.id
    WHERE p.confirmed_at IS NOT NULL
  ) AS paid,
  (
    SELECT coalesce(sum(t.amount), 0)::bigint
    FROM requests AS r
    JOIN customer_transactions AS t ON t.payment_request_id = r.id
    WHERE t.amount > 0
  ) AS earned,
  (
    SELECT coalesce(sum(d.amount), 0)::bigint
    FROM requests AS r
    JOIN refunds AS d ON d.payment_request_id = r.id
    WHERE d.status = 'succeeded'
  ) + (
    SELECT coalesce(sum(f.amount), 0)::bigint
    FROM requests AS r
    JOIN pairing_failures AS f ON f.payment_request_id = r.id
    WHERE
      f.operator_action = 'refunded'
      AND NOT EXISTS (
        SELECT 1
        FROM refunds AS d
        WHERE d.failure_id = f.id AND d.status = 'succeeded'
      )
  ) AS refunded,
  (
    SELECT count(*)::int
    FROM chats
  ) AS chats;
