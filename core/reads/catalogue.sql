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
    WHERE customer_id = ANY($2) AND status IN ('searching', 'active', 'expired')
  ) AS has_live_session
FROM customers
WHERE id = $1;
