-- name: now
-- The present service time, whose scale is $1.
SELECT anchor + (clock_timestamp() - anchor) * $1::float8
FROM service_clock;

-- name: renew
-- Renew the lease of the process at $2. A renewal that was sent before a long stall of the database and runs after it
-- has no effect, because its lease has ended.
WITH moment AS MATERIALIZED (
  SELECT (SELECT anchor + (clock_timestamp() - anchor) * $1::float8 FROM service_clock) AS now
),

renewed AS (
  UPDATE service_processes AS p
  SET
    alive_at = m.now,
    lost_at = m.now + $3,
    given_up_at = m.now + $4,
    since_at = CASE WHEN $5 THEN p.since_at ELSE m.now END
  FROM moment AS m
  WHERE p.place = $2 AND p.lost_at > m.now
  RETURNING 1
)

SELECT
  EXISTS(SELECT 1 FROM renewed) AS renewed,
  (SELECT now FROM moment) AS now,
  (
    SELECT coalesce(array_agg(DISTINCT p.kind), '{}')
    FROM service_processes AS p, moment AS m
    WHERE p.lost_at > m.now
  ) AS alive,
  EXISTS (
    SELECT 1
    FROM service_processes AS p, moment AS m
    WHERE p.kind = 'realtime' AND p.place <> $2 AND p.alive_at > m.now - $4
  ) AS other_hubs;

-- name: begin
-- Begin a series of renewals of the process at $1, whose process id is $6.
INSERT INTO service_processes (place, kind, since_at, alive_at, lost_at, given_up_at, pid)
VALUES ($1, $2, $3, $3, $3::timestamptz + $4::interval, $3::timestamptz + $5::interval, $6)
ON CONFLICT (place) DO UPDATE SET
  pid = excluded.pid,
  since_at = excluded.since_at,
  alive_at = excluded.alive_at,
  lost_at = excluded.lost_at,
  given_up_at = excluded.given_up_at;

-- name: end
-- End the lease of the process at $2.
WITH moment AS MATERIALIZED (
  SELECT (SELECT anchor + (clock_timestamp() - anchor) * $1::float8 FROM service_clock) AS now
)

UPDATE service_processes AS p
SET alive_at = m.now, lost_at = m.now, given_up_at = m.now
FROM moment AS m
WHERE p.place = $2 AND p.lost_at > m.now;

-- name: recorded
-- The outages of these kinds ($1) that overlap an interval.
SELECT
  began_at,
  ended_at
FROM outages
WHERE kind = ANY($1) AND ended_at > $2 AND began_at < $3;

-- name: stands
-- Whether the clock of sessions stands; $1 is the scale of service time.
SELECT sessions_stand_since($1) IS NOT NULL;

-- name: uncredited
-- The outages of the chat that are not credited yet, and the present one until $2: since no realtime process has a
-- lease. $1 is the scale of service time.
SELECT
  began_at,
  ended_at
FROM outages
WHERE credit_at IS NOT NULL AND credited_at IS NULL
UNION ALL
SELECT
  max(p.alive_at),
  greatest($2, max(p.alive_at))
FROM service_processes AS p
WHERE p.kind = 'realtime'
HAVING NOT bool_or(
  p.lost_at > (
    SELECT c.anchor + (clock_timestamp() - c.anchor) * $1::float8
    FROM service_clock AS c
  )
);

-- name: due_credits
-- The outages whose credits are due at $1, in order. None if no realtime process has a lease: then the chat is still
-- out, and the outage before may get an earlier neighbour.
SELECT
  id::text,
  kind,
  began_at,
  ended_at
FROM outages
WHERE
  id IN (
    SELECT id
    FROM timed_work
    WHERE kind = 'credit' AND due_at <= $1
  )
  AND EXISTS (
    SELECT 1
    FROM service_processes
    WHERE kind = 'realtime' AND lost_at > $1
  )
ORDER BY began_at;

-- name: credited
-- Note at $2 that the sessions have their credits for an outage ($1). It is due once more after $3, for sessions whose
-- transactions have waited since before the outage. If two processes note it at once, the first counts.
UPDATE outages
SET
  credit_at = CASE WHEN credited_at IS NULL THEN $2::timestamptz + $3::interval END,
  credited_at = coalesce(credited_at, $2)
WHERE id = $1 AND credit_at <= $2;

-- name: drop_credits
-- Credit no outage that still waits for it.
UPDATE outages
SET credit_at = NULL
WHERE credit_at IS NOT NULL;

-- name: purge_processes
-- Delete processes that were given up before $1. The newest row of each kind stays: from it the next process of that
-- kind knows since when no process has run.
DELETE FROM service_processes AS p
WHERE p.given_up_at < $1 AND EXISTS (
  SELECT 1
  FROM service_processes AS q
  WHERE q.kind = p.kind AND q.alive_at > p.alive_at
);

-- name: missing_since
-- Since when no process of the kind $2 has a lease, which is $3 after the last renewal; no row if one has, if none ever
-- had, or if that is at most $4 ago. $1 is the scale of service time.
WITH moment AS MATERIALIZED (
  SELECT (SELECT anchor + (clock_timestamp() - anchor) * $1::float8 FROM service_clock) AS now
)

SELECT max(p.alive_at) + $3::interval
FROM service_processes AS p, moment AS m
WHERE p.kind = $2
GROUP BY m.now
HAVING NOT bool_or(p.lost_at > m.now) AND m.now - (max(p.alive_at) + $3::interval) > $4::interval;
