-- name: keep
-- Store the results $1 of rules, as JSON. A rule is broken since the first of the audits in a row with violations.
INSERT INTO ledger_audit_results AS r (rule, violations, first_ids, depth, checked_at, since_at)
SELECT
  n.rule,
  n.violations,
  n.first_ids,
  $2,
  $3::timestamptz,
  CASE WHEN n.violations > 0 THEN $3::timestamptz END
FROM jsonb_to_recordset($1::jsonb) AS n (rule text, violations int, first_ids text[])
ORDER BY n.rule
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

-- name: accept
-- Store that the operator $3 has accepted the violations $1, as JSON, for the reason $2 at $4.
INSERT INTO accepted_violations (id, rule, object_id, detail, reason, operator_id, accepted_at)
SELECT
  (v ->> 'row')::uuid,
  v ->> 'rule',
  v ->> 'id',
  v ->> 'detail',
  $2,
  $3,
  $4
FROM jsonb_array_elements($1::jsonb) AS v
ON CONFLICT (rule, object_id, detail) DO NOTHING;

-- name: accepted
-- The accepted violations, with the e-mail address of the operator; the id if the operator was removed.
SELECT
  a.rule,
  a.object_id,
  a.detail,
  a.reason,
  coalesce(o.email, a.operator_id::text) AS operator,
  a.accepted_at
FROM accepted_violations AS a
LEFT JOIN control_center_users AS o ON o.id = a.operator_id;
