-- The generation of a refresh token belongs to that token. A process of version 0.1 rotates tokens without this column:
-- the number that it leaves behind is not the new token's, so it is removed.

CREATE OR REPLACE FUNCTION forget_refresh_generation() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
  NEW.refresh_generation := NULL;
  RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER forget_refresh_generation
BEFORE UPDATE OF refresh_token_hash ON auth_sessions
FOR EACH ROW WHEN (
  NEW.refresh_token_hash <> OLD.refresh_token_hash
  AND NEW.refresh_generation IS NOT DISTINCT FROM OLD.refresh_generation
)
EXECUTE FUNCTION forget_refresh_generation();
