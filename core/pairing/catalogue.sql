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
-- How many mitras could take a session now, with the parameters of `free_mitras`, the customers who have a block with
-- one of them, at most $6, and the estimate for the hour of the day $5. One row in any case.
WITH free AS MATERIALIZED (
  SELECT mitra_id FROM free_mitras($1, $2, $3, $4)
)

SELECT
  (SELECT count(*)::int FROM free) AS available,
  ARRAY(
    SELECT c.id::text
    FROM free AS f
    INNER JOIN blocks AS b ON b.mitra_id = f.mitra_id
    INNER JOIN customers AS c ON b.customer_id IN (c.id, c.account_belongs_to)
    LIMIT $6
  ) AS with_a_block,
  e.hour,
  e.searches,
  e.p50_seconds,
  e.p90_seconds,
  e.judged,
  e.missed,
  e.estimated_at
FROM (VALUES ($5::int)) AS h (hour)
LEFT JOIN wait_estimates AS e ON e.hour = h.hour;
