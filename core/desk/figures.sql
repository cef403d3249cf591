-- name: open_work
-- The open work: rows of (kind, name, count), for failures the amount and the oldest one that is not put aside, and for
-- mitras how many are in a chat. $1 is now, $2 to $4 are the availability policy. IN keeps the available mitras in a
-- hash table, whatever the estimates are; a join of two sets that are estimated as small may compare all with all.
SELECT
  'failures' AS kind,
  cause_tag AS name,
  count(*)::int AS count,
  sum(amount)::bigint AS amount,
  min(created_at) FILTER (WHERE snoozed_until IS NULL OR snoozed_until <= $1) AS oldest_at,
  NULL::int AS in_chats
FROM pairing_failures
WHERE operator_action IS NULL AND superseded_at IS NULL
GROUP BY cause_tag
UNION ALL
SELECT
  'searches',
  CASE WHEN targeted_mitra_id IS NULL THEN 'blast' ELSE 'targeted' END,
  count(*)::int,
  NULL,
  NULL,
  NULL
FROM chat_sessions
WHERE status = 'searching'
GROUP BY targeted_mitra_id IS NULL
UNION ALL
SELECT
  'sessions',
  status,
  count(*)::int,
  NULL,
  NULL,
  NULL
FROM chat_sessions
WHERE is_unended(status)
GROUP BY status
UNION ALL
SELECT
  'payments',
  status,
  count(*)::int,
  NULL,
  NULL,
  NULL
FROM payment_requests
WHERE status IN ('pending', 'confirmed')
GROUP BY status
UNION ALL
SELECT
  'mitras',
  m.state,
  count(*)::int,
  NULL,
  NULL,
  count(*) FILTER (WHERE m.is_in_chat)::int
FROM (
  SELECT
    CASE
      WHEN o.mitra_id IS NULL THEN 'offline'
      WHEN a.id IN (SELECT f.mitra_id FROM free_mitras($1, $2, $3, $4) AS f) THEN 'available'
      WHEN l.sessions >= $4 THEN 'full'
      ELSE 'unavailable'
    END AS state,
    l.mitra_id IS NOT NULL AS is_in_chat
  FROM mitras AS a
  LEFT JOIN mitra_online_status AS o ON o.mitra_id = a.id AND o.is_online
  LEFT JOIN (
    SELECT
      mitra_id,
      count(*) AS sessions
    FROM chat_sessions
    WHERE is_held(status)
    GROUP BY mitra_id
  ) AS l ON l.mitra_id = a.id
  WHERE a.is_active
) AS m
GROUP BY m.state;


-- name: refunds
-- The open refunds, with the seconds since the oldest was asked for; and the failures that no operator has acted on by
-- their time. $1 is now, and failures that are older than $2 are late. One with an open refund or put aside is not.
SELECT
  r.open,
  r.oldest_seconds,
  f.overdue
FROM (
  SELECT
    count(*)::int AS open,
    coalesce(extract(EPOCH FROM $1 - min(requested_at)), 0)::float AS oldest_seconds
  FROM refunds
  WHERE is_open_refund(status)
) AS r
CROSS JOIN (
  SELECT count(*)::int AS overdue
  FROM pairing_failures AS f
  WHERE
    f.operator_action IS NULL
    AND f.superseded_at IS NULL
    AND f.created_at <= $2
    AND (f.snoozed_until IS NULL OR f.snoozed_until <= $1)
    AND NOT EXISTS (
      SELECT 1
      FROM refunds AS r
      WHERE r.failure_id = f.id AND is_open_refund(r.status)
    )
) AS f;


-- name: standbys
-- The lag of each standby: what it reported last, or the time since its last report if it is behind. One that has
-- nothing to replay reports no lag. Other users' standbys have no state for a user without pg_read_all_stats. Programs
-- that copy the log for a backup are no standbys.
SELECT
  coalesce(nullif(application_name, ''), client_addr::text, 'unnamed') AS standby,
  max(
    greatest(
      extract(EPOCH FROM replay_lag),
      CASE WHEN replay_lsn < pg_current_wal_lsn() THEN extract(EPOCH FROM clock_timestamp() - reply_time) END,
      0
    )
  )::float8 AS lag_seconds
FROM pg_stat_replication
WHERE
  state IN ('streaming', 'catchup')
  AND application_name NOT IN ('pg_basebackup', 'pg_receivewal')
GROUP BY 1;


-- name: unarchived
-- The real seconds since a segment of the primary's log was archived, if a complete one waits; else 0, also if nothing
-- is archived. A command that hangs reports no failure, so the segments are compared.
SELECT
  CASE
    WHEN current_setting('archive_mode') = 'off' THEN 0
    WHEN
      last_archived_wal >= pg_walfile_name(
        pg_current_wal_lsn() - (pg_size_bytes(current_setting('wal_segment_size')) - 1)::numeric
      ) THEN 0
    ELSE
      extract(
        EPOCH FROM clock_timestamp() - coalesce(last_archived_time, stats_reset, pg_postmaster_start_time())
      )
  END::float8 AS seconds
FROM pg_stat_archiver;

-- name: figures
-- In how many chats a party is absent, and the figures of payments and webhook calls. $1 is now, $2 is the bound of the
-- ids of the last hour.
SELECT
  (
    SELECT count(DISTINCT session_id)::int
    FROM session_absences
    WHERE ended_at IS NULL
  ) AS absent,
  (
    SELECT coalesce(sum(amount), 0)::bigint
    FROM payment_requests
    WHERE confirmed_at >= $1::timestamptz - interval '24 hours'
  ) AS confirmed_amount_24h,
  (
    SELECT count(*)::int
    FROM webhook_logs
    WHERE
      http_status >= 400
      AND (token_valid OR processing_result = 'error')
      AND id >= $2
      AND received_at >= $1 - interval '1 hour'
  ) AS webhook_errors_last_hour,
  (
    SELECT count(*)::int
    FROM control_center_users
    WHERE lockout_until > $1 AND NOT disabled
  ) AS operators_locked;


-- name: hours
-- The chats, payments and failures of each of the last 24 hours, the oldest first. The last hour is the current,
-- incomplete one. $1 is now.
SELECT
  h.at,
  (
    SELECT count(*)::int
    FROM chat_sessions
    WHERE paired_at >= h.at AND paired_at < h.at + interval '1 hour'
  ) AS chats,
  (
    SELECT coalesce(sum(amount), 0)::bigint
    FROM payment_requests
    WHERE confirmed_at >= h.at AND confirmed_at < h.at + interval '1 hour'
  ) AS paid_amount,
  (
    SELECT count(*)::int
    FROM pairing_failures
    WHERE created_at >= h.at AND created_at < h.at + interval '1 hour'
  ) AS failures
FROM generate_series(date_trunc('hour', $1::timestamptz) - interval '23 hours', $1, interval '1 hour') AS h (at)
ORDER BY h.at;
