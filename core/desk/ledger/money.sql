-- rule: a paid request is in exactly one place
-- proves: I3 I4
-- reads: whole tables
-- returns: payment requests whose money is in no place or in several, or whose amount there differs.
SELECT
  p.id::text,
  format(
    '%s with %s transactions, %s failures, %s chats',
    p.status,
    coalesce(t.n, 0),
    coalesce(f.n, 0),
    coalesce(s.n, 0) + coalesce(e.n, 0)
  )
FROM payment_requests AS p
LEFT JOIN (
  SELECT
    payment_request_id AS id,
    count(*) AS n,
    sum(amount) AS amount
  FROM customer_transactions
  WHERE type <> 'refund'
  GROUP BY 1
) AS t ON t.id = p.id
LEFT JOIN (
  SELECT
    payment_request_id AS id,
    count(*) AS n,
    sum(amount) AS amount
  FROM pairing_failures
  WHERE superseded_at IS NULL
  GROUP BY 1
) AS f ON f.id = p.id
LEFT JOIN (
  SELECT
    payment_request_id AS id,
    count(*) AS n
  FROM chat_sessions
  WHERE paired_at IS NOT NULL
  GROUP BY 1
) AS s ON s.id = p.id
LEFT JOIN (
  SELECT
    payment_request_id AS id,
    count(*) AS n
  FROM session_extensions
  WHERE is_earning(status)
  GROUP BY 1
) AS e ON e.id = p.id
WHERE NOT CASE p.status
  WHEN 'consumed'
    THEN coalesce(t.n, 0) = 1 AND t.amount = p.amount AND f.n IS NULL AND coalesce(s.n, 0) + coalesce(e.n, 0) = 1
  WHEN 'failed_pairing'
    THEN t.n IS NULL AND coalesce(f.n, 0) = 1 AND f.amount = p.amount AND s.n IS NULL AND e.n IS NULL
  ELSE t.n IS NULL AND f.n IS NULL AND s.n IS NULL AND e.n IS NULL
END;


-- rule: confirmed money is earned, failed or in flight
-- proves: I4
-- reads: whole tables
-- returns: one row with the difference, in Rupiah, if the first is not the sum of the others.
SELECT
  'all',
  format('off by %s', a - b - c - d)
FROM (
  SELECT
    (
      SELECT coalesce(sum(amount), 0) FROM payment_requests
      WHERE confirmed_at IS NOT NULL
    ) a,
    (
      SELECT coalesce(sum(amount), 0)
      FROM customer_transactions
      WHERE payment_request_id IS NOT NULL AND type <> 'refund'
    ) b,
    (
      SELECT coalesce(sum(amount), 0) FROM pairing_failures
      WHERE superseded_at IS NULL
    ) c,
    (
      SELECT coalesce(sum(amount), 0) FROM payment_requests
      WHERE status = 'confirmed'
    ) d
) AS x
WHERE a <> b + c + d;


-- rule: a transaction matches its payment request and its session
-- proves: I4
-- reads: whole tables
-- returns: transactions whose customer, type or session differs from that of the payment request.
SELECT
  t.id::text,
  format('%s of payment request %s: another ', t.type, p.id) || concat_ws(
    ', ',
    CASE WHEN t.customer_id <> p.customer_id THEN 'customer' END,
    CASE WHEN t.type <> 'refund' AND (t.type = 'extension') <> p.is_extension THEN 'type' END,
    CASE
      WHEN
        p.is_extension AND p.extends_session_id IS DISTINCT FROM t.session_id
        OR NOT p.is_extension AND s.payment_request_id IS DISTINCT FROM p.id
        THEN 'session'
    END
  )
FROM customer_transactions AS t
JOIN payment_requests AS p ON p.id = t.payment_request_id
JOIN chat_sessions AS s ON s.id = t.session_id
WHERE
  t.customer_id <> p.customer_id
  OR t.type <> 'refund' AND t.type <> CASE WHEN p.is_extension THEN 'extension' ELSE 'session' END
  OR (CASE WHEN p.is_extension THEN p.extends_session_id ELSE s.id END) IS DISTINCT FROM t.session_id
  OR NOT p.is_extension AND s.payment_request_id IS DISTINCT FROM p.id;


