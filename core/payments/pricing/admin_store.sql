-- name: tiers
-- All tiers, of one mode if $1 is given, also deleted ones.
SELECT
  id,
  mode,
  minutes,
  price_idr,
  tag,
  sort_order,
  is_active,
  updated_at
FROM pricing_tiers
WHERE $1::text IS NULL OR mode = $1
ORDER BY mode, sort_order, minutes;

-- name: lock_tiers
-- Lock tiers, in id order.
SELECT
  id,
  mode,
  minutes,
  price_idr,
  tag,
  sort_order,
  is_active,
  updated_at
FROM pricing_tiers
WHERE id = ANY($1::uuid[])
ORDER BY id
FOR UPDATE;

-- name: create_tier
-- Add a tier at position $6, or after the last one of its mode, unless (mode, minutes) exists; return the row as JSON.
INSERT INTO pricing_tiers (id, mode, minutes, price_idr, tag, sort_order, created_at, updated_at)
VALUES (
  $1,
  $2::text,
  $3,
  $4,
  $5,
  coalesce($6, (
    SELECT coalesce(max(sort_order) + 1, 0) FROM pricing_tiers
    WHERE mode = $2::text
  )),
  $7,
  $7
)
ON CONFLICT (mode, minutes) DO NOTHING
RETURNING to_jsonb(pricing_tiers) AS after;
