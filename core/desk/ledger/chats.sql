-- rule: a paired session has one accepted invitation and no open one
-- proves: I5
-- reads: whole tables
-- returns: sessions with an open invitation after the search, or with an accepted one that is missing, double or of
-- another mitra than theirs; and sessions without a mitra in which a mitra was too late.
SELECT
  s.id::text,
  format(
    '%s: %s accepted, %s open, %s missed', s.status, coalesce(n.accepted, 0), coalesce(n.open, 0), coalesce(n.missed, 0)
  ) || concat(CASE WHEN n.accepted > 0 AND n.winner IS DISTINCT FROM s.mitra_id THEN ', by another mitra' END)
FROM chat_sessions AS s
LEFT JOIN (
  SELECT
    session_id,
    count(*) FILTER (WHERE response = 'ACCEPTED') AS accepted,
    count(*) FILTER (WHERE response IS NULL) AS open,
    count(*) FILTER (WHERE response = 'MISSED') AS missed,
    (array_agg(mitra_id) FILTER (WHERE response = 'ACCEPTED'))[1] AS winner
  FROM chat_request_notifications
  GROUP BY 1
) AS n ON n.session_id = s.id
WHERE
  s.status <> 'searching' AND n.open > 0
  OR n.accepted > 0 AND n.winner IS DISTINCT FROM s.mitra_id
  OR s.mitra_id IS NOT NULL AND s.round_number > 0 AND coalesce(n.accepted, 0) <> 1
  OR s.mitra_id IS NULL AND n.missed > 0;


-- rule: an open invitation belongs to the current round
-- proves: docs/product.md#rounds
-- reads: open work
-- returns: open invitations of a running search with another round, or another deadline, than the search.
SELECT
  n.id::text,
  format('round %s until %s; running: %s until %s', n.round_number, n.answer_by, s.round_number, s.round_ends_at)
FROM chat_request_notifications AS n
JOIN chat_sessions AS s ON s.id = n.session_id
WHERE
  n.response IS NULL
  AND s.status = 'searching'
  AND (n.round_number <> s.round_number OR n.answer_by <> s.round_ends_at);


-- rule: a mitra who rejected is not asked again
-- proves: docs/product.md#rounds
-- reads: whole tables
-- returns: searches that invited a mitra in a later round than the one that the mitra rejected.
SELECT
  session_id::text,
  format('mitra %s', mitra_id)
FROM chat_request_notifications
GROUP BY session_id, mitra_id
HAVING max(round_number) > min(round_number) FILTER (WHERE response = 'REJECTED');


-- rule: a targeted search asks its mitra only
-- proves: docs/product.md#targeted-requests
-- reads: whole tables
-- returns: targeted searches that invited another mitra, or were accepted by another one.
SELECT
  s.id::text,
  format('for %s, asked or won %s', s.targeted_mitra_id, n.mitra_id)
FROM chat_sessions AS s
JOIN chat_request_notifications AS n ON n.session_id = s.id
WHERE s.targeted_mitra_id IS NOT NULL AND s.targeted_mitra_id <> n.mitra_id
UNION ALL
SELECT
  id::text,
  format('for %s, won by %s', targeted_mitra_id, mitra_id)
FROM chat_sessions
WHERE targeted_mitra_id <> mitra_id;


-- rule: a mitra has no more sessions than the highest limit so far
-- proves: I6
-- reads: open work
-- returns: mitras with more sessions than any limit that was ever configured, or the default of 3.
SELECT
  mitra_id::text,
  format('%s sessions', count(*))
FROM chat_sessions
WHERE is_held(status)
GROUP BY mitra_id
HAVING count(*) > (
  SELECT max(allowed)
  FROM (
    SELECT 3 AS allowed
    UNION ALL
    SELECT (value ->> 'value')::int
    FROM app_config
    WHERE key = 'max_customers_per_mitra'
    UNION ALL
    SELECT (before ->> 'value')::int
    FROM operator_audit_log
    WHERE object_id = 'max_customers_per_mitra'
    UNION ALL
    SELECT (after ->> 'value')::int
    FROM operator_audit_log
    WHERE object_id = 'max_customers_per_mitra'
  ) AS x
);


-- rule: a session has the timestamps of its state
-- proves: I8
-- reads: whole tables
-- returns: sessions with a timestamp too many or too few for their state. Constraints hold the rules for paired_at and
-- mitra_id.
SELECT
  id::text,
  format(
    '%s: ends %s, ended %s by %s, grace until %s, warning %s',
    status,
    expires_at,
    ended_at,
    ended_by,
    grace_ends_at,
    warn_at
  )