-- rule: a session matches its payment request
-- proves: I3
-- reads: whole tables
-- returns: sessions whose customer, mode, price, minutes or discount differs from what was paid.
SELECT
  s.id::text,
  format(
    '%s min %s for %s; paid: %s min %s for %s',
    s.duration_minutes,
    s.mode,
    s.price,
    p.duration_minutes,
    p.mode,
    p.amount
  ) || concat(
    CASE WHEN p.is_extension THEN ', for an extension' END,
    CASE WHEN s.customer_id <> p.customer_id THEN ', by another customer' END,
    CASE WHEN s.is_first_session_discount <> p.is_first_session_discount THEN ', with another discount' END
  )
FROM chat_sessions AS s
JOIN payment_requests AS p ON p.id = s.payment_request_id
WHERE
  p.is_extension
  OR s.customer_id <> p.customer_id
  OR s.mode <> p.mode
  OR s.price <> p.amount
  OR s.duration_minutes IS DISTINCT FROM p.duration_minutes
  OR s.is_first_session_discount <> p.is_first_session_discount AND NOT is_unpaired(s.status);


-- rule: a searching session has a confirmed payment request
-- proves: I3
-- reads: open work
-- returns: searching sessions with an unpaid or used payment request, or without one.
SELECT
  s.id::text,
  coalesce(p.status, 'no payment request')
FROM chat_sessions AS s
LEFT JOIN payment_requests AS p ON p.id = s.payment_request_id
WHERE s.status = 'searching' AND p.status IS DISTINCT FROM 'confirmed';


-- rule: a failed or cancelled search has a pairing failure
-- proves: I3
-- reads: whole tables
-- returns: payment requests with more failed and cancelled searches than failures.
SELECT
  s.id::text,
  format('%s searches ended, %s failures', s.n, coalesce(f.n, 0))
FROM (
  SELECT
    payment_request_id AS id,
    count(*) AS n
  FROM chat_sessions
  WHERE is_unpaired(status)
  GROUP BY 1
) AS s
LEFT JOIN (
  SELECT
    payment_request_id AS id,
    count(*) AS n
  FROM pairing_failures
  GROUP BY 1
) AS f ON f.id = s.id
WHERE s.id IS NOT NULL AND s.n > coalesce(f.n, 0);


-- rule: a pairing failure matches its payment request
-- proves: I3 docs/product.md#cause-tags
-- reads: whole tables
-- returns: failures whose customer, kind of request or targeted mitra does not fit their cause tag, and short payments
-- of more than the request has, or of a request that asked for no more.
SELECT
  f.id::text,
  format('%s of %s request %s: ', f.cause_tag, CASE WHEN p.is_extension THEN 'extension' ELSE 'ordinary' END, p.id)
  || concat_ws(
    ', ',
    CASE WHEN f.customer_id <> p.customer_id THEN 'another customer' END,
    CASE
      WHEN f.cause_tag <> 'payment_short' AND starts_with(f.cause_tag, 'extension_') <> p.is_extension
        THEN 'a cause of the other kind'
    END,
    CASE
      WHEN f.cause_tag = 'payment_short' AND f.superseded_at IS NULL AND p.asked_amount IS NULL
        THEN 'the request asked for no more'
    END,
    CASE WHEN f.cause_tag = 'payment_short' AND f.amount > p.amount THEN 'more than the request has' END,
    CASE WHEN f.sub_cause = 'double' AND f.twin_id IS NULL THEN 'no other request' END,
    CASE
      WHEN starts_with(f.cause_tag, 'targeted_') AND f.targeted_mitra_id IS NULL THEN 'no targeted mitra'
    END,
    CASE
      WHEN NOT (starts_with(f.cause_tag, 'targeted_') OR f.cause_tag = 'payment_short') AND f.superseded_at IS NOT NULL
        THEN 'superseded'
    END
  )
