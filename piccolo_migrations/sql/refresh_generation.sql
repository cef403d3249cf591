-- A token of a later generation than the present one was given out in a history that a failover has lost.
ALTER TABLE auth_sessions ADD COLUMN IF NOT EXISTS refresh_generation BIGINT;

-- A process of an older version rotates without this column: what it left there is not the present token's.
CREATE OR REPLACE FUNCTION forget_refresh_generation() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.refresh_generation := NULL;
  RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER forget_refresh_generation BEFORE UPDATE OF refresh_token_hash ON auth_sessions FOR EACH ROW
  WHEN (NEW.refresh_token_hash <> OLD.refresh_token_hash AND NEW.refresh_generation IS NOT DISTINCT FROM OLD.refresh_generation)
  EXECUTE FUNCTION forget_refresh_generation();
