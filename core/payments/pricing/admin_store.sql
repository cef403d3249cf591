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

-- name: schedules
-- The scheduled prices of the tiers $1, in order.
SELECT
  s.pricing_tier_id,
  s.id,
  s.price_idr,
  s.starts_at,
  s.asked_by,
  o.display_name AS operator_name,
  s.asked_at
FROM pricing_schedules AS s
JOIN control_center_users AS o ON o.id = s.asked_by
WHERE s.pricing_tier_id = ANY($1::uuid[])
ORDER BY s.starts_at;

-- name: add_schedule
-- Give the tier $2 the price $3 at $4, if it is on the price list and gets no other price in this minute.
INSERT INTO pricing_schedules (id, pricing_tier_id, price_idr, starts_at, asked_by, asked_at)
SELECT
  $1::uuid,
  id,
  $3::int,
  $4::timestamptz,
  $5::uuid,
  $6::timestamptz
FROM pricing_tiers
WHERE id = $2 AND is_active AND $4 > $6
ON CONFLICT DO NOTHING
RETURNING to_jsonb(pricing_schedules) AS schedule;

-- name: schedule_at
-- The schedule of the tier $1 in the minute of $2.
SELECT id
FROM pricing_schedules
WHERE
  pricing_tier_id = $1
  AND date_trunc('minute', starts_at AT TIME ZONE 'UTC') = date_trunc('minute', $2::timestamptz AT TIME ZONE 'UTC');

-- name: delete_schedule
-- Delete the schedule $2 of the tier $1.
DELETE FROM pricing_schedules
WHERE pricing_tier_id = $1 AND id = $2
RETURNING to_jsonb(pricing_schedules) AS schedule;

-- name: delete_schedules
-- Delete all schedules of the tier $1.
DELETE FROM pricing_schedules
WHERE pricing_tier_id = $1;

-- name: due_tier
-- The tier whose scheduled price was due first, until $1.
SELECT s.pricing_tier_id
FROM timed_work AS w
JOIN pricing_schedules AS s ON s.id = w.id
WHERE w.kind = 'price' AND w.due_at <= $1
ORDER BY w.due_at
LIMIT 1;

-- name: take_due
-- Delete the schedule of the tier $1 that was due first, until $2.
DELETE FROM pricing_schedules
WHERE
  id = (
    SELECT id
    FROM pricing_schedules
    WHERE pricing_tier_id = $1 AND starts_at <= $2
    ORDER BY starts_at
    LIMIT 1
  )
RETURNING
  price_idr,
  asked_by,
  to_jsonb(pricing_schedules) AS schedule;
