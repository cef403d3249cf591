-- name: customers
-- All customers.
SELECT
  c.id,
  c.phone,
  c.display_name,
  c.is_anonymous,
  c.email,
  array_remove(
    ARRAY[
      CASE WHEN c.identity_a_sub IS NOT NULL THEN 'a' END, CASE WHEN c.identity_b_sub IS NOT NULL THEN 'b' END
    ],
    NULL
  ) AS identities,
  c.push_token IS NOT NULL AS push_enabled,
  c.account_belongs_to,
  c.usp_seen,
  c.created_at
FROM customers AS c;

-- name: writing
-- Who wrote in the paired sessions $1, without texts. $2 is now. A silence ends with a message or with the paid time.
SELECT
  s.id AS session_id,
  w.by_customer,
  w.by_mitra,
  w.first_reply_seconds,
  greatest(
    w.longest_gap,
    floor(
      extract(
        EPOCH FROM least(coalesce(s.ended_at, $2::timestamptz), s.expires_at) - coalesce(w.newest_at, s.paired_at)
      )
    ),
    0
  )::int AS longest_silence_seconds
FROM chat_sessions AS s
CROSS JOIN
  LATERAL (
    SELECT
      count(*) FILTER (WHERE m.sender_type = 'customer')::int AS by_customer,
      count(*) FILTER (WHERE m.sender_type = 'mitra')::int AS by_mitra,
      floor(
        extract(EPOCH FROM min(m.created_at - m.asked_at) FILTER (WHERE m.sender_type = 'mitra'))
      )::int AS first_reply_seconds,
      floor(extract(EPOCH FROM max(m.created_at - m.before_at)))::int AS longest_gap,
      max(m.created_at) AS newest_at
    FROM (
      SELECT
        x.sender_type,
        x.created_at,
        lag(x.created_at, 1, s.paired_at) OVER (ORDER BY x.seq) AS before_at,
        min(x.created_at) FILTER (WHERE x.sender_type = 'customer') OVER (ORDER BY x.seq) AS asked_at
      FROM chat_messages AS x
      WHERE x.session_id = s.id AND x.sender_type <> 'system'
    ) AS m
  ) AS w
WHERE s.id = ANY($1) AND s.paired_at IS NOT NULL;

-- name: paid_for
-- The payment request that paid for the session $1.
SELECT payment_request_id
FROM chat_sessions
WHERE id = $1;
