-- rule: a joined customer is anonymous and signed out, and their account is neither anonymous nor joined
-- proves: I9 docs/product.md#merging-accounts
-- reads: whole tables
-- returns: joined customers who are not anonymous, whose account is anonymous or joined itself, or who are still
-- signed in.
SELECT
  c.id::text,
  format('belongs to %s: ', c.account_belongs_to) || concat_ws(
    ', ',
    CASE WHEN NOT c.is_anonymous THEN 'is not anonymous' END,
    CASE WHEN a.is_anonymous THEN 'the account is anonymous' END,
    CASE WHEN a.account_belongs_to IS NOT NULL THEN 'the account has joined another' END
  )
FROM customers AS c
JOIN customers AS a ON a.id = c.account_belongs_to
WHERE
  NOT c.is_anonymous
  OR a.is_anonymous
  OR a.account_belongs_to IS NOT NULL
UNION ALL
SELECT
  c.id::text,
  'has a living device'
FROM customers AS c
JOIN auth_sessions AS d ON d.user_id = c.id AND d.revoked_at IS NULL
WHERE c.account_belongs_to IS NOT NULL;


-- rule: an auth session has a user, and a revoked one has no push token
-- proves: I9 docs/product.md#devices
-- reads: whole tables
-- returns: auth sessions without a user, revoked ones with a push token, and those with a rotation or a previous token
-- only.
SELECT
  d.id::text,
  format('of %s %s: ', d.user_type, d.user_id) || concat_ws(
    ', ',
    CASE WHEN coalesce(c.id, m.id, o.id) IS NULL THEN 'no such user' END,
    CASE WHEN d.revoked_at IS NOT NULL AND d.push_token IS NOT NULL THEN 'revoked with a push token' END,
    CASE
      WHEN d.rotated_at IS NULL AND d.previous_token_hash IS NOT NULL THEN 'a previous token without a rotation'
      WHEN d.rotated_at IS NOT NULL AND d.previous_token_hash IS NULL THEN 'rotated without a previous token'
    END
  )
FROM auth_sessions AS d
LEFT JOIN customers AS c ON c.id = d.user_id AND d.user_type = 'customer'
LEFT JOIN mitras AS m ON m.id = d.user_id AND d.user_type = 'mitra'
LEFT JOIN control_center_users AS o ON o.id = d.user_id AND d.user_type = 'operator'
WHERE
  coalesce(c.id, m.id, o.id) IS NULL
  OR d.revoked_at IS NOT NULL AND d.push_token IS NOT NULL
  OR (d.previous_token_hash IS NULL) <> (d.rotated_at IS NULL);


-- rule: the attempts at a code are at most the highest limit so far
-- proves: I15
-- reads: whole tables
-- returns: codes with more attempts than any limit that was ever configured, or the default of 5.
SELECT
  id::text,
  format('%s tries', attempts)
FROM otp_requests
WHERE attempts > (
  SELECT max(allowed)
  FROM (
    SELECT 5 AS allowed
    UNION ALL
    SELECT (value ->> 'value')::int
    FROM app_config
    WHERE key = 'otp_verify_max_attempts'
    UNION ALL
    SELECT (before ->> 'value')::int
    FROM operator_audit_log
    WHERE object_id = 'otp_verify_max_attempts'
    UNION ALL
    SELECT (after ->> 'value')::int
    FROM operator_audit_log
    WHERE object_id = 'otp_verify_max_attempts'
  ) AS x
);


-- rule: a mitra has a presence row, and an inactive mitra is offline
-- proves: I6 docs/product.md#deactivation
-- reads: whole tables
-- returns: mitras without a row of presence, and inactive mitras who are online.
SELECT
  m.id::text,
  CASE WHEN o.mitra_id IS NULL THEN 'no presence' ELSE 'inactive and online' END
FROM mitras AS m
LEFT JOIN mitra_online_status AS o ON o.mitra_id = m.id
WHERE
  o.mitra_id IS NULL
  OR o.is_online AND NOT m.is_active;


-- rule: each change of presence has a log row
-- proves: docs/product.md#presence
-- reads: whole tables
-- returns: mitras whose presence is not the result of their log.
SELECT
  o.mitra_id::text,
  format('off by %s', coalesce(l.up - l.down, 0) - o.is_online::int)
