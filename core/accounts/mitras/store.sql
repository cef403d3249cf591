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
-- The state that decides whether a mitra ($1) is available now ($2) for a customer ($3; null: for any).
SELECT
  m.is_active,
  o.is_online,
  EXISTS(
    SELECT 1 FROM signed_in_mitras($2) AS i
    WHERE i.mitra_id = m.id
  ) AS is_signed_in,
  (
    SELECT silent_since FROM mitra_silences($2) AS s
    WHERE s.mitra_id = m.id
  ) AS silent_since,
  (
    SELECT count(*)::int
    FROM chat_sessions AS s
    WHERE s.mitra_id = m.id AND is_held(s.status)
  ) AS active_session_count,
  EXISTS(
    SELECT 1 FROM blocked_mitras($3) AS b
    WHERE b.mitra_id = m.id
  ) AS is_blocked
FROM mitras AS m
JOIN mitra_online_status AS o ON o.mitra_id = m.id
WHERE m.id = $1;

-- name: is_signed_in
-- Whether a mitra ($1) has a living auth session now ($2).
SELECT EXISTS(
  SELECT 1 FROM signed_in_mitras($2) AS i
  WHERE i.mitra_id = $1
);

-- name: online_without_sign_in
-- The mitras who are online although they have no living auth session now ($1).
SELECT o.mitra_id::text
FROM mitra_online_status AS o
WHERE
  o.is_online AND NOT EXISTS (
    SELECT 1 FROM signed_in_mitras($1) AS i
    WHERE i.mitra_id = o.mitra_id
  )
ORDER BY o.mitra_id;

-- name: any_free
-- Whether a mitra could take a session of a customer ($5; null: of any) now.
SELECT EXISTS(
  SELECT 1
  FROM free_mitras($1, $2, $3, $4) AS f
  WHERE f.mitra_id NOT IN (SELECT b.mitra_id FROM blocked_mitras($5) AS b)
);

-- name: count_free
-- How many of the mitras $5 could take a session now.
SELECT count(*)::int
FROM free_mitras($1, $2, $3, $4)
WHERE mitra_id = ANY($5::uuid[]);

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

-- name: go_offline
-- Set the online mitras among $2 offline at $3, and add a log row with an id of $1 for each. Return their ids.
WITH gone AS (
  UPDATE mitra_online_status SET is_online = false, last_offline_at = $3, updated_at = $3
  WHERE mitra_id = ANY($2::uuid[]) AND is_online
  RETURNING mitra_id
)

INSERT INTO mitra_online_logs (id, mitra_id, status, timestamp)
SELECT
  l.id,
  l.mitra_id,
  'offline',
  $3
FROM unnest($1::uuid[], $2::uuid[]) AS l (id, mitra_id)
JOIN gone AS g ON g.mitra_id = l.mitra_id
RETURNING mitra_id::text;

-- name: lock_stale
-- Lock up to $3 online mitras who were silent for $2 seconds, with their presence, but none of $4; only those of $5, if
-- given. Locked rows are skipped. The index on the last heartbeat finds the candidates. After a concurrent heartbeat,
-- PostgreSQL checks the conditions again with the locked row (o) and the silence as it was before (s): then the two
-- heartbeats differ.
SELECT o.mitra_id::text
FROM mitra_silences($1) AS s
CROSS JOIN LATERAL (SELECT $1::timestamptz - make_interval(secs => $2) AS oldest) AS c
JOIN mitra_online_status AS o ON o.mitra_id = s.mitra_id
JOIN mitras AS m ON m.id = o.mitra_id
WHERE
  s.last_heartbeat_at <= c.oldest
  AND s.silent_since <= c.oldest
  AND o.is_online
  AND o.last_heartbeat_at = s.last_heartbeat_at
  AND s.mitra_id NOT IN (SELECT unnest($4::uuid[]))
  AND ($5::uuid[] IS NULL OR s.mitra_id = ANY($5))
LIMIT $3
FOR NO KEY UPDATE OF m, o SKIP LOCKED;
