-- Rename mitras.display_name to name, second half: drop. It is in the release after the one of the first half, so no
-- process uses the old column. The CHECK spares PostgreSQL from reading the table for NOT NULL.
DROP TRIGGER IF EXISTS mitra_has_both_names ON mitras;
ALTER TABLE mitras ALTER COLUMN name SET NOT NULL;
ALTER TABLE mitras DROP CONSTRAINT IF EXISTS mitras_has_name;
ALTER TABLE mitras DROP COLUMN IF EXISTS display_name;
DROP FUNCTION IF EXISTS mitra_has_both_names();
