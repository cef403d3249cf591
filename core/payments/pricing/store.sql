-- name: past_of
-- The facts about a customer ($1: the caller's ids) that decide about the discount. Requests with a status in $2 count,
-- except $3.
SELECT
  EXISTS (
    SELECT 1
    FROM chat_sessions
    WHERE customer_id = ANY($1) AND paired_at IS NOT NULL
  ) OR EXISTS (
    SELECT 1
    FROM customers
    WHERE id = ANY($1) AND had_first_session
  ) AS ever_paired,
  EXISTS(
    SELECT 1
    FROM payment_requests
    WHERE
      customer_id = ANY($1)
      AND is_first_session_discount
      AND status = ANY($2)
      AND id IS DISTINCT FROM $3
  ) AS other_discounted_request,
  NOT EXISTS (
    SELECT 1
    FROM customers
    WHERE id = ANY($1) AND NOT is_anonymous
  ) AS anonymous;

-- name: seed_tier
-- Add a tier unless (mode, minutes) exists; return the row as JSON.
INSERT INTO pricing_tiers (id, mode, minutes, price_idr, tag, sort_order, created_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $7)
ON CONFLICT (mode, minutes) DO NOTHING
RETURNING to_jsonb(pricing_tiers) AS after;

-- name: seed_promotion
-- Add a promotion unless its key exists; return the row as JSON.
INSERT INTO pricing_promotions (
  id,
  key,
  enabled,
  price_idr,
  gimmick_price_idr,
  duration_minutes,
  modes,
  created_at,
  updated_at
)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8)
ON CONFLICT (key) DO NOTHING
RETURNING to_jsonb(pricing_promotions) AS after;