FROM chat_sessions
WHERE NOT CASE status
  WHEN 'searching'
    THEN expires_at IS NULL AND ended_at IS NULL AND ended_by IS NULL AND grace_ends_at IS NULL AND warn_at IS NULL
  WHEN 'active' THEN ended_at IS NULL AND ended_by IS NULL AND grace_ends_at IS NULL
  WHEN 'expired'
    THEN ended_at IS NULL AND ended_by IS NULL AND grace_ends_at IS NOT NULL AND warn_at IS NULL
  WHEN 'closing'
    THEN
      ended_at IS NOT NULL
      AND coalesce(ended_by, '') IN ('customer', 'mitra', 'operator')
      AND grace_ends_at IS NOT NULL
      AND warn_at IS NULL
  WHEN 'completed'
    THEN ended_at IS NOT NULL AND ended_by IS NOT NULL AND grace_ends_at IS NULL AND warn_at IS NULL
  ELSE expires_at IS NULL AND ended_at IS NOT NULL AND ended_by IS NULL AND grace_ends_at IS NULL AND warn_at IS NULL
END;


-- rule: the first goodbye closes a session and the second completes it
-- proves: I8 docs/product.md#goodbyes
-- reads: whole tables
-- returns: sessions with two goodbyes that are not completed, or with one that are not closing.
SELECT
  s.id::text,
  format('%s with %s goodbyes', s.status, c.n)
FROM chat_sessions AS s
JOIN (
  SELECT
    session_id,
    count(*) AS n
  FROM session_closures
  GROUP BY 1
) AS c ON c.session_id = s.id
WHERE s.status <> 'completed' AND (c.n >= 2 OR s.status <> 'closing');


-- rule: a goodbye is from a party of the session
-- proves: docs/product.md#goodbyes
-- reads: whole tables
-- returns: goodbyes of a user who is not the session's customer or mitra.
SELECT
  c.id::text,
  format('%s %s', c.user_type, c.user_id)
FROM session_closures AS c
JOIN chat_sessions AS s ON s.id = c.session_id
WHERE c.user_id IS DISTINCT FROM CASE c.user_type WHEN 'customer' THEN s.customer_id ELSE s.mitra_id END;


-- rule: the topic flag agrees with its log
-- proves: docs/product.md#topic-sensitivity
-- reads: whole tables
-- returns: sessions whose flag is not the result of its changes, or with a change to the same value or by another
-- mitra.
SELECT
  s.id::text,
  format(
    '%s; %s flips to sensitive, %s back, %s to the same or by another mitra',
    s.topic_sensitivity,
    coalesce(l.up, 0),
    coalesce(l.down, 0),
    coalesce(l.wrong, 0)
  )
FROM chat_sessions AS s
LEFT JOIN (
  SELECT
    g.session_id,
    count(*) FILTER (WHERE to_value = 'sensitive') AS up,
    count(*) FILTER (WHERE to_value = 'regular') AS down,
    count(*) FILTER (WHERE from_value = to_value OR changed_by_mitra_id IS DISTINCT FROM o.mitra_id) AS wrong
  FROM session_sensitivity_log AS g
  JOIN chat_sessions AS o ON o.id = g.session_id
  GROUP BY 1
) AS l ON l.session_id = s.id
WHERE
  coalesce(l.up - l.down, 0) <> (s.topic_sensitivity = 'sensitive')::int
  OR l.wrong > 0;


-- rule: seq is 1 to n without gaps
-- proves: I1 I2
-- reads: whole tables
-- returns: sessions whose last_seq is not the number of their messages, or not the highest seq.
SELECT
  s.id::text,
  format('last_seq %s, %s messages, highest %s', s.last_seq, coalesce(m.n, 0), coalesce(m.top, 0))
FROM chat_sessions AS s
LEFT JOIN (
  SELECT
    session_id,
    count(*) AS n,
    max(seq) AS top
  FROM chat_messages
  GROUP BY 1
) AS m ON m.session_id = s.id
WHERE
  coalesce(m.n, 0) <> s.last_seq
  OR coalesce(m.top, 0) <> s.last_seq;


