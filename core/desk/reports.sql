-- name: days
-- The `outcomes` by the day of the promise in UTC, newest first.
SELECT
  (o.made_at AT TIME ZONE 'UTC')::date AS day,
  count(*) FILTER (WHERE o.is_shown)::int AS made,
  count(*) FILTER (WHERE o.is_shown AND o.outcome = 'not_searched')::int AS not_searched,
  count(*) FILTER (WHERE o.is_shown AND o.outcome = 'waiting')::int AS waiting,
  count(*) FILTER (WHERE o.is_shown AND o.outcome = 'kept')::int AS kept,
  count(*) FILTER (WHERE o.is_shown AND o.outcome = 'kept' AND o.waited_seconds <= o.p50_seconds)::int AS kept_p50,
  count(*) FILTER (WHERE o.is_shown AND o.outcome = 'late')::int AS late,
  count(*) FILTER (WHERE o.is_shown AND o.outcome = 'not_found')::int AS not_found,
  count(*) FILTER (WHERE o.is_shown AND o.outcome = 'cancelled')::int AS cancelled,
  percentile_disc(0.5) WITHIN GROUP (ORDER BY o.p50_seconds) FILTER (WHERE o.is_shown AND w.judged)
    AS promised_p50_seconds,
  nullif(percentile_disc(0.5) WITHIN GROUP (ORDER BY w.waited) FILTER (WHERE o.is_shown AND w.judged), 'Infinity')::int
    AS actual_p50_seconds,
  percentile_disc(0.5) WITHIN GROUP (ORDER BY o.p90_seconds) FILTER (WHERE o.is_shown AND w.judged)
    AS promised_p90_seconds,
  nullif(percentile_disc(0.9) WITHIN GROUP (ORDER BY w.waited) FILTER (WHERE o.is_shown AND w.judged), 'Infinity')::int
    AS actual_p90_seconds,
  count(*) FILTER (WHERE NOT o.is_shown)::int AS withheld,
  count(*) FILTER (WHERE NOT o.is_shown AND o.outcome IN ('late', 'not_found'))::int AS withheld_missed
FROM outcomes AS o
CROSS JOIN
  LATERAL (
    SELECT
      o.outcome IN ('kept', 'late', 'not_found') AS judged,
      coalesce(o.waited_seconds::float8, 'Infinity') AS waited
  ) AS w
GROUP BY 1
ORDER BY 1 DESC;

-- name: unserved
-- The searches that began from $1 to before $2 and have ended, by hour of the week in UTC. Sessions without a payment
-- had no search, and a search for one mitra says nothing about the others.
SELECT
  extract(ISODOW FROM created_at AT TIME ZONE 'UTC')::int AS weekday,
  extract(HOUR FROM created_at AT TIME ZONE 'UTC')::int AS hour,
  count(*)::int AS searches,
  count(*) FILTER (WHERE status = 'failed')::int AS unserved
FROM chat_sessions
WHERE
  created_at >= $1
  AND created_at < $2
  AND status <> 'searching'
  AND payment_request_id IS NOT NULL
  AND targeted_mitra_id IS NULL
GROUP BY 1, 2
ORDER BY 1, 2;
