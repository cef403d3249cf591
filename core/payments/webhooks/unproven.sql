-- name: calls
-- The calls without a valid token since $1 that are stored, and those of the network $2 (null: of hosts that are not
-- addresses): how many, how many have a body of more than $4 bytes, and the time of the oldest. $3 is the bound of
-- their ids. A call from before $5 without a result counts, too: its process died, or storing it ended too late.
-- Younger ones are counted in memory.
SELECT
  count(*)::int AS calls,
  (count(*) FILTER (WHERE w.near))::int AS calls_of_network,
  (count(*) FILTER (WHERE w.large))::int AS large,
  (count(*) FILTER (WHERE w.large AND w.near))::int AS large_of_network,
  min(w.received_at) AS oldest,
  min(w.received_at) FILTER (WHERE w.near) AS oldest_of_network
FROM (
  SELECT
    received_at,
    octet_length(raw_body) > $4 AS large,
    CASE
      WHEN pg_input_is_valid(source_ip, 'inet') THEN network_subeq(source_ip::inet, $2::inet) ELSE $2 IS NULL
    END AS near
  FROM webhook_logs
  WHERE
    NOT token_valid
    AND (processing_result IN ('unauthorized', 'error') OR http_status IS NULL AND received_at <= $5)
    AND received_at > $1
    AND id >= $3
) AS w;

-- name: bodies
-- The bytes of the stored bodies of calls without a valid token since $1, with or without a result, and those of the
-- network $2. $3 is the bound of their ids.
SELECT
  coalesce(sum(w.size), 0)::bigint AS stored,
  coalesce(sum(w.size) FILTER (WHERE w.near), 0)::bigint AS stored_of_network
FROM (
  SELECT
    octet_length(raw_body) AS size,
    CASE
      WHEN pg_input_is_valid(source_ip, 'inet') THEN network_subeq(source_ip::inet, $2::inet) ELSE $2 IS NULL
    END AS near
  FROM webhook_logs
  WHERE NOT token_valid AND received_at > $1 AND id >= $3
) AS w;

-- name: refuse
-- Store the result of a call without a valid token; with $2, also its whole body, and $3: whether that is cut, too.
-- The length and the hash of a cut body stay.
UPDATE webhook_logs
SET
  http_status = 401,
  processing_result = 'unauthorized',
  raw_body = coalesce($2, raw_body),
  truncated = CASE WHEN $2::bytea IS NULL THEN truncated ELSE $3 END,
  bytes = CASE WHEN $2::bytea IS NULL OR $3 THEN bytes END,
  body_sha256 = CASE WHEN $2::bytea IS NULL OR $3 THEN body_sha256 END
WHERE id = $1 AND http_status IS NULL;

-- name: complete
-- Store the whole body of a call whose token is valid, before the call is judged. $3: whether the body is cut, too.
UPDATE webhook_logs
SET
  token_valid = true,
  raw_body = $2,
  truncated = $3,
  bytes = NULL,
  body_sha256 = NULL
WHERE id = $1 AND http_status IS NULL;
