-- name: add
-- Add stages of events on devices, given as event ids, devices, stages and times; only those of events of the
-- recipients $5, if any are given. Return how many are new. An unknown event gets none, a stage on a device only the
-- first, and an event at most $6. Rows are written in the order of their ids, because two processes may add the same.
WITH noted AS (
  INSERT INTO delivery_trail (
    id, event_id, stage, auth_session_id, recipient_id, event, session_id, payment_request_id, at
  )
  SELECT
    gen_random_uuid(),
    u.event_id,
    u.stage,
    u.auth_session_id,
    e.recipient_id,
    e.event,
    e.session_id,
    e.payment_request_id,
    u.at
  FROM
    unnest($1::uuid[], $2::uuid[], $3::text[], $4::timestamptz[]) AS u (event_id, auth_session_id, stage, at)
  CROSS JOIN LATERAL known_event(u.event_id) AS e
  WHERE
    ($5::uuid[] IS NULL OR e.recipient_id = ANY($5))
    AND (
      SELECT count(*) FROM delivery_trail AS t
      WHERE t.event_id = u.event_id
    ) < $6
  ORDER BY u.event_id, u.auth_session_id, u.stage
  ON CONFLICT DO NOTHING
  RETURNING event_id
)

SELECT count(*)
FROM noted;

-- name: forget
-- Delete at most $2 rows of the recipients $1.
DELETE FROM delivery_trail AS t
USING (
  SELECT
    event_id,
    id
  FROM delivery_trail
  WHERE recipient_id = ANY($1::uuid[])
  ORDER BY event_id, id
  LIMIT $2
  FOR UPDATE
) AS f
WHERE t.event_id = f.event_id AND t.id = f.id;
