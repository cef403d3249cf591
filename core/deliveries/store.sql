-- name: add
-- Store deliveries.
INSERT INTO deliveries (id, recipient_id, recipient_type, event, session_id, payload, created_at)
SELECT
  u.*,
  clock_timestamp()
FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::uuid[], $6::text[]) AS u;

-- name: acknowledge
-- Acknowledge deliveries, given as ids, recipients, the devices that acknowledge them, and whether ($6) a device has
-- shown it: then the delivery is deleted, else it keeps the device. Note each device in the trail with the time $4.
-- Return the deliveries that existed, with the real seconds until their first acknowledgement; null for a later one.
-- Each row has the number of rows that the trail got; if no delivery existed, there is one row without one. Rows are
-- locked and written in the order of their ids, because two devices may acknowledge the same events. A later device
-- finds the event in the trail, where an event has at most $5 rows.
WITH acks AS (
  SELECT a.*
  FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $6::bool[]) AS a (event_id, recipient_id, auth_session_id, shown)
),

acknowledged AS (
  SELECT
    event_id,
    recipient_id,
    bool_or(shown) AS shown,
    array_agg(auth_session_id) AS devices
  FROM acks
  GROUP BY event_id, recipient_id
),

pending AS MATERIALIZED (
  SELECT
    d.id,
    d.recipient_id,
    d.event,
    d.session_id,
    payment_of_delivery(d.session_id, d.payload) AS payment_request_id,
    CASE WHEN d.unshown_on IS NULL THEN extract(EPOCH FROM clock_timestamp() - d.created_at)::float8 END AS seconds,
    a.shown,
    a.devices
  FROM deliveries AS d
  JOIN acknowledged AS a ON d.id = a.event_id AND d.recipient_id = a.recipient_id
  ORDER BY d.id
  FOR UPDATE OF d
),

gone AS (
  DELETE FROM deliveries
  WHERE
    id = ANY(ARRAY(
      SELECT id
      FROM pending
      WHERE shown
    ))
),

kept AS (
  UPDATE deliveries AS d
  SET
    unshown_on = ARRAY(
      SELECT DISTINCT u.device
      FROM unnest(d.unshown_on || p.devices) AS u (device)
    )
  FROM pending AS p
  WHERE d.id = p.id AND NOT p.shown AND (d.unshown_on IS NULL OR NOT d.unshown_on @> p.devices)
),

known AS (
  SELECT
    a.event_id,
    a.recipient_id,
    a.auth_session_id,
    g.event,
    g.session_id,
    g.payment_request_id
  FROM acks AS a
  JOIN pending AS g ON g.id = a.event_id AND g.recipient_id = a.recipient_id
  UNION ALL
  SELECT
    a.event_id,
    a.recipient_id,
    a.auth_session_id,
    t.event,
    t.session_id,
    t.payment_request_id
  FROM acks AS a
  LEFT JOIN pending AS g ON g.id = a.event_id AND g.recipient_id = a.recipient_id
  CROSS JOIN
    LATERAL (
      SELECT
        e.recipient_id,
        e.event,
        e.session_id,
        e.payment_request_id
      FROM delivery_trail AS e
      WHERE e.event_id = a.event_id
      LIMIT 1
    ) AS t
  WHERE g.id IS NULL AND t.recipient_id = a.recipient_id
),

noted AS (
  INSERT INTO delivery_trail (
    id, event_id, stage, auth_session_id, recipient_id, event, session_id, payment_request_id, at
  )
  SELECT
    gen_random_uuid(),
    k.event_id,
    'acknowledged',
    k.auth_session_id,
    k.recipient_id,
    k.event,
    k.session_id,
    k.payment_request_id,
    $4
  FROM known AS k
  WHERE (
    SELECT count(*) FROM delivery_trail AS t
    WHERE t.event_id = k.event_id
  ) < $5
  ORDER BY k.event_id, k.auth_session_id
  ON CONFLICT DO NOTHING
  RETURNING event_id
)

SELECT
  n.noted,
  g.id::text,
  g.event,
  g.seconds
FROM (SELECT count(*) AS noted FROM noted) AS n
LEFT JOIN pending AS g ON true;

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
    payload,
    unshown_on::text[]
  FROM deliveries
  WHERE recipient_id = r.id AND created_at > statement_timestamp() - make_interval(secs => $2)
  ORDER BY created_at DESC, id DESC
  LIMIT 200
) AS d;

