-- name: add
-- Store deliveries.
INSERT INTO deliveries (id, recipient_id, recipient_type, event, session_id, payload, created_at)
SELECT
  u.*,
  clock_timestamp()
FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::uuid[], $6::text[]) AS u;

-- name: acknowledge
-- Delete deliveries, given as ids and recipients; return the ids of those that existed. Rows are locked in the order of
-- their ids, because two devices may acknowledge the same events.
DELETE FROM deliveries
WHERE
  id = ANY(ARRAY(
    SELECT d.id
    FROM unnest($1::uuid[], $2::uuid[]) AS a (id, recipient_id)
    JOIN deliveries AS d USING (id, recipient_id)
    ORDER BY d.id
    FOR UPDATE OF d
  ))
RETURNING id::text;

-- name: waiting
-- Up to 5,000 deliveries after ($3, $4), created since $1 and unacknowledged for $2 seconds. Here and below, a range
-- ends at statement_timestamp(), because clock_timestamp() is volatile and can't bound an index scan.
SELECT
  id::text AS event_id,
  recipient_id::text,
  created_at
FROM deliveries
WHERE
  created_at BETWEEN $1 AND statement_timestamp() - make_interval(secs => $2)
  AND (created_at, id) > ($3, $4::uuid)
ORDER BY created_at, id
LIMIT 5000;

-- name: events
-- The pending deliveries with these ids, oldest first.
SELECT
  id::text AS event_id,
  recipient_id::text,
  recipient_type,
  event,
  session_id::text,
  payload
FROM deliveries
WHERE id = ANY($1::uuid[])
ORDER BY created_at, id;

-- name: unacknowledged
-- The newest 200 deliveries of each recipient from the last $2 seconds, newest first.
SELECT d.*
FROM unnest($1::uuid[]) AS r (id)
CROSS JOIN LATERAL (
  SELECT
    id::text AS event_id,
    recipient_id::text,
    recipient_type,
    event,
    session_id::text,
    payload
  FROM deliveries
  WHERE recipient_id = r.id AND created_at > statement_timestamp() - make_interval(secs => $2)
  ORDER BY created_at DESC, id DESC
  LIMIT 200
) AS d;

-- name: claim_unacknowledged
-- Claim up to $2 deliveries that are unacknowledged for $1 seconds and not claimed.
UPDATE deliveries
SET pushed_real_at = clock_timestamp()
WHERE
  id = ANY(ARRAY(
    SELECT id
    FROM deliveries
    WHERE pushed_real_at IS NULL AND created_at < statement_timestamp() - make_interval(secs => $1)
    ORDER BY created_at
    LIMIT $2
    FOR UPDATE SKIP LOCKED
  ))
RETURNING
  id::text AS event_id,
  recipient_id::text,
  recipient_type,
  event,
  session_id::text,
  payload;

-- name: purge
-- Delete up to 5,000 deliveries that are older than $1 seconds.
DELETE FROM deliveries
WHERE id = ANY(ARRAY(
  SELECT id
  FROM deliveries
  WHERE created_at < statement_timestamp() - make_interval(secs => $1)
  ORDER BY created_at
  LIMIT 5000
));

-- name: forget_all
-- Delete the deliveries of recipients. Rows are locked in the order of their ids, as acknowledgements do.
DELETE FROM deliveries
WHERE
  id = ANY(ARRAY(
    SELECT id
    FROM deliveries
    WHERE recipient_id = ANY($1::uuid[])
    ORDER BY id
    FOR UPDATE
  ));

-- name: forget_sessions
-- Delete the deliveries about sessions. The table holds the events of an hour at most, so it has no index for this.
DELETE FROM deliveries
WHERE
  id = ANY(ARRAY(
    SELECT id
    FROM deliveries
    WHERE session_id = ANY($1::uuid[])
    ORDER BY id
    FOR UPDATE
  ));
