-- name: active
-- The active mitras with one of the phones $1.
SELECT
  phone,
  display_name
FROM mitras
WHERE phone = ANY($1::text[]) AND is_active
ORDER BY phone;
