-- name: see
-- Store signs of life: the users $1 gave them at $2. Sessions are written in the order of their ids, because several
-- processes do this. A party whose stored sign is younger than $3 is left as it is.
WITH signs AS MATERIALIZED (
  SELECT
    u.user_id,
    max(u.seen_at) AS seen_at
  FROM unnest($1::uuid[], $2::timestamptz[]) AS u (user_id, seen_at)
  GROUP BY u.user_id
),

seen AS (
  SELECT
    s.id,
    g.seen_at AS customer_seen_at,
    NULL::timestamptz AS mitra_seen_at
  FROM signs AS g
  JOIN chat_sessions AS s ON s.customer_id = g.user_id AND is_held(s.status)
  UNION ALL
  SELECT
    s.id,
    NULL,
    g.seen_at
  FROM signs AS g
  JOIN chat_sessions AS s ON s.mitra_id = g.user_id AND is_held(s.status)
)

INSERT INTO session_presence AS p (session_id, customer_seen_at, mitra_seen_at)
SELECT
  id,
  max(customer_seen_at),
  max(mitra_seen_at)
FROM seen
GROUP BY id
ORDER BY id
ON CONFLICT (session_id) DO UPDATE SET
  customer_seen_at = greatest(p.customer_seen_at, excluded.customer_seen_at),
  mitra_seen_at = greatest(p.mitra_seen_at, excluded.mitra_seen_at)
WHERE
excluded.customer_seen_at > coalesce(p.customer_seen_at, '-infinity') + $3::interval
OR excluded.mitra_seen_at > coalesce(p.mitra_seen_at, '-infinity') + $3::interval;

-- name: returned
-- At most $2 open absences in running sessions whose party has given a sign of life since; all of them, if $1 is true.
-- Only those of the users $3, unless it is null.
SELECT
  a.id::text,
  a.session_id::text
FROM session_absences AS a
JOIN chat_sessions AS s ON s.id = a.session_id
LEFT JOIN session_presence AS p ON p.session_id = a.session_id
WHERE
  a.ended_at IS NULL
  AND is_held(s.status)
  AND ($1 OR CASE a.user_type WHEN 'customer' THEN p.customer_seen_at ELSE p.mitra_seen_at END > a.since)
  AND ($3::uuid[] IS NULL OR CASE a.user_type WHEN 'customer' THEN s.customer_id ELSE s.mitra_id END = ANY($3))
ORDER BY a.session_id
LIMIT $2;

-- name: lock_held
-- Lock the sessions among $1 that are active or expired, except those that another transaction has locked.
SELECT
  s.id::text,
  s.customer_id::text,
  s.mitra_id::text,
  s.status,
  s.expires_at
FROM chat_sessions AS s
WHERE s.id = ANY($1::uuid[]) AND is_held(s.status)
ORDER BY s.id
FOR NO KEY UPDATE SKIP LOCKED;

-- name: end_returned
-- End the open absences $1 of the locked sessions $2: at the last sign of life, or at $3 if there has been none since.
-- Then the party has not returned.
UPDATE session_absences a
SET
  ended_at = CASE WHEN r.seen_at > a.since THEN least(r.seen_at, $3) ELSE $3 END,
  returned = coalesce(r.seen_at > a.since, false)
FROM (
  SELECT
    o.id,
    CASE o.user_type WHEN 'customer' THEN p.customer_seen_at ELSE p.mitra_seen_at END AS seen_at
  FROM session_absences AS o
  LEFT JOIN session_presence AS p ON p.session_id = o.session_id
  WHERE o.id = ANY($1::uuid[]) AND o.session_id = ANY($2::uuid[])
) AS r
WHERE a.id = r.id AND a.ended_at IS NULL
RETURNING a.session_id::text, a.user_type, a.since, a.ended_at, a.returned;

-- name: silent
-- The active sessions in which a party is silent for $2 at $1, at most $3.
SELECT DISTINCT session_id::text
FROM silent_parties($1, $2)
ORDER BY 1
LIMIT $3;

-- name: declare
-- Declare the parties of the locked sessions $3 absent who are silent for $2 at $1. $4 are ids for the rows, two for
-- each session.
WITH silent AS MATERIALIZED (
  SELECT
    q.session_id,
    q.user_type,
    q.since,
    row_number() OVER (ORDER BY q.session_id, q.user_type) AS place
  FROM silent_parties($1, $2) AS q
  WHERE q.session_id = ANY($3::uuid[])
)

INSERT INTO session_absences (id, session_id, user_type, since, declared_at)
SELECT
  n.id,
  q.session_id,
  q.user_type,
  q.since,
  $1
FROM silent AS q
JOIN unnest($4::uuid[]) WITH ORDINALITY AS n (id, place) ON n.place = q.place
ON CONFLICT (session_id, user_type) WHERE ended_at IS NULL DO NOTHING
RETURNING session_id::text, user_type, since;

-- name: end_with_sessions
-- End at most $2 open absences whose sessions are over by $1.
UPDATE session_absences a
SET ended_at = greatest(a.since + interval '1 microsecond', coalesce(o.ended_at, $1))
FROM (
  SELECT
    x.id,
    s.ended_at
  FROM session_absences AS x
  JOIN chat_sessions AS s ON s.id = x.session_id
  WHERE x.ended_at IS NULL AND NOT is_held(s.status)
  LIMIT $2
  FOR UPDATE OF x SKIP LOCKED
) AS o
WHERE a.id = o.id;

-- name: open_of
-- The open absences in sessions.
SELECT
  session_id::text,
  user_type,
  since
FROM session_absences
WHERE session_id = ANY($1::uuid[]) AND ended_at IS NULL;

-- name: any_open
-- Whether an absence is open.
SELECT EXISTS(
  SELECT 1
  FROM session_absences
  WHERE ended_at IS NULL
);

-- name: purge_presence
-- Delete up to $1 rows of sessions that are over.
DELETE FROM session_presence
WHERE session_id = ANY(ARRAY(
  SELECT p.session_id
  FROM session_presence AS p
  LEFT JOIN chat_sessions AS s ON s.id = p.session_id
  WHERE s.id IS NULL OR NOT is_held(s.status)
  ORDER BY p.session_id
  LIMIT $1
));

-- name: purge
-- Delete up to $2 absences whose ids are below $1.
DELETE FROM session_absences
WHERE id = ANY(ARRAY(
  SELECT id
  FROM session_absences
  WHERE id < $1
  ORDER BY id
  LIMIT $2
));
