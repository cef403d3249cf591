-- name: measure
-- How many searches began in the intervals from $1 to before $2, and the seconds within which half and nine tenths of
-- them were accepted. Only the first search of a payment counts, and none for one chosen mitra. One that was never
-- accepted waited without an end. OFFSET 0 keeps the planner from reading whole tables instead of a few ranges.
SELECT
  count(*)::int AS searches,
  nullif(percentile_disc(0.5) WITHIN GROUP (ORDER BY w.waited), 'Infinity')::int AS p50_seconds,
  nullif(percentile_disc(0.9) WITHIN GROUP (ORDER BY w.waited), 'Infinity')::int AS p90_seconds
FROM unnest($1::timestamptz[], $2::timestamptz[]) AS i (began_at, ended_at)
CROSS JOIN
  LATERAL (
    SELECT
      s.id,
      s.payment_request_id,
      s.paired_at
    FROM chat_sessions AS s
    WHERE
      s.created_at >= i.began_at
      AND s.created_at < i.ended_at
      AND s.targeted_mitra_id IS NULL
      AND s.payment_request_id IS NOT NULL
    OFFSET 0
  ) AS s
CROSS JOIN
  LATERAL (
    SELECT
      CASE
        WHEN s.paired_at IS NULL THEN 'Infinity'
        ELSE greatest(1, ceil(extract(EPOCH FROM s.paired_at - p.confirmed_at)))::float8
      END AS waited
    FROM payment_requests AS p
    WHERE p.id = s.payment_request_id
    OFFSET 0
  ) AS w
WHERE s.id = (
  SELECT f.id
  FROM chat_sessions AS f
  WHERE f.payment_request_id = s.payment_request_id
  ORDER BY f.created_at, f.id
  LIMIT 1
);

-- name: outcomes
-- The outcomes, at $1, of the promises that were made from $2 to before $3. A request to all mitras has one session.
SELECT
  w.payment_request_id,
  w.made_at,
  w.p50_seconds,
  w.p90_seconds,
  w.is_shown,
  d.due_at,
  CASE
    WHEN s.paired_at IS NOT NULL THEN greatest(1, ceil(extract(EPOCH FROM s.paired_at - p.confirmed_at)))::int
  END AS waited_seconds,
  CASE
    WHEN p.confirmed_at IS NULL OR (s.id IS NULL AND p.status = 'failed_pairing') THEN 'not_searched'
    WHEN s.paired_at <= d.due_at THEN 'kept'
    WHEN s.status = 'failed' THEN 'not_found'
    WHEN s.status = 'cancelled' AND s.ended_at <= d.due_at THEN 'cancelled'
    WHEN s.paired_at IS NULL AND coalesce(s.status, '') <> 'cancelled' AND d.due_at >= $1 THEN 'waiting'
    ELSE 'late'
  END AS outcome
FROM wait_promises AS w
JOIN payment_requests AS p ON p.id = w.payment_request_id
CROSS JOIN LATERAL (SELECT p.confirmed_at + make_interval(secs => w.p90_seconds) AS due_at) AS d
LEFT JOIN chat_sessions AS s ON s.payment_request_id = p.id
WHERE w.made_at >= $2 AND w.made_at < $3;

-- name: judge
-- Count the newest $4 `outcomes` whose time was over at $1, and those that missed p90. A short wait must not count
-- before a long one.
SELECT
  count(*)::int AS judged,
  count(*) FILTER (WHERE j.outcome <> 'kept')::int AS missed
FROM (
  SELECT o.outcome
  FROM outcomes AS o
  WHERE o.due_at < $1 AND o.outcome IN ('kept', 'late', 'not_found')
  ORDER BY o.made_at DESC, o.payment_request_id DESC
  LIMIT $4
) AS j;

-- name: keep_estimate
-- Store the estimate for an hour ($1) in place of an older one.
INSERT INTO wait_estimates AS e (hour, searches, p50_seconds, p90_seconds, judged, missed, estimated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (hour) DO UPDATE
  SET
    searches = excluded.searches,
    p50_seconds = excluded.p50_seconds,
    p90_seconds = excluded.p90_seconds,
    judged = excluded.judged,
    missed = excluded.missed,
    estimated_at = excluded.estimated_at
  WHERE e.estimated_at <= excluded.estimated_at;

-- name: purge
-- Delete up to $2 promises whose ids are below $1.
DELETE FROM wait_promises
WHERE payment_request_id = ANY(ARRAY(
  SELECT payment_request_id
  FROM wait_promises
  WHERE payment_request_id < $1
  ORDER BY payment_request_id
  LIMIT $2
));