FROM mitra_online_status AS o
LEFT JOIN (
  SELECT
    mitra_id,
    count(*) FILTER (WHERE status = 'online') AS up,
    count(*) FILTER (WHERE status = 'offline') AS down
  FROM mitra_online_logs
  GROUP BY 1
) AS l ON l.mitra_id = o.mitra_id
WHERE coalesce(l.up - l.down, 0) <> o.is_online::int;


-- rule: outages of one kind do not overlap
-- proves: docs/product.md#heartbeat
-- reads: whole tables
-- returns: outages that began before an earlier one of the same kind ended.
SELECT
  id::text,
  format('%s from %s to %s', kind, began_at, ended_at)
FROM (
  SELECT
    *,
    max(ended_at) OVER (PARTITION BY kind ORDER BY began_at ROWS UNBOUNDED PRECEDING EXCLUDE CURRENT ROW) AS before
  FROM outages
) AS o
WHERE before > began_at;


-- rule: an event has a recipient
-- proves: docs/events.md
-- reads: whole tables
-- returns: deliveries to a customer or mitra who does not exist.
SELECT
  d.id::text,
  format('%s for %s %s', d.event, d.recipient_type, d.recipient_id)
FROM deliveries AS d
LEFT JOIN customers AS c ON c.id = d.recipient_id AND d.recipient_type = 'customer'
LEFT JOIN mitras AS m ON m.id = d.recipient_id AND d.recipient_type = 'mitra'
WHERE c.id IS NULL AND m.id IS NULL;


-- rule: an idempotency key has an answer or a request in progress
-- proves: docs/invariants.md#rule-4
-- reads: whole tables
-- returns: keys with half an answer, and keys in progress without a payment request or a time of claim.
SELECT
  k.id::text,
  format('of %s: ', k.user_id) || concat_ws(
    ', ',
    CASE WHEN k.answer IS NULL AND k.http_status IS NOT NULL THEN 'a status without an answer' END,
    CASE WHEN k.answer IS NOT NULL AND k.http_status IS NULL THEN 'an answer without a status' END,
    CASE WHEN k.answer IS NULL AND p.id IS NULL THEN 'in progress without a payment request' END,
    CASE WHEN k.answer IS NULL AND k.claimed_real_at IS NULL THEN 'in progress without a claim' END
  )
FROM idempotency_keys AS k
LEFT JOIN payment_requests AS p ON p.id = k.resource_id
WHERE
  (k.answer IS NULL) <> (k.http_status IS NULL)
  OR k.answer IS NULL AND (p.id IS NULL OR k.claimed_real_at IS NULL);


-- rule: a webhook call has status and result together, and without a token no effect
-- proves: I10
-- reads: whole tables
-- returns: webhook calls with only one of both, and calls without a valid token that were accepted or replayed.
SELECT
  id::text,
  concat_ws(
    ', ',
    CASE WHEN http_status IS NOT NULL AND processing_result IS NULL THEN format('%s without a result', http_status) END,
    CASE
      WHEN http_status IS NULL AND processing_result IS NOT NULL THEN format('%s without a status', processing_result)
    END,
    CASE WHEN NOT token_valid AND http_status NOT IN (401, 500) THEN format('%s without a token', http_status) END,
    CASE WHEN NOT token_valid AND replay_of IS NOT NULL THEN format('replay of %s without a token', replay_of) END
  )
FROM webhook_logs
WHERE
  (http_status IS NULL) <> (processing_result IS NULL)
  OR NOT token_valid AND (http_status NOT IN (401, 500) OR replay_of IS NOT NULL);


-- rule: only calls above the limit are counted instead of stored
-- proves: I10
-- reads: whole tables
-- returns: rows that count no call; rows of counted calls that lack the body's hash and size, had a valid token or
-- have another result; rows of other calls with a hash or size whose body is not cut.
SELECT
  id::text,
  format('%s calls, %s: ', calls, processing_result) || concat_ws(
    ', ',
    CASE WHEN calls < 1 THEN 'counts none' END,
    CASE WHEN processing_result = 'flood' AND (body_sha256 IS NULL OR bytes IS NULL) THEN 'has no hash or size' END,
    CASE
      WHEN processing_result IS DISTINCT FROM 'flood' AND num_nulls(body_sha256, bytes) < 2 AND NOT truncated
        THEN 'has a hash or size of a whole body'
    END,
    CASE WHEN processing_result = 'flood' AND token_valid THEN 'counted with a valid token' END,
    CASE WHEN calls > 1 AND processing_result IS DISTINCT FROM 'flood' THEN 'counted with this result' END
  )
