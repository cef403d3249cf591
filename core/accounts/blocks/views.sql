-- name: of_customer
-- The blocks of an account's customers ($1), with the names of the mitras.
SELECT
  b.session_id,
  m.display_name,
  b.created_at AS blocked_at
FROM blocks AS b
JOIN mitras AS m ON m.id = b.mitra_id
WHERE b.customer_id = ANY($1::uuid[]) AND b.blocked_by = 'customer';

-- name: of_mitra
-- The blocks of a mitra ($1), with the names of the customers.
SELECT
  b.session_id,
  c.display_name,
  b.created_at AS blocked_at
FROM blocks AS b
JOIN customers AS c ON c.id = b.customer_id
WHERE b.mitra_id = ANY($1::uuid[]) AND b.blocked_by = 'mitra';
