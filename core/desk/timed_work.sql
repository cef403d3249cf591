-- name: due
-- For each kind of $1: how much work is due by its moment in $2, and the earliest moment of that work. Kinds and their
-- moments are rows, so PostgreSQL plans the statement once; for a plain parameter it would plan the view in each run.
SELECT
  k.kind,
  w.number,
  w.first_at
FROM unnest($1::text[], $2::timestamptz[]) AS k (kind, until)
CROSS JOIN LATERAL (
  SELECT
    count(*)::int AS number,
    min(due_at) AS first_at
  FROM timed_work
  WHERE kind = k.kind AND due_at <= k.until
) AS w;

-- name: present
-- What timed work depends on: whether a search runs, whether a realtime process has a lease at $3, since when the clock
-- of sessions stands, and since when the mitra with the longest silence is silent. $4 is the scale of service time if
-- the fair clock is on.
SELECT
  EXISTS(
    SELECT 1
    FROM chat_sessions
    WHERE status = 'searching'
  ) AS is_searching,
  EXISTS(
    SELECT 1
    FROM service_processes
    WHERE kind = 'realtime' AND lost_at > $3
  ) AS has_realtime,
  CASE WHEN $4::float8 IS NOT NULL THEN sessions_stand_since($4) END AS stands_since,
  longest_silence_since($3) AS silence;
