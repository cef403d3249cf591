-- name: find
-- Lock and read a key of a user that is newer than $3.
SELECT
  fingerprint,
  answer,
  resource_id,
  coalesce(extract(EPOCH FROM clock_timestamp() - claimed_real_at), 0)::float AS claim_age_s
FROM idempotency_keys
WHERE user_id = $1 AND key = $2 AND created_at > $3
FOR UPDATE;

-- name: claim
-- Claim a key, and forget the answer of an earlier request.
INSERT INTO idempotency_keys (id, user_id, key, fingerprint, resource_id, claimed_real_at, created_at)
VALUES ($1, $2, $3, $4, $5, clock_timestamp(), $6)
ON CONFLICT (user_id, key) DO UPDATE
  SET
    fingerprint = excluded.fingerprint,
    http_status = NULL,
    answer = NULL,
    resource_id = excluded.resource_id,
    claimed_real_at = excluded.claimed_real_at,
    created_at = excluded.created_at
RETURNING claimed_real_at;

-- name: purge
-- Delete up to $2 keys that are not newer than $1.
DELETE FROM idempotency_keys
WHERE created_at <= $1 AND id = ANY(ARRAY(
  SELECT id
  FROM idempotency_keys
  WHERE created_at <= $1
  LIMIT $2
));

-- name: forget_all
-- Delete the keys of users, except those that another transaction has locked.
DELETE FROM idempotency_keys
WHERE
  id = ANY(ARRAY(
    SELECT id
    FROM idempotency_keys
    WHERE user_id = ANY($1::uuid[])
    FOR UPDATE SKIP LOCKED
  ));

-- name: any_left
-- Whether one of the users has a key.
SELECT EXISTS(
  SELECT 1
  FROM idempotency_keys
  WHERE user_id = ANY($1::uuid[])
);
