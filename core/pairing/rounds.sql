-- name: end
-- End the rounds of the searches $1 at $2: count their invitations, which have all been answered or closed.
UPDATE search_rounds r
SET
  ended_at = $2,
  asked = c.asked,
  accepted = c.accepted,
  rejected = c.rejected,
  unanswered = c.unanswered,
  closed = c.closed
FROM (
  SELECT
    o.id,
    n.*
  FROM search_rounds AS o
  CROSS JOIN
    LATERAL (
      SELECT
        count(*)::int AS asked,
        count(*) FILTER (WHERE i.response = 'ACCEPTED')::int AS accepted,
        count(*) FILTER (WHERE i.response = 'REJECTED')::int AS rejected,
        count(*) FILTER (WHERE i.response = 'IGNORED')::int AS unanswered,
        count(*) FILTER (WHERE i.response IN ('MISSED', 'CANCELLED'))::int AS closed
      FROM chat_request_notifications AS i
      WHERE i.session_id = o.session_id AND i.round_number = o.round_number
    ) AS n
  WHERE o.session_id = ANY($1) AND o.ended_at IS NULL
) AS c
WHERE r.id = c.id;

-- name: purge
-- Delete up to $2 rounds whose ids are below $1.
DELETE FROM search_rounds
WHERE id = ANY(ARRAY(
  SELECT id
  FROM search_rounds
  WHERE id < $1
  ORDER BY id
  LIMIT $2
));