FROM webhook_logs
WHERE
  calls < 1
  OR processing_result = 'flood' AND (body_sha256 IS NULL OR bytes IS NULL)
  OR processing_result IS DISTINCT FROM 'flood' AND num_nulls(body_sha256, bytes) < 2 AND NOT truncated
  OR processing_result = 'flood' AND token_valid
  OR calls > 1 AND processing_result IS DISTINCT FROM 'flood';


-- rule: one webhook call confirms a payment
-- proves: I10 I4
-- reads: whole tables
-- returns: payment requests that several calls confirmed, or that are not confirmed in spite of one.
SELECT
  p.id::text,
  format('%s calls, request %s', w.n, p.status)
FROM payment_requests AS p
JOIN (
  SELECT
    lower(external_id) AS id,
    count(*) AS n
  FROM webhook_logs
  WHERE processing_result IN ('confirmed', 'paid_not_pairable', 'late_payment_recorded')
  GROUP BY 1
) AS w ON w.id = p.id::text
WHERE w.n > 1 OR p.confirmed_at IS NULL;


-- rule: an operator's action on a failure has one audit row
-- proves: I16
-- reads: whole tables
-- returns: failures with an operator's action and no audit row of it, or several; and those with a refund through the
-- gateway that the operator did not ask for, or that has a row as if it were recorded by hand.
SELECT
  f.id::text,
  format('%s audit rows', coalesce(a.n, 0))
FROM pairing_failures AS f
LEFT JOIN refunds AS r ON r.failure_id = f.id AND r.status = 'succeeded'
LEFT JOIN (
  SELECT
    object_id,
    operator_id,
    count(*) FILTER (WHERE action = 'failed_pairing.actioned') AS n,
    count(*) FILTER (WHERE action = 'failed_pairing.refund_requested') AS requests
  FROM operator_audit_log
  WHERE action IN ('failed_pairing.actioned', 'failed_pairing.refund_requested')
  GROUP BY 1, 2
) AS a ON a.object_id = f.id::text AND a.operator_id = f.actioned_by
WHERE
  f.actioned_by IS NOT NULL
  AND (
    coalesce(a.n, 0) <> CASE WHEN r.id IS NULL THEN 1 ELSE 0 END
    OR r.id IS NOT NULL AND coalesce(a.requests, 0) = 0
  );


-- rule: a refund of earned money has one audit row
-- proves: I16
-- reads: whole tables
-- returns: refunds of earned money with no audit row of the operator who asked for them or made them, or several.
SELECT
  r.id::text,
  format('%s audit rows', coalesce(a.n, 0))
FROM refunds AS r
LEFT JOIN (
  SELECT
    object_id,
    after ->> 'refund_id' AS refund_id,
    operator_id,
    count(*) AS n
  FROM operator_audit_log
  WHERE action IN ('payment.refund_requested', 'payment.refunded_by_hand')
  GROUP BY 1, 2, 3
) AS a ON a.refund_id = r.id::text AND a.object_id = r.payment_request_id::text AND a.operator_id = r.requested_by
WHERE r.failure_id IS NULL AND coalesce(a.n, 0) <> 1;


-- rule: an operator's change of a setting has one audit row
-- proves: I16
-- reads: whole tables
-- returns: settings whose last change by an operator has no audit row, or several.
SELECT
  c.key,
  format('set %s by %s', c.updated_at, c.updated_by)
FROM app_config AS c
WHERE
  c.updated_by IS NOT NULL
  AND (
    SELECT count(*)
    FROM operator_audit_log AS a
    WHERE
      a.object_id = c.key
      AND a.action = 'config.set'
      AND a.operator_id = c.updated_by
      AND a.created_at = c.updated_at
  ) <> 1;


-- rule: an operator's change of a price has one audit row
-- proves: I16
-- reads: whole tables
-- returns: changes of prices by an operator with no audit row, or several. A reorder of tiers is one write, however
-- many tiers it moves.
SELECT
  h.id::text,
  format('%s %s by %s', h.row_id, h.change_kind, h.changed_by)
