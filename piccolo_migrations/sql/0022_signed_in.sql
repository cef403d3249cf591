-- The auth session that the same device got when its anonymous customer signed in (docs/product.md#merging-accounts).
ALTER TABLE auth_sessions ADD COLUMN IF NOT EXISTS replaced_by UUID;
