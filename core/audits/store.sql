-- name: keep
-- Store the result of the rule $1. It is broken since the first of the audits in a row that found violations.
INSERT INTO ledger_audit_results AS r (rule, violations, first_ids, depth, checked_at, since_at)
VALUES ($1, $2, $3, $4, $5::timestamptz, CASE WHEN $2 > 0 THEN $5::timestamptz END)
ON CONFLICT (rule) DO UPDATE SET
  violations = excluded.violations,
  first_ids = excluded.first_ids,
  depth = excluded.depth,
  checked_at = excluded.checked_at,
  since_at = CASE WHEN excluded.violations > 0 THEN coalesce(r.since_at, excluded.since_at) END;

-- name: forget_others
-- Delete the results of rules other than $1.
DELETE FROM ledger_audit_results
WHERE rule <> ALL($1);

-- name: violations
-- The number of violations of each rule.
SELECT
  rule,
  violations
FROM ledger_audit_results;
