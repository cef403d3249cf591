-- name: asked_by_phone
-- The requests of a phone ($1: with its marks), by customers and mitras, since $2 whose code was delivered or is on its
-- way.
SELECT created_at
FROM otp_requests
WHERE phone = ANY($1::text[]) AND created_at > $2 AND NOT delivery_failed
ORDER BY created_at;

-- name: asked_by_address
-- The requests of an address since $2. A code newer than $3 without the provider's answer may be refused.
SELECT
  created_at,
  delivery_failed,
  number_refused OR (
    user_type = 'customer' AND provider_reference IS NULL AND NOT delivery_failed AND created_at > $3
  ) AS may_be_refused
FROM otp_requests
WHERE ip_address = $1 AND created_at > $2
ORDER BY created_at;

-- name: budget_full
-- The codes that must be an hour old before the budget has room: with $2 newer ones it is full, with $3 its share for
-- strangers. While more than half of that share is used ($4 newer ones), a network ($6) has a share,
-- which is full with $5 newer ones. All conditions repeat the WHERE of the index otp_requests_budget.
SELECT
  max(created_at) FILTER (WHERE NOT of_network) AS full_since,
  max(created_at) FILTER (WHERE of_network) AS share_full_since
FROM (
  (
    SELECT
      created_at,
      false AS of_network
    FROM otp_requests
    WHERE user_type = 'customer' AND NOT delivery_failed AND created_at > $1
    ORDER BY created_at DESC
    LIMIT
      1
      OFFSET $2
  )
  UNION ALL
  (
    SELECT
      created_at,
      false AS of_network
    FROM otp_requests
    WHERE
      user_type = 'customer' AND NOT delivery_failed AND created_at > $1 AND NOT known_phone
    ORDER BY created_at DESC
    LIMIT
      1
      OFFSET $3
  )
  UNION ALL
  (
    SELECT
      least(half.created_at, own.created_at) AS created_at,
      true AS of_network
    FROM (
      SELECT created_at
      FROM otp_requests
      WHERE user_type = 'customer' AND NOT delivery_failed AND created_at > $1 AND NOT known_phone
      ORDER BY created_at DESC
      LIMIT
        1
        OFFSET $4
    ) AS half
    CROSS JOIN (
      SELECT created_at
      FROM otp_requests
      WHERE
        user_type = 'customer' AND NOT delivery_failed AND created_at > $1 AND NOT known_phone AND network = $6
      ORDER BY created_at DESC
      LIMIT
        1
        OFFSET $5
    ) AS own
  )
) AS used;

-- name: create
-- Insert a request; if its code is sent later ($9), another process may send it after $10 seconds.
INSERT INTO otp_requests (
  id,
  phone,
  ip_address,
  user_type,
  channel,
  code_hash,
  known_phone,
  network,
  send_due_real_at,
  created_at,
  expires_at
)
VALUES (
  $1,
  $2,
  $3,
  $4,
  $5,
  $6,
  $7,
  $8,
  CASE WHEN $9 THEN clock_timestamp() + make_interval(secs => $10) END,
  $11,
  $12
);

-- name: claim
-- Claim a mitra's request for $2 seconds, unless a process has claimed it.
UPDATE otp_requests
SET send_attempts = 1, send_due_real_at = clock_timestamp() + make_interval(secs => $2)
WHERE id = $1 AND send_due_real_at IS NOT NULL AND send_attempts = 0
RETURNING id, phone, channel, expires_at, send_attempts;

-- name: claim_due
-- Claim up to $1 requests for $2 seconds whose claim has ended or whose retry is due.
UPDATE otp_requests
SET send_attempts = send_attempts + 1, send_due_real_at = clock_timestamp() + make_interval(secs => $2)
WHERE
  id = ANY(ARRAY(
    SELECT id
    FROM otp_requests
    WHERE send_due_real_at <= statement_timestamp()
    ORDER BY send_due_real_at
    LIMIT $1
    FOR UPDATE SKIP LOCKED
  ))
RETURNING id, phone, channel, expires_at, send_attempts;

-- name: send_again
-- Schedule a retry, unless the code was used.
UPDATE otp_requests
SET send_due_real_at = clock_timestamp() + make_interval(secs => $2)
WHERE id = $1 AND used_at IS NULL;

-- name: phone_of
-- The phone and the kind of user of a request.
SELECT
  phone,
  user_type
FROM otp_requests
WHERE id = $1;

-- name: lock
-- Lock and read a request, and those of the same phone ($2) and kind of user ($3) whose codes are alive at $4.
SELECT
  id,
  phone,
  user_type,
  code_hash,
  provider_reference,
  attempts,
  used_at,
  created_at,
  expires_at,
  provider_reference IS NULL AND CASE user_type
    WHEN 'customer' THEN NOT delivery_failed
    ELSE send_due_real_at IS NOT NULL AND send_attempts > 0
  END AS may_be_sent
FROM otp_requests
WHERE
  id = $1
  OR (phone = $2 AND user_type = $3 AND used_at IS NULL AND expires_at > $4 AND NOT delivery_failed)
ORDER BY id
FOR UPDATE;

-- name: count_attempt
-- Add $2 to the attempts at codes of one phone.
UPDATE otp_requests
SET attempts = attempts + $2
WHERE
  id = ANY(ARRAY(
    SELECT id
    FROM otp_requests
    WHERE id = ANY($1::uuid[])
    ORDER BY id
    FOR UPDATE
  ));

-- name: use
-- Use up the codes of one phone ($2). Only the request that a sign-in named ($1) was used later than it was made.
UPDATE otp_requests
SET used_at = CASE WHEN id = $1 THEN $3 ELSE created_at END, send_due_real_at = NULL
WHERE id = ANY($2::uuid[]) AND used_at IS NULL;