FROM pairing_failures AS f
JOIN payment_requests AS p ON p.id = f.payment_request_id
WHERE
  f.customer_id <> p.customer_id
  OR f.cause_tag <> 'payment_short' AND starts_with(f.cause_tag, 'extension_') <> p.is_extension
  OR f.cause_tag = 'payment_short' AND f.superseded_at IS NULL AND p.asked_amount IS NULL
  OR f.cause_tag = 'payment_short' AND f.amount > p.amount
  OR f.sub_cause = 'double' AND f.twin_id IS NULL
  OR starts_with(f.cause_tag, 'targeted_') AND f.targeted_mitra_id IS NULL
  OR NOT (starts_with(f.cause_tag, 'targeted_') OR f.cause_tag = 'payment_short') AND f.superseded_at IS NOT NULL;


-- rule: a refund matches its failure
-- proves: I3 I4 docs/product.md#refunds
-- reads: whole tables
-- returns: refunds whose amount is not that of the failure; open and succeeded ones, and failed ones that may have paid
-- the customer, whose payment is not failed, whose failure is superseded, or whose money is in the ledger; open ones
-- with an operator's action; and succeeded ones that are not the action of their failure.
SELECT
  r.id::text,
  format(
    '%s of %s, its failure: %s of %s, its payment request: %s',
    r.status,
    r.amount,
    coalesce(f.operator_action, 'open'),
    f.amount,
    p.status
  ) || concat(
    CASE WHEN r.payment_request_id <> p.id THEN ', which is another' END,
    CASE WHEN f.superseded_at IS NOT NULL THEN ', superseded' END,
    CASE WHEN t.id IS NOT NULL THEN ', in the ledger' END,
    CASE WHEN f.actioned_by <> r.requested_by THEN ', by another operator' END
  )
FROM refunds AS r
JOIN pairing_failures AS f ON f.id = r.failure_id
JOIN payment_requests AS p ON p.id = f.payment_request_id
LEFT JOIN customer_transactions AS t ON t.payment_request_id = p.id
WHERE
  r.amount <> f.amount
  OR r.payment_request_id <> p.id
  OR (
    r.status IN ('requested', 'pending', 'succeeded')
    OR r.failure_code IN ('MAXIMUM_REFUND_AMOUNT_REACHED', 'AMOUNT_DIFFERS')
  )
  AND (f.superseded_at IS NOT NULL OR p.status <> 'failed_pairing' OR t.id IS NOT NULL)
  OR is_open_refund(r.status) AND f.operator_action IS NOT NULL
  OR r.status = 'succeeded'
  AND (f.operator_action IS DISTINCT FROM 'refunded' OR f.actioned_by IS DISTINCT FROM r.requested_by);


-- rule: earned money goes back at most once
-- proves: I3 I4 docs/product.md#making-good
-- reads: whole tables
-- returns: payment requests with refunds of earned money that were not earned, whose open and succeeded refunds are
-- together more than the amount, or whose succeeded refunds are not the refunds in the ledger, one for one.
SELECT
  coalesce(r.id, t.id)::text,
  format('%s of %s: refunds %s, done %s, in the ledger %s', p.status, p.amount, r.amount, r.done, t.amount)
FROM (
  SELECT
    payment_request_id AS id,
    coalesce(sum(amount) FILTER (WHERE status <> 'failed'), 0) AS amount,
    coalesce(sum(amount) FILTER (WHERE status = 'succeeded'), 0) AS done,
    count(*) FILTER (WHERE status = 'succeeded') AS n
  FROM refunds
  WHERE failure_id IS NULL
  GROUP BY 1
) AS r
FULL JOIN (
  SELECT
    t.payment_request_id AS id,
    -sum(t.amount) AS amount,
    count(s.id) AS n
  FROM customer_transactions AS t
  LEFT JOIN refunds AS s
    ON
      s.id = t.refund_id
      AND s.payment_request_id = t.payment_request_id
      AND s.status = 'succeeded'
      AND s.failure_id IS NULL
      AND s.amount = -t.amount
  WHERE t.type = 'refund'
  GROUP BY 1
) AS t ON t.id = r.id
LEFT JOIN payment_requests AS p ON p.id = coalesce(r.id, t.id)
WHERE
  p.status IS DISTINCT FROM 'consumed'
  OR coalesce(r.amount, 0) > p.amount
  OR coalesce(r.done, 0) <> coalesce(t.amount, 0)
  OR coalesce(r.n, 0) <> coalesce(t.n, 0);


