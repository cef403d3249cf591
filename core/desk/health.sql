-- name: processes
-- For each kind of process: how many have a lease at $1, how many have lost theirs since $2 without ending it, and when
-- the newest lease of a kind was lost.
SELECT
  kind,
  count(*) FILTER (WHERE lost_at > $1)::int AS alive,
  count(*) FILTER (WHERE lost_at <= $1 AND lost_at > $2 AND lost_at > alive_at)::int AS lost,
  max(lost_at) AS lost_at
FROM service_processes
GROUP BY kind;

-- name: codes
-- The newest requests for a code since $1, at most 20, and whether their delivery failed. The newest is first. Numbers
-- that the provider refuses say nothing about it.
SELECT
  delivery_failed,
  created_at
FROM otp_requests
WHERE created_at > $1 AND NOT number_refused
ORDER BY created_at DESC
LIMIT 20;

-- name: webhooks
-- The calls of the last hour: how many with the right token were refused, and how many payments only a poll has found.
-- $1 is the bound of the ids of that hour, $2 its begin.
SELECT
  count(*) FILTER (
    WHERE source = 'webhook' AND http_status >= 400 AND (token_valid OR processing_result = 'error')
  )::int
    AS refused,
  count(*) FILTER (WHERE source = 'poll')::int AS polled
FROM webhook_logs
WHERE id >= $1 AND received_at >= $2 AND (http_status >= 400 OR source = 'poll');