FROM (
  SELECT
    id,
    pricing_tier_id AS row_id,
    change_kind,
    changed_by,
    -- A price that starts has the audit row of its schedule.
    CASE change_kind WHEN 'started' THEN (schedule ->> 'asked_at')::timestamptz ELSE changed_at END AS changed_at,
    after
  FROM pricing_tiers_history
  UNION ALL
  SELECT
    id,
    pricing_promotion_id,
    change_kind,
    changed_by,
    changed_at,
    after
  FROM pricing_promotions_history
) AS h
WHERE
  h.changed_by IS NOT NULL
  AND (
    SELECT count(*)
    FROM operator_audit_log AS a
    WHERE
      a.object_id = CASE h.change_kind WHEN 'reordered' THEN h.after ->> 'mode' ELSE h.row_id::text END
      AND a.operator_id = h.changed_by
      AND a.created_at = h.changed_at
  ) <> 1;


-- rule: a scheduled price is of an active tier
-- proves: docs/product.md#prices-at-a-time
-- reads: whole tables
-- returns: scheduled prices of deleted tiers.
SELECT
  s.id::text,
  format('tier %s, from %s', s.pricing_tier_id, s.starts_at)
FROM pricing_schedules AS s
JOIN pricing_tiers AS t ON t.id = s.pricing_tier_id
WHERE NOT t.is_active;


-- rule: a price's history is complete and ends with its current row
-- proves: I16
-- reads: whole tables
-- returns: prices without a history, whose newest history row differs from the price, or whose history has a gap. Only
-- columns that the history row has are compared: older rows lack the columns that were added later.
WITH history AS (
  SELECT
    pricing_tier_id AS id,
    change_kind,
    before,
    after
  FROM pricing_tiers_history
  UNION ALL
  SELECT
    pricing_promotion_id,
    change_kind,
    before,
    after
  FROM pricing_promotions_history
),

linked AS (
  SELECT
    *,
    lag(after) OVER w AS known,
    lead(after) OVER w IS NULL AS newest
  FROM history
  WINDOW w AS (PARTITION BY id ORDER BY (after ->> 'updated_at')::timestamptz)
),

present AS (
  SELECT
    id,
    to_jsonb(t) AS row
  FROM pricing_tiers AS t
  UNION ALL
  SELECT
    id,
    to_jsonb(t)
  FROM pricing_promotions AS t
)

SELECT
  p.id::text,
  CASE
    WHEN l.id IS NULL THEN 'no history'
    ELSE l.change_kind || ': ' || concat_ws(
      ', ',
      CASE WHEN l.newest AND NOT p.row @> l.after THEN 'the newest row is not the price' END,
      CASE
        WHEN l.known IS NULL AND l.before IS NOT NULL THEN 'the first row has one before'
        WHEN NOT coalesce(l.before @> l.known, l.known IS NULL) THEN 'a gap before it'
      END
    )
  END
FROM present AS p
LEFT JOIN linked AS l ON l.id = p.id
WHERE
  l.id IS NULL
  OR l.newest AND NOT p.row @> l.after
  OR l.known IS NOT NULL AND NOT coalesce(l.before @> l.known, false)
  OR l.known IS NULL AND l.before IS NOT NULL;


-- rule: a session that an operator ended has one audit row
-- proves: I16
-- reads: whole tables
-- returns: sessions that an operator ended with no audit row, or several.
SELECT
  s.id::text,
  format('%s audit rows', coalesce(a.n, 0))
FROM chat_sessions AS s
LEFT JOIN (
  SELECT
    object_id,
    count(*) AS n
  FROM operator_audit_log
  WHERE action = 'session.ended'
  GROUP BY 1
) AS a ON a.object_id = s.id::text
WHERE s.ended_by = 'operator' AND coalesce(a.n, 0) <> 1;


