-- name: next
-- When the earliest presence check is due, after a silence of $2 seconds and a pause of $3 seconds.
SELECT next_presence_check($1, make_interval(secs => $2), make_interval(secs => $3));

-- name: pass_over
-- Record the due checks that no push can make: the mitra has no device that takes pushes, or, if heartbeats are
-- required ($5), was silent for $4 seconds already. The parameters are those of `claim`, up to $5. Return the reason of
-- each. The index on the last heartbeat finds the candidates. After a concurrent heartbeat, PostgreSQL checks the
-- conditions again with the locked row (o) and the silence as it was before (s): then the two heartbeats differ.
WITH due AS (
  SELECT
    o.id,
    CASE WHEN $5 AND s.silent_since + make_interval(secs => $4) <= $1 THEN 'too_late' ELSE 'no_token' END AS reason
  FROM mitra_silences($1) AS s
  JOIN mitra_online_status AS o ON o.mitra_id = s.mitra_id
  WHERE
    o.is_online
    AND o.last_heartbeat_at = s.last_heartbeat_at
    AND s.last_heartbeat_at <= $1::timestamptz - make_interval(secs => $2)
    AND presence_check_due(s.silent_since, o.checked_at, make_interval(secs => $2), make_interval(secs => $3)) <= $1
    AND (
      ($5 AND s.silent_since + make_interval(secs => $4) <= $1)
      OR NOT EXISTS (
        SELECT 1
        FROM auth_sessions AS a
        WHERE a.user_id = o.mitra_id AND a.push_token IS NOT NULL AND a.revoked_at IS NULL AND a.expires_at > $1
      )
    )
  LIMIT $6
  FOR NO KEY UPDATE OF o SKIP LOCKED
)

UPDATE mitra_online_status o
SET checked_at = $1, check_ends_at = NULL
FROM due
WHERE o.id = due.id
RETURNING due.reason;

-- name: claim
-- Record up to $6 due checks of mitras with a device that takes pushes, longest silence first. A check is due after a
-- silence of $2 seconds; while it is unanswered, the next one is due $3 seconds later. Its answer is wanted until the
-- silence has lasted $4 seconds, or $7 seconds from now if heartbeats are not required ($5).
WITH due AS (
  SELECT
    o.id,
    CASE WHEN $5 THEN s.silent_since + make_interval(secs => $4) ELSE $1 + make_interval(secs => $7) END AS ends_at
  FROM mitra_silences($1) AS s
  JOIN mitra_online_status AS o ON o.mitra_id = s.mitra_id
  WHERE
    o.is_online
    AND o.last_heartbeat_at = s.last_heartbeat_at
    AND s.last_heartbeat_at <= $1::timestamptz - make_interval(secs => $2)
    AND presence_check_due(s.silent_since, o.checked_at, make_interval(secs => $2), make_interval(secs => $3)) <= $1
    AND NOT ($5 AND s.silent_since + make_interval(secs => $4) <= $1)
    AND EXISTS (
      SELECT 1
      FROM auth_sessions AS a
      WHERE a.user_id = o.mitra_id AND a.push_token IS NOT NULL AND a.revoked_at IS NULL AND a.expires_at > $1
    )
  ORDER BY s.silent_since
  LIMIT $6
  FOR NO KEY UPDATE OF o SKIP LOCKED
)

UPDATE mitra_online_status o
SET checked_at = $1, check_ends_at = due.ends_at
FROM due
WHERE o.id = due.id
RETURNING o.mitra_id, o.check_ends_at AS ends_at;
