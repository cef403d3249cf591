-- name: digest
-- The digest of a session ($1) up to a seq ($2), over at most $3 messages behind the nearest stored one. Those of
-- multiples of 64 are stored for the next reader. $4: also of a blanked session, and store the one of $2.
WITH found AS MATERIALIZED (
  SELECT
    d.seq,
    d.digest,
    max(d.seq) OVER () AS last_seq
  FROM chat_sessions AS s
  CROSS JOIN LATERAL chat_digest(s.id, $2, $3) AS d
  WHERE s.id = $1 AND (s.blanked_at IS NULL OR $4)
),

stored AS (
  INSERT INTO chat_digests (id, session_id, seq, digest)
  SELECT
    gen_random_uuid(),
    $1,
    seq,
    digest
  FROM found
  WHERE seq > 0 AND digest IS NOT NULL AND (seq % 64 = 0 OR (seq = $2 AND $4))
  ON CONFLICT (session_id, seq) DO NOTHING
)

SELECT
  s.blanked_at IS NOT NULL AS blanked,
  f.seq,
  encode(f.digest, 'hex') AS digest
FROM chat_sessions AS s
LEFT JOIN found AS f ON f.seq = f.last_seq
WHERE s.id = $1;

-- name: forget
-- Delete the stored digests of a session ($1) before a seq ($2).
DELETE FROM chat_digests
WHERE session_id = $1 AND seq < $2;
