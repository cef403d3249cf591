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
