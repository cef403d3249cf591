-- name: changes
-- The newest $4 changes of the rows $1 that operators made from $2 to before $3 ($5: the action of their audit rows),
-- with what was forecast for them.
SELECT
  a.id,
  a.object_id AS key,
  a.before -> 'value' AS before,
  a.after -> 'value' AS after,
  a.created_at AS changed_at,
  jsonb_build_object('id', o.id, 'display_name', o.display_name) AS changed_by,
  a.after ->> 'simulation_id' AS simulation_id,
  a.after -> 'forecast' AS forecast
FROM operator_audit_log AS a
JOIN control_center_users AS o ON o.id = a.operator_id
WHERE
  a.object_id = ANY($1)
  AND a.created_at >= $2
  AND a.created_at < $3
  AND a.action = $5
  AND a.before -> 'value' IS DISTINCT FROM a.after -> 'value'
ORDER BY a.created_at DESC, a.id DESC
LIMIT $4;

-- name: happened
-- The figures of a simulation for the searches that began from $1 to before $2, without those for one chosen mitra.
SELECT
  avg((s.status = 'failed')::int)::float8 AS unserved,
  percentile_cont(0.5) WITHIN GROUP (ORDER BY s.waited) AS wait_p50,
  percentile_cont(0.9) WITHIN GROUP (ORDER BY s.waited) AS wait_p90,
  avg(s.rung)::float8 AS phones_rung
FROM (
  SELECT
    c.status,
    extract(EPOCH FROM c.paired_at - c.created_at)::float8 AS waited,
    (
      SELECT count(*)
      FROM chat_request_notifications AS n
      WHERE n.session_id = c.id
    ) AS rung
  FROM chat_sessions AS c
  WHERE
    c.created_at >= $1
    AND c.created_at < $2
    AND c.payment_request_id IS NOT NULL
    AND c.targeted_mitra_id IS NULL
    AND c.status <> 'searching'
) AS s;
