-- name: ever_paid
-- Whether an account ($1: the caller's ids) has ever paid more than 0.
SELECT 1
FROM payment_requests
WHERE customer_id = ANY($1) AND confirmed_at IS NOT NULL AND amount > 0
LIMIT 1;

-- name: asked_by_account
-- The invoice of an account since $2 that has $3 newer ones.
SELECT asked_at
FROM invoices_asked
WHERE customer_id = ANY($1) AND asked_at > $2
ORDER BY asked_at DESC
LIMIT 1 OFFSET $3;

-- name: asked_by_address
-- The invoice of an address since $2 that has $3 newer ones, of accounts that had paid before ($4) or had not.
SELECT asked_at
FROM invoices_asked
WHERE address = $1 AND asked_at > $2 AND has_paid = $4
ORDER BY asked_at DESC
LIMIT 1 OFFSET $3;