-- name: work
-- Whether deliveries without a push are new (of the last $1 seconds) or late, and whether a push is due.
SELECT
  EXISTS(
    SELECT 1
    FROM deliveries
    WHERE pushed_real_at IS NULL AND created_at >= statement_timestamp() - make_interval(secs => $1)
  ) AS is_new,
  EXISTS(
    SELECT 1
    FROM deliveries
    WHERE pushed_real_at IS NULL AND created_at < statement_timestamp() - make_interval(secs => $1)
  ) AS is_late,
  EXISTS(
    SELECT 1
    FROM pushes
    WHERE due_real_at <= statement_timestamp()
  ) AS is_due;

-- name: unpushed
-- Up to $2 deliveries after ($3, $4) of the last $1 seconds that are unacknowledged and not claimed, the oldest first.
SELECT
  id::text AS event_id,
  recipient_id::text,
  created_at
FROM deliveries
WHERE
  pushed_real_at IS NULL
  AND created_at >= statement_timestamp() - make_interval(secs => $1)
  AND (created_at, id) > ($3, $4::uuid)
ORDER BY created_at, id
LIMIT $2;

-- name: claim_events
-- Claim those of the deliveries $1 that are unacknowledged and not claimed.
UPDATE deliveries
SET pushed_real_at = clock_timestamp()
WHERE
  id = ANY(ARRAY(
    SELECT id
    FROM deliveries
    WHERE id = ANY($1::uuid[]) AND pushed_real_at IS NULL
    ORDER BY created_at
    FOR UPDATE SKIP LOCKED
  ))
RETURNING
  id::text AS event_id,
  recipient_id::text,
  recipient_type,
  event,
  session_id::text,
  payload,
  unshown_on::text[];

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
  payload,
  unshown_on::text[];

-- name: forget
-- Delete the deliveries of the event $2 to the recipients $1, and note in the trail that they were given up at $3.
-- With sessions ($4) only their deliveries. Return how many.
-- Rows are locked in the order of their ids, as acknowledgements do. Those of sessions belong to users whose rows the
-- transaction has not locked, and it may have locked other deliveries: it skips locked ones and never waits for them.
WITH gone AS (
  DELETE FROM deliveries
  WHERE
    id = ANY(ARRAY(
      SELECT id
      FROM deliveries
      WHERE recipient_id = ANY($1::uuid[]) AND event = $2 AND $4::uuid[] IS NULL
      ORDER BY id
      FOR UPDATE
    ) || ARRAY(
      SELECT id
      FROM deliveries
      WHERE recipient_id = ANY($1::uuid[]) AND event = $2 AND session_id = ANY($4::uuid[])
      ORDER BY id
      FOR UPDATE SKIP LOCKED
    ))
  RETURNING *
),

noted AS (
  INSERT INTO delivery_trail (
    id, event_id, stage, recipient_id, event, session_id, payment_request_id, at
  )
  SELECT
    gen_random_uuid(),
    g.id,
    'given_up',
    g.recipient_id,
    g.event,
    g.session_id,
    payment_of_delivery(g.session_id, g.payload),
    $3
  FROM gone AS g
  ORDER BY g.id
  ON CONFLICT DO NOTHING
)

SELECT count(*)
FROM gone;

-- name: purge
-- Delete up to 5,000 deliveries that are older than $1 seconds, and note in the trail that they were given up at $2.
-- Return how many. A row that an acknowledgement or another purge has locked is left to it or to the next purge, so
-- that the two can't wait for each other.
WITH gone AS (
  DELETE FROM deliveries
  WHERE
    id = ANY(ARRAY(
      SELECT id
      FROM deliveries
      WHERE created_at < statement_timestamp() - make_interval(secs => $1)
      ORDER BY created_at
      LIMIT 5000
      FOR UPDATE SKIP LOCKED
    ))
  RETURNING *
),

noted AS (
  INSERT INTO delivery_trail (
    id, event_id, stage, recipient_id, event, session_id, payment_request_id, at
  )
  SELECT
    gen_random_uuid(),
    g.id,
    'given_up',
    g.recipient_id,
    g.event,
    g.session_id,
    payment_of_delivery(g.session_id, g.payload),
    $2
  FROM gone AS g
  ORDER BY g.id
  ON CONFLICT DO NOTHING
)

SELECT count(*)
FROM gone;

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
