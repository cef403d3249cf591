-- name: add
-- Add counts to the rows of their minute and network. Rows are written in the order of their ids, so that two processes
-- with the same addresses can't deadlock.
INSERT INTO webhook_logs (
  id,
  received_at,
  source_ip,
  token_valid,
  raw_body,
  http_status,
  processing_result,
  calls,
  bytes,
  body_sha256
)
SELECT
  id,
  received_at,
  source_ip,
  false,
  ''::bytea,
  401,
  'flood',
  calls,
  bytes,
  body_sha256
FROM
  unnest($1::uuid[], $2::timestamptz[], $3::text[], $4::int[], $5::bigint[], $6::text[])
    AS f (id, received_at, source_ip, calls, bytes, body_sha256)
ORDER BY id
ON CONFLICT (id) DO UPDATE SET
  calls = webhook_logs.calls + excluded.calls,
  bytes = webhook_logs.bytes + excluded.bytes,
  body_sha256 = excluded.body_sha256;
