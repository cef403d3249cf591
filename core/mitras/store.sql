-- name: update
-- Update a mitra, unless the phone number belongs to another one.
UPDATE mitras
SET phone = $2, display_name = $3, is_active = $4
WHERE
  id = $1 AND NOT EXISTS (
    SELECT 1 FROM mitras AS o
    WHERE o.phone = $2 AND o.id <> $1
  )
RETURNING id, phone, display_name, is_active, created_at;

-- name: presence
-- The state that decides whether a mitra ($1) is available now ($2).
SELECT
  m.is_active,
  o.is_online,
  (
    SELECT silent_since FROM mitra_silences($2) AS s
    WHERE s.mitra_id = m.id
  ) AS silent_since,
  (
    SELECT count(*)::int
    FROM chat_sessions AS s
    WHERE s.mitra_id = m.id AND s.status IN ('active', 'expired')
  ) AS active_session_count
FROM mitras AS m
JOIN mitra_online_status AS o ON o.mitra_id = m.id
WHERE m.id = $1;

-- name: any_free
-- Whether a mitra could take a session now.
SELECT EXISTS(
  SELECT 1
  FROM free_mitras($1, $2, $3, $4)
);

-- name: heartbeats
-- Store a heartbeat of each online mitra whose row is not locked; return all mitras whose rows are not locked, and
-- whether the heartbeat answers a presence check.
WITH found AS MATERIALIZED (
  SELECT
    mitra_id,
    is_online,
    (
      is_online AND checked_at > last_heartbeat_at AND $2::timestamptz BETWEEN checked_at AND check_ends_at
    ) IS TRUE AS is_answer
  FROM mitra_online_status
  WHERE mitra_id = ANY($1::uuid[])
  FOR NO KEY UPDATE SKIP LOCKED
),

heard AS (
  UPDATE mitra_online_status o
  SET
    last_heartbeat_at = greatest(o.last_heartbeat_at, $2),
    heartbeat_channel = $3,
    reachable_at = CASE WHEN f.is_answer THEN $2 ELSE o.reachable_at END,
    updated_at = $2
  FROM found AS f
  WHERE o.mitra_id = f.mitra_id AND f.is_online
)

SELECT
  mitra_id::text,
  is_online,
  is_answer
FROM found;

-- name: heartbeat
-- Store a heartbeat of an online mitra; wait for a lock on the row. Return whether it answers a presence check, and
-- whether a check may have caused it: it is the first one after the check, or comes in the time for the answer.
WITH found AS MATERIALIZED (
  SELECT
    mitra_id,
    (checked_at > last_heartbeat_at AND $2::timestamptz BETWEEN checked_at AND check_ends_at) IS TRUE AS is_answer,
    (
      checked_at > last_heartbeat_at AND check_ends_at IS NOT NULL
      OR $2::timestamptz BETWEEN checked_at AND check_ends_at
    ) IS TRUE AS is_prompted
  FROM mitra_online_status
  WHERE mitra_id = $1 AND is_online
  FOR NO KEY UPDATE
)

UPDATE mitra_online_status o
SET
  last_heartbeat_at = greatest(o.last_heartbeat_at, $2),
  heartbeat_channel = $3,
  reachable_at = CASE WHEN f.is_answer THEN $2 ELSE o.reachable_at END,
  updated_at = $2
FROM found AS f
WHERE o.mitra_id = f.mitra_id
RETURNING f.is_answer, f.is_prompted;

-- name: stale
-- Online mitras who were silent for $2 seconds. The index on the last heartbeat finds the candidates.
SELECT mitra_id
FROM mitra_silences($1), LATERAL (SELECT $1::timestamptz - make_interval(secs => $2) AS oldest) AS o
WHERE last_heartbeat_at <= o.oldest AND silent_since <= o.oldest
LIMIT 500;

-- name: lock_stale_status
-- Lock the presence of a mitra who is online and was silent for $3 seconds, unless it is locked.
SELECT 1
FROM mitra_online_status AS o
WHERE
  o.mitra_id = $1 AND o.is_online AND EXISTS (
    SELECT 1
    FROM mitra_silences($2) AS s
    WHERE s.mitra_id = o.mitra_id AND s.silent_since <= $2::timestamptz - make_interval(secs => $3)
  )
FOR UPDATE OF o SKIP LOCKED;
