-- rule: a search ends with its round or its time limit
-- proves: I3 I7
-- reads: open work
-- returns: searches whose round or time limit ended before $1.
SELECT
  id::text,
  format('round until %s, search until %s', round_ends_at, search_ends_at)
FROM chat_sessions
WHERE status = 'searching' AND least(round_ends_at, search_ends_at) < $1;


-- rule: a session is completed after its grace period
-- proves: I7
-- reads: open work
-- returns: expired and closing sessions whose grace period ended before $1. An extension that was answered after $1 has
-- held it.
SELECT
  w.id::text,
  format('due at %s', w.due_at)
FROM timed_work AS w
WHERE
  w.kind = 'grace'
  AND w.due_at < $1
  AND NOT EXISTS (
    SELECT 1
    FROM session_extensions AS e
    WHERE e.session_id = w.id AND e.responded_at >= $1
  );


-- rule: a silent mitra is taken offline
-- proves: I7
-- reads: open work
-- returns: online mitras who have been silent for $2 seconds since before $1; $3 is now. Not checked just after a
-- change of the two settings, because a stricter one makes many mitras overdue at once.
SELECT
  mitra_id::text,
  format('silent since %s', silent_since)
FROM mitra_silences($3)
WHERE
  silent_since + make_interval(secs => $2::float8) < $1
  AND coalesce(
    (
      SELECT max(updated_at) FROM app_config
      WHERE key IN ('require_mitra_ping', 'mitra_stale_after_seconds')
    ) < $1, true
  );


-- rule: every webhook call has a result
-- proves: I10
-- reads: open work
-- returns: webhook calls that were received before $1 and have no result.
SELECT
  id::text,
  format('received %s', received_at)
FROM webhook_logs
WHERE http_status IS NULL AND received_at < $1;


-- rule: an unacknowledged event becomes a push
-- proves: docs/events.md
-- reads: open work
-- returns: deliveries that are older than $1 seconds of real time and have neither an acknowledgement nor a push.
SELECT
  id::text,
  format('%s of %s', event, created_at)
FROM deliveries
WHERE
  pushed_real_at IS NULL
  AND created_at < transaction_timestamp() - make_interval(secs => $1::float8);


-- rule: the next month has partitions
-- proves: docs/operating.md#partitions-by-month
-- reads: open work
-- returns: partitioned tables whose last partition does not reach $1, the bound at the end of the next month.
SELECT
  t.oid::regclass::text,
  format('partitions until %s', max(e.bound))
FROM pg_class AS t
LEFT JOIN pg_inherits AS i ON i.inhparent = t.oid
LEFT JOIN pg_class AS c ON c.oid = i.inhrelid
CROSS JOIN substring(pg_get_expr(c.relpartbound, c.oid) FROM 'TO \(.([0-9a-f-]{36})') AS e (bound)
WHERE t.relkind = 'p'
GROUP BY t.oid
HAVING coalesce(max(e.bound), '') < $1::text;
