-- name: recorded
-- Which of these invoices and refunds ($1) have a row in the log of calls that shows operators what is odd about them.
SELECT DISTINCT w.gateway_invoice_id
FROM webhook_logs AS w
WHERE
  w.gateway_invoice_id = ANY($1)
  AND w.token_valid
  AND (w.processing_result = 'conflict' OR w.processing_error LIKE 'overpaid by %');
