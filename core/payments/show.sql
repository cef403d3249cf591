-- name: development_page
-- What the development payment page shows of the payment request $1.
SELECT
  id AS payment_request_id,
  status,
  amount,
  duration_minutes,
  mode,
  gateway_invoice_id
FROM payment_requests
WHERE id = $1;
