-- rule: a search ends with its round or its time limit
-- proves: I3 I7
-- reads: open work
-- returns: searches whose round or time limit ended before $1.
SELECT
  id::text,
  format('round until %s, search until %s', round_ends_at, search_ends_at)
FROM chat_sessions
WHERE status = 'searching' AND least(round_ends_at, search_ends_at) < $1;


-- rule: an absence ends with its session
-- proves: docs/fairness.md#absent-party
-- reads: open work
-- returns: open absences of sessions that ended before $1.
SELECT
  a.id::text,
  format('%s of session %s, which is %s', a.user_type, a.session_id, s.status)
FROM session_absences AS a
JOIN chat_sessions AS s ON s.id = a.session_id
WHERE a.ended_at IS NULL AND s.status NOT IN ('active', 'expired') AND s.ended_at < $1;


-- rule: a wave ends by its time
-- proves: docs/product.md#waves
-- reads: open work
-- returns: searches whose wave ended before $1 and, if it was not the last of its round, before the round.
SELECT
  id::text,
  format('wave %s until %s', wave_number, wave_ends_at)
FROM chat_sessions
WHERE status = 'searching' AND wave_ends_at < $1 AND wave_ends_at < round_ends_at;


-- rule: a confirmed payment request has a session or an extension
-- proves: I3
-- reads: open work
-- returns: payment requests that were confirmed before $1 and have neither. A fallback to a blast keeps the old time
-- of payment, but its new search is stored in the same transaction.
SELECT
  p.id::text,
  format('confirmed %s', p.confirmed_at)
FROM payment_requests AS p
WHERE
  p.status = 'confirmed'
  AND p.confirmed_at < $1
  AND NOT EXISTS (
    SELECT 1
    FROM chat_sessions AS s
    WHERE s.payment_request_id = p.id AND s.status NOT IN ('failed', 'cancelled')
  )
  AND NOT EXISTS (
    SELECT 1
    FROM session_extensions AS e
    WHERE e.payment_request_id = p.id
  );


-- rule: an unpaid request expires
-- proves: I7
-- reads: open work
-- returns: pending payment requests whose time to pay ended before $1.
SELECT
  id::text,
  format('until %s', expires_at)
FROM payment_requests
WHERE status = 'pending' AND expires_at < $1;


-- rule: the gateway is asked about an open refund
-- proves: I7 docs/product.md#refunds
-- reads: open work
-- returns: open refunds about which the gateway should have been asked before $1.
SELECT
  id::text,
  format('%s, to be asked at %s', status, ask_at)
FROM refunds
WHERE status IN ('requested', 'pending') AND ask_at < $1;


-- rule: a session ends with its paid time
-- proves: I7
-- reads: open work
-- returns: active sessions whose paid time ended before $1.
SELECT
  id::text,
  format('ends %s', expires_at)
FROM chat_sessions
WHERE status = 'active' AND expires_at < $1;


-- rule: an outage is credited when it is over
-- proves: docs/fairness.md#fair-clock
-- reads: open work
-- returns: outages whose credits were due before $1, so that the deadlines of all sessions wait.
SELECT
  id::text,
  format('%s until %s', kind, ended_at)
FROM outages
WHERE credit_at < $1;


-- rule: an extension is answered by its deadline
-- proves: I7
-- reads: open work
-- returns: pending extensions whose deadline was before $1.
SELECT
  id::text,
  format('answer by %s', answer_by)
FROM session_extensions
WHERE status = 'pending' AND answer_by < $1;


-- rule: a session is completed after its grace period
-- proves: I7
-- reads: open work
-- returns: expired and closing sessions whose grace period ended before $1. A pending extension holds the grace
-- period, and so does one that was answered after $1.
SELECT
  s.id::text,
  format('%s until %s', s.status, s.grace_ends_at)
FROM chat_sessions AS s
WHERE
  s.status IN ('expired', 'closing')
  AND s.grace_ends_at < $1
  AND NOT EXISTS (
    SELECT 1
    FROM session_extensions AS e
    WHERE e.session_id = s.id AND (e.status = 'pending' OR e.responded_at >= $1)
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


-- rule: an erasure is completed
-- proves: docs/privacy.md#erasure
-- reads: open work
-- returns: erasures that began before $1 and are not complete.
SELECT
  id::text,
  format('%s %s, begun %s', user_type, user_id, began_at)
FROM erasures
WHERE completed_at IS NULL AND began_at < $1;


-- rule: the receipt of a completed session is signed
-- proves: docs/fairness.md#receipt
-- reads: open work
-- returns: receipts of sessions that were completed before $1 that are not signed.
SELECT
  session_id::text,
  format('completed %s', completed_at)
FROM session_receipts
WHERE signed_at IS NULL AND completed_at < $1;