-- rule: a session has the seq of each side's newest message
-- proves: I1
-- reads: whole tables
-- returns: sessions whose customer_sent_seq or mitra_sent_seq differs from the messages.
SELECT
  s.id::text,
  format(
    'customer %s, mitra %s; stored: %s, %s',
    s.customer_sent_seq,
    s.mitra_sent_seq,
    coalesce(m.customer, 0),
    coalesce(m.mitra, 0)
  )
FROM chat_sessions AS s
LEFT JOIN (
  SELECT
    session_id,
    coalesce(max(seq) FILTER (WHERE sender_type = 'customer'), 0) AS customer,
    coalesce(max(seq) FILTER (WHERE sender_type = 'mitra'), 0) AS mitra
  FROM chat_messages
  GROUP BY 1
) AS m ON m.session_id = s.id
WHERE (s.customer_sent_seq, s.mitra_sent_seq) <> (coalesce(m.customer, 0), coalesce(m.mitra, 0));


-- rule: a text is empty if its session was blanked, and only then
-- proves: docs/product.md#blanked-sessions
-- reads: whole tables
-- returns: messages and goodbyes without a text in a session that was not blanked; and those with a text, or messages
-- with metadata, in one whose blanking is finished. Elsewhere every text has at least one character.
SELECT
  m.id::text,
  format('message %s of %s, blanked at %s', m.seq, m.session_id, s.blanked_at)
FROM chat_messages AS m
JOIN chat_sessions AS s ON s.id = m.session_id
WHERE
  m.content = '' AND s.blanked_at IS NULL
  OR (m.content <> '' OR m.metadata IS NOT NULL) AND s.blanked_at IS NOT NULL AND s.blanked_seq IS NULL
UNION ALL
SELECT
  c.id::text,
  format('goodbye of the %s of %s, blanked at %s', c.user_type, c.session_id, s.blanked_at)
FROM session_closures AS c
JOIN chat_sessions AS s ON s.id = c.session_id
WHERE (c.message = '') <> (s.blanked_at IS NOT NULL);


-- rule: a message is from a party of the session
-- proves: docs/product.md#paid-time
-- reads: whole tables
-- returns: messages of a sender who is not the session's customer or mitra.
SELECT
  m.id::text,
  format('%s %s in %s', m.sender_type, m.sender_id, m.session_id)
FROM chat_messages AS m
JOIN chat_sessions AS s ON s.id = m.session_id
WHERE
  m.sender_id
  IS DISTINCT FROM CASE m.sender_type WHEN 'customer' THEN s.customer_id WHEN 'mitra' THEN s.mitra_id END;


-- rule: messages are within the paid time
-- proves: I1 docs/product.md#paid-time
-- reads: whole tables
-- returns: messages of sessions that never paired, and messages from before the pairing or after the paid time.
SELECT
  m.id::text,
  format(
    'seq %s of %s: %s',
    m.seq,
    m.session_id,
    CASE
      WHEN s.paired_at IS NULL THEN 'never paired'
      WHEN m.created_at < s.paired_at THEN 'before the pairing'
      ELSE 'after the paid time'
    END
  )
FROM chat_messages AS m
JOIN chat_sessions AS s ON s.id = m.session_id
WHERE
  s.paired_at IS NULL
  OR m.created_at < s.paired_at
  OR m.created_at > s.expires_at;


-- rule: messages are in the order of their times
-- proves: I2
-- reads: whole tables
-- returns: messages that are older than the one before them by more than a second. Each time is read while the session
-- is locked, so only a database clock that is set back breaks the order, as after a failover to a server whose clock
-- is behind; steps of a second or more trigger a separate alarm. The rule joins neighbours, because sorting all
-- messages costs six times as much. Another rule finds gaps.
SELECT
  m.id::text,
  format('seq %s of %s', m.seq, m.session_id)
FROM chat_messages AS before
JOIN chat_messages AS m ON m.session_id = before.session_id AND m.seq = before.seq + 1
WHERE m.created_at < before.created_at - interval '1 second';


-- rule: a read marker is at most its delivered marker, and that at most the last seq
-- proves: I1
-- reads: whole tables
-- returns: sessions with a marker that is ahead of another, or that has no timestamp, or a timestamp without a marker.
SELECT
  id::text,
  format(
    '%s messages; customer %s/%s, mitra %s/%s, pushed %s/%s',
    last_seq,
    customer_delivered_seq,
    customer_read_seq,
    mitra_delivered_seq,
    mitra_read_seq,
    customer_pushed_seq,
    mitra_pushed_seq
  )
