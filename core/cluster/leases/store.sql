-- name: ensure
-- Insert the row of the lease $1 unless there is one.
INSERT INTO cluster_leases (name) VALUES ($1)
ON CONFLICT (name) DO NOTHING
RETURNING 1;

-- name: hold
-- Take or renew the lease $1 for the node $2, for the time $3.
UPDATE cluster_leases
SET holder = $2, until_real_at = clock_timestamp() + $3::interval
WHERE name = $1 AND (holder = $2 OR until_real_at IS NULL OR until_real_at <= clock_timestamp())
RETURNING 1;

-- name: claim_due
-- Take the lease $1 for the node $2 and the time $3, if it is free and its work was not finished since $4.
UPDATE cluster_leases
SET holder = $2, until_real_at = clock_timestamp() + $3::interval
WHERE
  name = $1
  AND (until_real_at IS NULL OR until_real_at <= clock_timestamp())
  AND (done_real_at IS NULL OR done_real_at < $4)
RETURNING 1;

-- name: renew
-- Renew the lease $1 of the node $2 for the time $3.
UPDATE cluster_leases
SET until_real_at = clock_timestamp() + $3::interval
WHERE name = $1 AND holder = $2 AND until_real_at > clock_timestamp()
RETURNING 1;

-- name: finish
-- Record that the node $2 has finished the work of the lease $1.
UPDATE cluster_leases
SET until_real_at = clock_timestamp(), done_real_at = clock_timestamp()
WHERE name = $1 AND holder = $2 AND until_real_at > clock_timestamp()
RETURNING 1;

-- name: release
-- End the leases $1 of the node $2.
UPDATE cluster_leases
SET until_real_at = clock_timestamp()
WHERE name = ANY($1) AND holder = $2 AND until_real_at > clock_timestamp();

-- name: finished
-- When the work of the leases $1 was last finished.
SELECT
  name,
  done_real_at
FROM cluster_leases
WHERE name = ANY($1) AND done_real_at IS NOT NULL;
