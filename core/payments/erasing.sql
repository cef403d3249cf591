-- name: had_discount
-- Whether a request with the discount was ever paid.
SELECT EXISTS(
  SELECT 1
  FROM payment_requests
  WHERE customer_id = ANY($1::uuid[]) AND is_first_session_discount AND confirmed_at IS NOT NULL
);

-- name: external_ids
-- The requests of customers with their invoices, and their failures and refunds, which the gateway names.
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
WHERE customer_id = ANY($1::uuid[])
UNION ALL
SELECT
  unnest(array_append(r.earlier_references, coalesce(r.reference, r.id)))::text,
  NULL
FROM refunds AS r
JOIN payment_requests AS p ON p.id = r.payment_request_id
WHERE p.customer_id = ANY($1::uuid[]);