FROM chat_sessions
WHERE
  greatest(customer_delivered_seq, mitra_delivered_seq, customer_pushed_seq, mitra_pushed_seq) > last_seq
  OR customer_read_seq > customer_delivered_seq
  OR mitra_read_seq > mitra_delivered_seq
  OR (customer_delivered_seq > 0) <> (customer_delivered_at IS NOT NULL)
  OR (customer_read_seq > 0) <> (customer_read_at IS NOT NULL)
  OR (mitra_delivered_seq > 0) <> (mitra_delivered_at IS NOT NULL)
  OR (mitra_read_seq > 0) <> (mitra_read_at IS NOT NULL);


-- rule: a message's status is not ahead of its session's read markers
-- proves: I1
-- reads: whole tables
-- returns: messages whose status, timestamps and session's markers disagree. A message's own columns are updated
-- shortly after the markers, never before.
SELECT
  m.id::text,
  format('%s, seq %s of %s: ', m.status, m.seq, m.session_id) || concat_ws(
    ', ',
    CASE WHEN m.status <> x.by_times THEN 'its times say ' || x.by_times END,
    CASE WHEN m.read_at IS NOT NULL AND m.delivered_at IS NULL THEN 'read and not delivered' END,
    CASE WHEN m.delivered_at IS NOT NULL AND m.seq > x.delivered_seq THEN 'delivered ahead of the marker' END,
    CASE WHEN m.read_at IS NOT NULL AND m.seq > x.read_seq THEN 'read ahead of the marker' END
  )
FROM chat_messages AS m
JOIN chat_sessions AS s ON s.id = m.session_id
CROSS JOIN
  LATERAL (
    SELECT
      CASE WHEN m.read_at IS NOT NULL THEN 'read' WHEN m.delivered_at IS NOT NULL THEN 'delivered' ELSE 'sent' END
        AS by_times,
      CASE m.sender_type WHEN 'customer' THEN s.mitra_delivered_seq ELSE s.customer_delivered_seq END AS delivered_seq,
      CASE m.sender_type WHEN 'customer' THEN s.mitra_read_seq ELSE s.customer_read_seq END AS read_seq
  ) AS x
WHERE
  m.status <> x.by_times
  OR m.read_at IS NOT NULL AND m.delivered_at IS NULL
  OR m.delivered_at IS NOT NULL AND m.seq > x.delivered_seq
  OR m.read_at IS NOT NULL AND m.seq > x.read_seq;


-- rule: a completed session has a receipt that agrees with it
-- proves: docs/fairness.md#receipt
-- reads: whole tables
-- returns: sessions completed since the first receipt without one, and signed receipts with other numbers than the
-- database. Past sessions that were made up for development have no payment and no receipt.
SELECT
  s.id::text,
  CASE WHEN r.id IS NULL THEN 'no receipt' ELSE format('%s; %s messages', r.body, s.last_seq) END
FROM chat_sessions AS s
LEFT JOIN session_receipts AS r ON r.session_id = s.id
LEFT JOIN (
  SELECT
    session_id,
    sum(milliseconds) AS milliseconds
  FROM session_time_credits
  GROUP BY 1
) AS c ON c.session_id = s.id
CROSS JOIN LATERAL (SELECT r.body::jsonb AS says) AS b
WHERE
  s.status = 'completed'
  AND CASE
    WHEN r.id IS NULL
      THEN s.payment_request_id IS NOT NULL AND s.ended_at > (SELECT min(completed_at) FROM session_receipts)
    WHEN r.body IS NULL THEN false
    ELSE
      b.says ->> 'session_id' <> s.id::text
      OR (b.says ->> 'messages')::int <> s.last_seq
      OR (b.says ->> 'seconds_paid')::int <> (s.duration_minutes + s.extended_minutes) * 60
      OR (b.says ->> 'seconds_credited')::int <> coalesce(c.milliseconds, 0) / 1000
      OR (b.says ->> 'completed_at')::timestamptz <> s.ended_at
  END;


-- rule: a receipt is of a completed session
-- proves: docs/fairness.md#receipt
-- reads: whole tables
-- returns: receipts of sessions in another state.
SELECT
  s.id::text,
  s.status
FROM session_receipts AS r
JOIN chat_sessions AS s ON s.id = r.session_id
WHERE s.status <> 'completed';
