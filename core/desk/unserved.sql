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