-- rule: a replayed call had a valid token, and its replay has one audit row
-- proves: I16
-- reads: whole tables
-- returns: replays of calls without a valid token or of other replays, and replays with no audit row, or several. A
-- call that is older than the oldest one may have been removed (docs/operating.md#retention).
SELECT
  w.id::text,
  format('replay of %s: ', w.replay_of) || concat_ws(
    ', ',
    CASE WHEN f.id IS NULL THEN 'which is missing' END,
    CASE WHEN NOT f.token_valid AND w.source <> 'poll' THEN 'which had no valid token' END,
    CASE WHEN f.replay_of IS NOT NULL THEN 'which is a replay' END,
    CASE WHEN coalesce(a.n, 0) <> 1 THEN format('%s audit rows', coalesce(a.n, 0)) END
  )
FROM webhook_logs AS w
LEFT JOIN webhook_logs AS f ON f.id = w.replay_of
LEFT JOIN (
  SELECT
    after ->> 'webhook_log_id' AS id,
    count(*) AS n
  FROM operator_audit_log
  WHERE action = 'webhook.replayed'
  GROUP BY 1
) AS a ON a.id = w.id::text
WHERE
  w.replay_of IS NOT NULL
  AND (
    f.id IS NULL AND w.replay_of > (
      SELECT id FROM webhook_logs
      ORDER BY id
      LIMIT 1
    )
    OR NOT f.token_valid AND w.source <> 'poll'
    OR f.replay_of IS NOT NULL
    OR coalesce(a.n, 0) <> 1
  );


-- rule: an erased user has no personal data and no device
-- proves: docs/privacy.md#erasure
-- reads: whole tables
-- returns: erased customers and mitras with an active auth session, erased mitras who are active or have their phone,
-- and completed erasures of customers whose sessions, or those of customers who joined them, have texts. audit_rules.py
-- adds the rows of erased users, and of their devices, that have personal data by the marks of their columns.
SELECT
  c.id::text,
  'has a living device'
FROM customers AS c
WHERE
  c.erased_at IS NOT NULL
  AND EXISTS (
    SELECT 1
    FROM auth_sessions AS d
    WHERE d.user_id = c.id AND d.revoked_at IS NULL
  )
UNION ALL
SELECT
  m.id::text,
  concat_ws(
    ', ',
    CASE WHEN m.is_active THEN 'is active' END,
    CASE WHEN m.phone NOT LIKE '#%' THEN 'has their phone' END,
    CASE WHEN d.is_living THEN 'has a living device' END
  )
FROM mitras AS m
CROSS JOIN
  LATERAL (
    SELECT count(*) > 0 AS is_living
    FROM auth_sessions AS s
    WHERE s.user_id = m.id AND s.revoked_at IS NULL
  ) AS d
WHERE m.erased_at IS NOT NULL AND (m.is_active OR m.phone NOT LIKE '#%' OR d.is_living)
UNION ALL
SELECT
  s.id::text,
  'texts of an erased customer'
FROM erasures AS e
JOIN customers AS c ON coalesce(c.account_belongs_to, c.id) = e.user_id
JOIN chat_sessions AS s ON s.customer_id = c.id
WHERE e.completed_at IS NOT NULL AND s.status = 'completed' AND (s.blanked_at IS NULL OR s.blanked_seq IS NOT NULL);


-- rule: a block belongs to an account and to a session of its two
-- proves: docs/product.md#blocks
-- reads: whole tables
-- returns: blocks of customers who have joined an account, and those whose session is of other people.
SELECT
  b.id::text,
  format('customer %s and mitra %s: ', b.customer_id, b.mitra_id) || concat_ws(
    ', ',
    CASE WHEN c.account_belongs_to IS NOT NULL THEN 'the customer has joined ' || c.account_belongs_to END,
    CASE WHEN o.id IS NULL THEN format('session %s is not of these two', b.session_id) END
  )
FROM blocks AS b
JOIN customers AS c ON c.id = b.customer_id
LEFT JOIN chat_sessions AS s ON s.id = b.session_id AND s.mitra_id = b.mitra_id
LEFT JOIN customers AS o ON o.id = s.customer_id AND b.customer_id IN (o.id, o.account_belongs_to)
WHERE c.account_belongs_to IS NOT NULL OR o.id IS NULL;


-- rule: two people are not paired after a block
-- proves: docs/product.md#blocks
-- reads: whole tables
-- returns: sessions that were paired while one party had blocked the other. Those of a customer who joined the account
-- later are left out: they may be older than the join.
SELECT
  s.id::text,
  format('paired at %s, blocked since %s', s.paired_at, b.holds_since)
FROM blocks AS b
JOIN chat_sessions AS s ON s.customer_id = b.customer_id AND s.mitra_id = b.mitra_id
WHERE s.paired_at > b.holds_since;


-- rule: a blocked account has no pending payment request
-- proves: docs/product.md#blocked-accounts
-- reads: whole tables
-- returns: pending requests of blocked accounts that were made before the end of the block.
SELECT
  p.id::text,
  'customer ' || p.customer_id
FROM payment_requests AS p
JOIN customers AS c ON c.id = p.customer_id
JOIN customers AS a ON a.id = coalesce(c.account_belongs_to, c.id)
WHERE
  p.status = 'pending'
  AND a.blocked_at IS NOT NULL
  AND (a.blocked_until IS NULL OR p.created_at < a.blocked_until);
