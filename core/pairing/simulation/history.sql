-- name: changes
-- The value of the rows $1 before each change after $2, the newest first, from the audit rows of such changes ($3 is
-- their action).
SELECT
  object_id AS name,
  created_at AS at,
  before -> 'value' AS value
FROM operator_audit_log
WHERE object_id = ANY($1) AND created_at > $2 AND action = $3
ORDER BY created_at DESC, id DESC;

-- name: presence
-- When each mitra who was online at $1 had come online, as rows of `shifts`.
SELECT
  l.at,
  m.id::text AS mitra,
  true AS is_online
FROM mitras AS m
CROSS JOIN
  LATERAL (
    SELECT
      o.timestamp AS at,
      o.status
    FROM mitra_online_logs AS o
    WHERE o.mitra_id = m.id AND o.timestamp < $1
    ORDER BY o.timestamp DESC
    LIMIT 1
  ) AS l
WHERE l.status = 'online'
ORDER BY l.at;

-- name: shifts
-- The mitras who came online or went offline from $1 to before $2.
SELECT
  timestamp AS at,
  mitra_id::text AS mitra,
  status = 'online' AS is_online
FROM mitra_online_logs
WHERE timestamp >= $1 AND timestamp < $2
ORDER BY timestamp;

-- name: searches
-- The searches that began from $1 to before $2 and have ended, and the mitras who have a block with their customer. One
-- that became a blast began then. A chat holds its mitra until it is closing: until its first goodbye, or without one
-- until the grace period $3 before its end, if a party or an operator ended it.
SELECT
  coalesce(t.ended_at, s.created_at) AS began_at,
  coalesce(s.paired_at, s.ended_at) AS ended_at,
  CASE WHEN s.paired_at IS NULL THEN s.status ELSE 'paired' END AS outcome,
  s.mitra_id::text AS mitra,
  CASE s.status
    WHEN 'closing' THEN s.ended_at
    WHEN 'completed'
      THEN coalesce(
        (
          SELECT min(g.created_at)
          FROM session_closures AS g
          WHERE g.session_id = s.id
        ),
        CASE s.ended_by WHEN 'timer' THEN s.ended_at ELSE greatest(s.paired_at, s.ended_at - $3::interval) END
      )
  END AS freed_at,
  coalesce(s.duration_minutes, 0) AS minutes,
  s.targeted_mitra_id IS NOT NULL AS is_targeted,
  coalesce(c.account_belongs_to, c.id)::text AS customer,
  ARRAY(
    SELECT b.mitra_id::text
    FROM blocks AS b
    WHERE b.customer_id = coalesce(c.account_belongs_to, c.id) AND b.created_at <= s.created_at
  ) AS blocked
FROM chat_sessions AS s
JOIN customers AS c ON c.id = s.customer_id
LEFT JOIN search_rounds AS t
  ON t.session_id = s.id AND t.round_number = 1 AND t.is_targeted AND s.targeted_mitra_id IS NULL
WHERE
  s.created_at >= $1
  AND s.created_at < $2
  AND s.payment_request_id IS NOT NULL
  AND s.status <> 'searching'
ORDER BY s.created_at, s.id;

-- name: answers
-- How the requests of blasts that began from $1 to before $2 ended: how often the search had asked the mitra before (at
-- most $5), the mitra's chats (at most $4), the mitra, the span of $3 in which the request ended, and the answer. The
-- requests of each search are looked up, in the partition of its month.
SELECT
  least(n.before, $5) AS before,
  least(n.active_session_count, $4) AS chats,
  n.mitra_id::text,
  width_bucket(n.seconds, $3::float8[]) AS span,
  n.response,
  count(*)::int AS requests,
  sum(n.seconds)::float8 AS seconds
FROM chat_sessions AS s
CROSS JOIN
  LATERAL (
    SELECT
      i.mitra_id,
      i.active_session_count,
      (row_number() OVER (PARTITION BY i.mitra_id ORDER BY i.notified_at, i.id))::int - 1 AS before,
      extract(EPOCH FROM i.responded_at - i.notified_at)::float8 AS seconds,
      CASE WHEN i.response IN ('ACCEPTED', 'REJECTED') THEN i.response ELSE '' END AS response
    FROM chat_request_notifications AS i
    WHERE
      i.session_id = s.id
      AND i.response IS NOT NULL
      AND NOT EXISTS (
        SELECT 1
        FROM search_rounds AS t
        WHERE t.session_id = s.id AND t.round_number = i.round_number AND t.is_targeted
      )
  ) AS n
WHERE
  s.created_at >= $1
  AND s.created_at < $2
  AND s.payment_request_id IS NOT NULL
  AND s.status <> 'searching'
  AND s.targeted_mitra_id IS NULL
GROUP BY n.mitra_id, least(n.active_session_count, $4), least(n.before, $5), span, n.response;
