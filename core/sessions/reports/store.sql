-- name: add
-- Store the report $1 of a session ($2) by a party ($3) with a reason ($4), a message ($5) and a time ($6), unless they
-- have reported it before. After the erasure of the customer it has no message. A statement that has not seen the
-- erasure ends before the erasure is complete, and that empties the column once more.
INSERT INTO session_reports (id, session_id, reporter, reason, message, created_at)
SELECT
  $1,
  s.id,
  $3,
  $4,
  CASE WHEN c.erased_at IS NULL THEN $5 END,
  $6
FROM chat_sessions AS s
JOIN customers AS c ON c.id = s.customer_id
WHERE s.id = $2
ON CONFLICT (session_id, reporter) DO NOTHING
RETURNING id::text;

-- name: resolve
-- Resolve the report $1, if it is open, with what was done ($2), a note ($3), the operator ($4) and the time ($5).
-- After the erasure of the customer it has no note.
UPDATE session_reports AS r
SET
  resolution = $2,
  note = CASE WHEN c.erased_at IS NULL THEN $3 END,
  resolved_by = $4,
  resolved_at = $5
FROM chat_sessions AS s
JOIN customers AS c ON c.id = s.customer_id
WHERE r.id = $1 AND r.resolution IS NULL AND s.id = r.session_id;

-- name: blank
-- Remove the texts of at most $2 reports that were resolved before $1.
UPDATE session_reports
SET message = NULL, note = NULL
WHERE id = ANY(ARRAY(
  SELECT id
  FROM session_reports
  WHERE resolved_at < $1 AND (message IS NOT NULL OR note IS NOT NULL)
  ORDER BY resolved_at
  LIMIT $2
  FOR NO KEY UPDATE SKIP LOCKED
));
