-- name: add
-- Insert the simulation $1, unless another one waits or runs.
INSERT INTO simulations (id, asked_by, asked_at, since_days, settings, extra_shifts, percent)
VALUES ($1, $2, $3, $4, $5, $6, 0)
ON CONFLICT ((ended_at IS NULL)) WHERE ended_at IS NULL DO NOTHING
RETURNING 1;

-- name: unended
-- The simulation that waits or runs, if any.
SELECT id
FROM simulations
WHERE ended_at IS NULL;

-- name: claim
-- Take the simulation that waits for the node $1, for the time $2.
UPDATE simulations
SET runner = $1, claimed_until_real_at = clock_timestamp() + $2::interval
WHERE ended_at IS NULL AND runner IS NULL
RETURNING id;

-- name: renew
-- Renew the claim of the node $2 on the simulation $1 for the time $3, and store that $4 percent are done.
UPDATE simulations
SET claimed_until_real_at = clock_timestamp() + $3::interval, percent = $4
WHERE id = $1 AND runner = $2 AND ended_at IS NULL;

-- name: finish
-- End the simulation $1 of the node $2 at $3, with a result ($4) or a failure ($5) and its details ($6).
UPDATE simulations
SET
  ended_at = $3,
  percent = CASE WHEN $5::text IS NULL THEN 100 ELSE percent END,
  result = $4,
  failure = $5,
  details = $6
WHERE id = $1 AND runner = $2 AND ended_at IS NULL;

-- name: end_abandoned
-- End the simulation whose claim is over with the failure $2: its process has died.
UPDATE simulations
SET ended_at = $1, failure = $2
WHERE ended_at IS NULL AND claimed_until_real_at <= clock_timestamp();

-- name: purge
-- Delete the simulations that ended before $1.
DELETE FROM simulations
WHERE ended_at < $1;

-- name: simulations
-- The simulation $1; if that is null the newest 20, without their results.
SELECT
  s.id,
  CASE WHEN s.ended_at IS NULL THEN 'running' WHEN s.failure IS NULL THEN 'done' ELSE 'failed' END AS status,
  s.percent,
  jsonb_build_object('id', o.id, 'display_name', o.display_name) AS asked_by,
  s.asked_at,
  s.ended_at,
  s.since_days,
  s.settings,
  s.extra_shifts,
  s.failure,
  s.details,
  CASE WHEN s.id = $1 THEN s.result END AS result
FROM simulations AS s
JOIN control_center_users AS o ON o.id = s.asked_by
WHERE s.id = $1 OR $1 IS NULL
ORDER BY s.asked_at DESC, s.id DESC
LIMIT 20;

-- name: history
-- How much history there is from $1 to $2: days, up to $4 searches, and up to $5 answers of mitras to searches with ids
-- from $3. No more is counted than a forecast needs.
SELECT
  coalesce(
    (
      SELECT extract(DAY FROM $2::timestamptz - min(created_at))::int
      FROM chat_sessions
      WHERE created_at >= $1
    ),
    0
  ) AS days,
  (
    SELECT count(*)::int
    FROM (
      SELECT 1
      FROM chat_sessions
      WHERE created_at >= $1 AND status <> 'searching'
      LIMIT $4
    ) AS s
  ) AS searches,
  (
    SELECT count(*)::int
    FROM (
      SELECT 1
      FROM chat_request_notifications
      WHERE session_id >= $3 AND notified_at >= $1 AND response IN ('ACCEPTED', 'REJECTED')
      LIMIT $5
    ) AS n
  ) AS answers;

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