-- rule: an extension matches its payment request
-- proves: I3 docs/product.md#extensions
-- reads: whole tables
-- returns: extensions whose session, customer, mode, minutes or price differs from what was paid.
SELECT
  e.id::text,
  format(
    '%s min %s for %s; paid: %s min %s for %s',
    e.requested_duration_minutes,
    s.mode,
    e.requested_price,
    p.duration_minutes,
    p.mode,
    p.amount
  ) || concat(
    CASE WHEN p.extends_session_id IS DISTINCT FROM e.session_id THEN ', of another session' END,
    CASE WHEN p.customer_id <> s.customer_id THEN ', by another customer' END
  )
FROM session_extensions AS e
JOIN payment_requests AS p ON p.id = e.payment_request_id
JOIN chat_sessions AS s ON s.id = e.session_id
WHERE
  p.extends_session_id IS DISTINCT FROM e.session_id
  OR p.customer_id <> s.customer_id
  OR p.mode <> s.mode
  OR e.requested_duration_minutes <> p.duration_minutes
  OR e.requested_price <> p.amount;


-- rule: an extension and its payment request agree
-- proves: I3 I4
-- reads: whole tables
-- returns: extensions whose payment request is in another state, or failed with another cause, than their own state
-- implies.
SELECT
  e.id::text,
  format('%s, its payment request is %s %s', e.status, p.status, f.cause_tag)
FROM session_extensions AS e
JOIN payment_requests AS p ON p.id = e.payment_request_id
LEFT JOIN pairing_failures AS f ON f.payment_request_id = p.id AND f.superseded_at IS NULL
WHERE p.status <> CASE e.status
  WHEN 'pending' THEN 'confirmed'
  WHEN 'approved' THEN 'consumed'
  WHEN 'auto_approved' THEN 'consumed'
  ELSE 'failed_pairing'
END
OR e.status IN ('rejected', 'safeguard_tripped') AND f.cause_tag <> 'extension_' || e.status;


-- rule: a pending extension has an active or expired session
-- proves: I3 docs/product.md#extensions
-- reads: open work
-- returns: pending extensions, and pending requests to pay for one, of sessions in any other state.
SELECT
  e.id::text,
  'its session is ' || s.status
FROM session_extensions AS e
JOIN chat_sessions AS s ON s.id = e.session_id
WHERE e.status = 'pending' AND NOT is_held(s.status)
UNION ALL
SELECT
  p.id::text,
  'its session is ' || s.status
FROM payment_requests AS p
JOIN chat_sessions AS s ON s.id = p.extends_session_id
WHERE p.status = 'pending' AND NOT is_held(s.status);


-- rule: a session's extended minutes are those approved
-- proves: I3
-- reads: whole tables
-- returns: sessions whose extended minutes are not the sum of their approved extensions.
SELECT
  s.id::text,
  format('%s extended, %s approved', s.extended_minutes, coalesce(e.minutes, 0))
FROM chat_sessions AS s
LEFT JOIN (
  SELECT
    session_id,
    sum(requested_duration_minutes) AS minutes
  FROM session_extensions
  WHERE is_earning(status)
  GROUP BY 1
) AS e ON e.session_id = s.id
WHERE s.extended_minutes <> coalesce(e.minutes, 0);


-- rule: a session ends exactly after its paid time
-- proves: I3 I7
-- reads: whole tables
-- returns: sessions that end before or after the minutes that were paid and the time that was credited. An extension of
-- an expired session starts when it is approved, so the end may be later than the sum of the minutes.
SELECT
  s.id::text,
  format(
    'paired %s, %s min and %s more, credited %s, ends %s',
    s.paired_at,
    s.duration_minutes,
    coalesce(e.minutes, 0),
    c.credited,
    s.expires_at
  )
