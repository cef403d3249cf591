-- name: broken
-- The rules that rows break, those broken for longest first.
SELECT
  rule,
  violations,
  first_ids,
  since_at,
  checked_at
FROM ledger_audit_results
WHERE violations > 0
ORDER BY since_at, rule;
