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
  ) AS alive;

-- name: begin
-- Begin a series of renewals of the process at $1.
INSERT INTO service_processes (place, kind, since_at, alive_at, lost_at, given_up_at)
VALUES ($1, $2, $3, $3, $3::timestamptz + $4::interval, $3::timestamptz + $5::interval)
ON CONFLICT (place) DO UPDATE SET
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

-- name: purge_processes
-- Delete processes that were given up before $1. The newest row of each kind stays: from it the next process of that
-- kind knows since when no process has run.
DELETE FROM service_processes AS p
WHERE p.given_up_at < $1 AND EXISTS (
  SELECT 1
  FROM service_processes AS q
  WHERE q.kind = p.kind AND q.alive_at > p.alive_at
);