FROM chat_sessions AS s
LEFT JOIN (
  SELECT
    session_id,
    sum(requested_duration_minutes)::int AS minutes,
    max(responded_at) AS newest
  FROM session_extensions
  WHERE is_earning(status)
  GROUP BY 1
) AS e ON e.session_id = s.id
LEFT JOIN (
  SELECT
    session_id,
    sum(milliseconds) * interval '1 millisecond' AS length
  FROM session_time_credits
  GROUP BY 1
) AS t ON t.session_id = s.id
CROSS JOIN
  LATERAL (
    SELECT coalesce(t.length, interval '0') AS credited
  ) AS c
WHERE
  s.expires_at < s.paired_at + make_interval(mins => s.duration_minutes + coalesce(e.minutes, 0)) + c.credited
  OR s.expires_at > greatest(
    s.paired_at + make_interval(mins => s.duration_minutes + coalesce(e.minutes, 0)),
    e.newest + make_interval(mins => e.minutes)
  ) + c.credited;


-- rule: no moment of a session is credited twice
-- proves: docs/fairness.md#fair-clock
-- reads: whole tables
-- returns: sessions whose credits are longer than the time that they lost, by more than the rounding of each.
SELECT
  c.session_id::text,
  format('credited %s ms, lost %s ms', c.credited, lost.milliseconds)
FROM (
  SELECT
    session_id,
    count(*) AS credits,
    sum(milliseconds) AS credited,
    range_agg(tstzrange(began_at, ended_at)) AS parts
  FROM session_time_credits
  GROUP BY session_id
) AS c
CROSS JOIN
  LATERAL (
    SELECT (extract(EPOCH FROM sum(upper(r.part) - lower(r.part))) * 1000)::int AS milliseconds
    FROM unnest(c.parts) AS r (part)
  ) AS lost
WHERE c.credited > lost.milliseconds + c.credits;


-- rule: a consumed payment request had a listed price
-- proves: docs/product.md#tiers
-- reads: whole tables
-- returns: consumed payment requests for which no price in the histories fits. The histories have every price since
-- they began; older payment requests are not checked.
WITH listed AS MATERIALIZED (
  SELECT
    false AS discount,
    after ->> 'mode' AS mode,
    (after ->> 'minutes')::int AS minutes,
    (after ->> 'price_idr')::int AS price
  FROM pricing_tiers_history
  WHERE after IS NOT NULL
  UNION
  SELECT
    true,
    m.mode,
    (after ->> 'duration_minutes')::int,
    (after ->> 'price_idr')::int
  FROM pricing_promotions_history, jsonb_array_elements_text(after -> 'modes') AS m (mode)
  WHERE after IS NOT NULL
)

SELECT
  p.id::text,
  format('%s min %s for %s', p.duration_minutes, p.mode, p.amount)
FROM payment_requests AS p
WHERE
  p.status = 'consumed'
  AND p.created_at >= (SELECT min(changed_at) FROM pricing_tiers_history)
  AND NOT EXISTS (
    SELECT 1
    FROM listed AS l
    WHERE
      l.discount = p.is_first_session_discount
      AND l.mode = p.mode
      AND l.minutes = p.duration_minutes
      AND l.price = coalesce(p.asked_amount, p.amount)
  );


-- rule: a discounted session is the customer's first
-- proves: I15
-- reads: whole tables
-- returns: sessions with the first-session discount that the customer paired after another one. Sessions without a
-- payment request were made before payments existed, or as development data.
SELECT
  s.id::text,
  format('paired %s, the first one %s', s.paired_at, f.first)
FROM chat_sessions AS s
JOIN (
  SELECT
    customer_id,
    min(paired_at) AS first
  FROM chat_sessions
  WHERE payment_request_id IS NOT NULL
  GROUP BY 1
) AS f ON f.customer_id = s.customer_id
WHERE s.is_first_session_discount AND s.paired_at > f.first;
