-- name: end
-- End the present rounds of the searches $1 at $2: count their invitations, which have all been answered or closed.
-- Their ids are larger than the id of the round before, so the invitations of earlier rounds are not read. The upper
-- bound excludes none: with both bounds the planner takes the range for a small one, and reads it by the primary key.
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
  FROM chat_sessions AS s
  JOIN search_rounds AS o ON o.session_id = s.id AND o.round_number = s.round_number
  LEFT JOIN search_rounds AS b ON b.session_id = s.id AND b.round_number = s.round_number - 1
  CROSS JOIN
    LATERAL (
      SELECT
        count(*)::int AS asked,
        count(*) FILTER (WHERE i.response = 'ACCEPTED')::int AS accepted,
        count(*) FILTER (WHERE i.response = 'REJECTED')::int AS rejected,
        count(*) FILTER (WHERE i.response = 'IGNORED')::int AS unanswered,
        count(*) FILTER (WHERE i.response IN ('MISSED', 'CANCELLED'))::int AS closed
      FROM chat_request_notifications AS i
      WHERE
        i.session_id = s.id
        AND i.round_number = s.round_number
        AND i.id > coalesce(b.id, '00000000-0000-0000-0000-000000000000')
        AND i.id < 'ffffffff-ffff-ffff-ffff-ffffffffffff'
    ) AS n
  WHERE s.id = ANY($1) AND o.ended_at IS NULL
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
