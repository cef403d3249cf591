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

-- name: blank_notes
-- Erase what operators wrote about the failures of customers.
UPDATE pairing_failures
SET note = NULL
WHERE customer_id = ANY($1::uuid[]) AND note IS NOT NULL;

-- name: blank_reasons
-- Erase what operators wrote about the refunds of customers.
UPDATE refunds
SET reason = NULL
WHERE
  reason IS NOT NULL
  AND failure_id IN (
    SELECT id
    FROM pairing_failures
    WHERE customer_id = ANY($1::uuid[])
  );

-- name: had_discount
-- Whether a request with the discount was ever paid.
SELECT EXISTS(
  SELECT 1
  FROM payment_requests
  WHERE customer_id = ANY($1::uuid[]) AND is_first_session_discount AND confirmed_at IS NOT NULL
);

-- name: external_ids
-- The requests of customers with their invoices, and their failures, which name refunds.
SELECT
  id::text,
  gateway_invoice_id AS invoice
FROM payment_requests
WHERE customer_id = ANY($1::uuid[])
UNION ALL
SELECT
  id::text,
  NULL
FROM pairing_failures
WHERE customer_id = ANY($1::uuid[]);
