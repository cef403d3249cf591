-- Rename mitras.display_name to name, first half: copy. Processes of the version before write the old column until all
-- are replaced, so a trigger copies each write.
ALTER TABLE mitras ADD COLUMN IF NOT EXISTS name VARCHAR(100);
CREATE OR REPLACE FUNCTION mitra_has_both_names() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    NEW.name := coalesce(NEW.name, NEW.display_name);
    NEW.display_name := NEW.name;
  ELSIF NEW.name IS DISTINCT FROM OLD.name THEN
    NEW.display_name := NEW.name;
  ELSE
    NEW.name := NEW.display_name;
  END IF;
  RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER mitra_has_both_names
BEFORE INSERT OR UPDATE ON mitras
FOR EACH ROW EXECUTE FUNCTION mitra_has_both_names();

-- next transaction
UPDATE mitras SET name = display_name
WHERE name IS NULL;

-- next transaction
ALTER TABLE mitras DROP CONSTRAINT IF EXISTS mitras_has_name;
ALTER TABLE mitras ADD CONSTRAINT mitras_has_name CHECK (name IS NOT NULL) NOT VALID;

-- next transaction
ALTER TABLE mitras VALIDATE CONSTRAINT mitras_has_name;
