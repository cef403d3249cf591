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
-- Who wrote in the paired sessions $1, without texts. $2 is now. Those of completed sessions were stored when their
-- receipts were signed; the messages of the others, which run or ended a few seconds ago, are read.
WITH stored AS MATERIALIZED (
  SELECT
    session_id,
    messages_by_customer,
    messages_by_mitra,
    first_reply_seconds,
    longest_silence_seconds
  FROM session_receipts
  WHERE session_id = ANY($1::uuid[]) AND messages_by_customer IS NOT NULL
)

SELECT *
FROM stored
UNION ALL
SELECT
  one.id,
  w.*
FROM unnest($1::uuid[]) AS one (id)
CROSS JOIN LATERAL who_wrote(one.id, $2) AS w
WHERE one.id NOT IN (
  SELECT session_id
  FROM stored
);

-- name: paid_for
-- The payment request that paid for the session $1.
SELECT payment_request_id
FROM chat_sessions
WHERE id = $1;
