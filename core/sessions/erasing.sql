-- name: of_customers
-- The sessions of customers.
SELECT id::text
FROM chat_sessions
WHERE customer_id = ANY($1::uuid[]);

-- name: with_texts
-- At most $2 completed sessions of customers of which texts are left.
SELECT id::text
FROM chat_sessions
WHERE customer_id = ANY($1::uuid[]) AND status = 'completed' AND (blanked_at IS NULL OR blanked_seq IS NOT NULL)
LIMIT $2;

-- name: any_unsettled
-- Whether a session of customers has not ended, or ended after $2.
SELECT EXISTS(
  SELECT 1
  FROM chat_sessions
  WHERE
    customer_id = ANY($1::uuid[])
    AND (is_unended(status) OR ended_at > $2)
);

-- name: forget_mitra_devices
-- Forget which devices of mitras have messages without showing them. Sessions are locked in the order of their ids.
UPDATE chat_sessions
SET mitra_unshown = NULL
WHERE
  id = ANY(ARRAY(
    SELECT id
    FROM chat_sessions
    WHERE mitra_id = ANY($1::uuid[]) AND mitra_unshown IS NOT NULL
    ORDER BY id
    FOR NO KEY UPDATE
  ));
