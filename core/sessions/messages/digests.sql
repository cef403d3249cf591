-- name: digest
-- The digest of a session ($1) up to a seq ($2), over at most $3 messages behind the nearest stored one; whether more
-- messages follow up to there; and what is to be stored for the next reader: the digests of multiples of 64. $4: also
-- of a blanked session, and also the one of $2.
WITH found AS MATERIALIZED (
  SELECT
    d.seq,
    d.digest
  FROM chat_sessions AS s
  CROSS JOIN LATERAL chat_digest(s.id, $2, $3) AS d
  WHERE s.id = $1 AND (s.blanked_at IS NULL OR $4)
),

unstored AS MATERIALIZED (
  SELECT f.*
  FROM found AS f
  WHERE
    f.seq > 0
    AND f.digest IS NOT NULL
    AND (f.seq % 64 = 0 OR (f.seq = $2 AND $4))
    AND NOT EXISTS (
      SELECT 1
      FROM chat_digests AS c
      WHERE c.session_id = $1 AND c.seq = f.seq
    )
)

SELECT
  s.blanked_at IS NOT NULL AS blanked,
  f.seq,
  encode(f.digest, 'hex') AS digest,
  coalesce(f.seq < $2 AND EXISTS (
    SELECT 1
    FROM chat_messages AS m
    WHERE m.session_id = $1 AND m.seq > f.seq AND m.seq <= $2
  ), false) AS more,
  ARRAY(
    SELECT u.seq
    FROM unstored AS u
    ORDER BY u.seq
  ) AS unstored_seqs,
  ARRAY(
    SELECT u.digest
    FROM unstored AS u
    ORDER BY u.seq
  ) AS unstored
FROM chat_sessions AS s
LEFT JOIN found AS f ON f.seq = (SELECT max(seq) FROM found)
WHERE s.id = $1;

-- name: store
-- Store digests of a session ($1), given as seqs and digests. $4: also of a blanked one.
INSERT INTO chat_digests (id, session_id, seq, digest)
SELECT
  gen_random_uuid(),
  s.id,
  u.seq,
  u.digest
FROM chat_sessions AS s
CROSS JOIN unnest($2::int[], $3::bytea[]) AS u (seq, digest)
WHERE s.id = $1 AND (s.blanked_at IS NULL OR $4)
ORDER BY u.seq
ON CONFLICT (session_id, seq) DO NOTHING;

-- name: forget
-- Delete the stored digests of a session ($1) before a seq ($2).
DELETE FROM chat_digests
WHERE session_id = $1 AND seq < $2;
