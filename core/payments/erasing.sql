-- name: blank_topics
-- Erase the topics of customers' requests. They are locked in the order of their ids.
UPDATE payment_requests
SET topics = NULL
WHERE
  id = ANY(ARRAY(
    SELECT id
    FROM payment_requests
    WHERE customer_id = ANY($1::uuid[]) AND topics IS NOT NULL
    ORDER BY id
    FOR NO KEY UPDATE
  ));

-- name: had_discount
-- Whether a request with the discount was ever paid.
SELECT EXISTS(
  SELECT 1
  FROM payment_requests
  WHERE customer_id = ANY($1::uuid[]) AND is_first_session_discount AND confirmed_at IS NOT NULL
);

-- name: external_ids
-- The requests of customers with their invoices.
SELECT
  id::text,
  gateway_invoice_id AS invoice
FROM payment_requests
WHERE customer_id = ANY($1::uuid[]);
