-- name: onboarding
-- The flags of the customer $1, who has the ids $2.
SELECT
  is_anonymous,
  display_name IS NOT NULL AS has_display_name,
  usp_seen,
  EXISTS(
    SELECT 1
    FROM chat_sessions
    WHERE customer_id = ANY($2) AND paired_at IS NOT NULL
  ) AS has_consulted_before,
  EXISTS(
    SELECT 1
    FROM chat_sessions
    WHERE customer_id = ANY($2) AND is_live(status)
  ) AS has_live_session
FROM customers
WHERE id = $1;

-- name: availability
-- How many mitras could take a session now, with the parameters of `free_mitras`, and the estimate for the hour of the
-- day $5. One row in any case.
SELECT
  f.available,
  e.hour,
  e.searches,
  e.p50_seconds,
  e.p90_seconds,
  e.judged,
  e.missed,
  e.estimated_at
FROM (SELECT count(*)::int AS available FROM free_mitras($1, $2, $3, $4)) AS f
LEFT JOIN wait_estimates AS e ON e.hour = $5;
