-- name: lock
-- Lock sessions ($1) in the order of their ids. The statement after it sees the credits of those who had the locks.
SELECT 1
FROM chat_sessions
WHERE id = ANY($1) AND is_held(status)
ORDER BY id
FOR NO KEY UPDATE;

-- name: owed
-- The locked sessions ($1) that lost paid time from $2 to $3: from when until when, and how many milliseconds of that
-- no other credit covers. A session loses time from its pairing, or from the extension that resumed it, if its paid
-- time was not over then, and at most for $4, if that is given.
WITH losing AS MATERIALIZED (
  SELECT
    id,
    greatest($2, coalesce(resumed_at, paired_at)) AS began_at,
    least($3, greatest($2, coalesce(resumed_at, paired_at)) + $4::interval) AS ended_at
  FROM chat_sessions
  WHERE
    id = ANY($1)
    AND is_held(status)
    AND expires_at > greatest($2, coalesce(resumed_at, paired_at))
    AND $3 > coalesce(resumed_at, paired_at)
)

SELECT
  l.id::text,
  l.began_at,
  l.ended_at,
  o.milliseconds
FROM losing AS l
CROSS JOIN
  LATERAL (
    SELECT round(extract(EPOCH FROM sum(upper(r.part) - lower(r.part))) * 1000)::int AS milliseconds
    FROM
      unnest(
        tstzmultirange(tstzrange(l.began_at, l.ended_at))
        - coalesce((
          SELECT range_agg(tstzrange(c.began_at, c.ended_at))
          FROM session_time_credits AS c
          WHERE c.session_id = l.id
        ), '{}')
      ) AS r (part)
  ) AS o
WHERE o.milliseconds > 0
ORDER BY l.id;

-- name: add
-- Store credits for the reason $3 and the outage $4: the ids $1 for the sessions $2, from $5 until $6, with $7
-- milliseconds. Return the sessions that had none for it.
INSERT INTO session_time_credits
(id, session_id, reason, outage_id, began_at, ended_at, milliseconds, created_at)
SELECT
  n.id,
  n.session_id,
  $3,
  $4,
  n.began_at,
  n.ended_at,
  n.milliseconds,
  $8
FROM
  unnest($1::uuid[], $2::uuid[], $5::timestamptz[], $6::timestamptz[], $7::int[])
    AS n (id, session_id, began_at, ended_at, milliseconds)
ON CONFLICT DO NOTHING
RETURNING session_id::text, milliseconds;

-- name: move
-- Move the ends of sessions ($1) by milliseconds ($2). Their warnings ($5 before the end) are due again, unless no more
-- than that is left at $3 and they were sent. The grace period ($4) of an expired session moves as well.
UPDATE chat_sessions AS s
SET
  expires_at = s.expires_at + m.longer,
  warn_at = CASE
    WHEN s.warn_at IS NOT NULL OR s.grace_ends_at IS NULL AND s.expires_at + m.longer - $3 > $5
      THEN s.expires_at + m.longer - $5
  END,
  grace_ends_at = CASE s.status WHEN 'expired' THEN s.expires_at + m.longer + $4 END
FROM (
  SELECT
    n.id,
    n.milliseconds * interval '1 millisecond' AS longer
  FROM unnest($1::uuid[], $2::int[]) AS n (id, milliseconds)
) AS m
WHERE s.id = m.id;

-- name: losing
-- The sessions that lost paid time from $2 to $3 and have no credit for the outage $1.
WITH live AS MATERIALIZED (
  SELECT
    id,
    expires_at,
    coalesce(resumed_at, paired_at) AS began_at
  FROM chat_sessions
  WHERE is_held(status)
)

SELECT l.id::text
FROM live AS l
WHERE
  l.expires_at > greatest($2, l.began_at)
  AND l.began_at < $3
  AND NOT EXISTS (
    SELECT 1
    FROM session_time_credits AS c
    WHERE c.session_id = l.id AND c.outage_id = $1
  )
ORDER BY l.id;
